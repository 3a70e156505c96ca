"""The environment of a version as a run stores it: hashes with a key that is beside the store.

With the key, a resumed run recognises the variable that was changed. Without it, nobody who has the store, a
report or an export can guess a value.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from replaydiff.replay.errors import InputError
from replaydiff.replay.files import home_of, private_folder

_KEYS, _KEY_FILE = "keys", "environment"
_KEY_BYTES = 32
_LETTERS = 32
"""Of a hash: 128 bits."""


def hashed_environment(environment: Mapping[str, str], data_folder: Path) -> dict[str, str]:
    """Return the hash of each variable's value.

    Args:
        environment: the variables that a version sets.
        data_folder: `.replay`, which has the key; it is created where it is missing.

    Raises:
        InputError: the key cannot be read or written.
    """
    if not environment:
        return {}
    key = _key(data_folder)
    return {
        name: hmac.new(key, f"{name}={value}".encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()[
            :_LETTERS
        ]
        for name, value in environment.items()
    }


def _key(data_folder: Path) -> bytes:
    file = data_folder / _KEYS / _KEY_FILE
    try:
        if file.exists():
            return file.read_bytes()
        private_folder(data_folder)
        folder = home_of(data_folder, _KEYS)
        with contextlib.suppress(FileExistsError):
            # Another process finds the whole key or none.
            temporary = folder / f"{_KEY_FILE}.{secrets.token_hex(4)}"
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(descriptor, secrets.token_bytes(_KEY_BYTES))
                file.hardlink_to(temporary)
            finally:
                os.close(descriptor)
                temporary.unlink()
        return file.read_bytes()
    except OSError as error:
        raise InputError(
            f"the key {file} cannot be used: {error.strerror}", hint="make its folder readable and writable"
        ) from None
