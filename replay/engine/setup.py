"""The file of a `messages` version: what is told to the model in the place of what the trace says.

One JSON object: `system` (text), `tools` (definitions as Anthropic or OpenAI write them), `model`,
`max_tokens`. What it leaves out comes from the trace.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from replaydiff.replay.errors import VersionError
from replaydiff.replay.messages import parse
from replaydiff.replay.model import JsonObject

_KEYS: dict[str, tuple[type, str]] = {
    "system": (str, "text"),
    "tools": (list, "a list"),
    "model": (str, "text"),
    "max_tokens": (int, "a whole number"),
}


def read_setup(file: Path) -> JsonObject:
    """What the file says.

    Raises:
        VersionError: it cannot be read, or says something else than a setup.
    """
    try:
        setup: Any = parse(file.read_bytes())
    except OSError as error:
        raise VersionError(f"the setup {file} cannot be read: {error.strerror}; mend its path") from None
    except ValueError as error:
        raise VersionError(f"the setup {file} is no JSON: {error}; mend it") from None
    if not isinstance(setup, dict):
        raise VersionError(f"the setup {file} must be a JSON object with {', '.join(_KEYS)}")
    for key, value in setup.items():
        if key not in _KEYS:
            raise VersionError(f"the setup {file} has an unknown key {key!r}; known are {', '.join(_KEYS)}")
        kind, word = _KEYS[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise VersionError(f"{key!r} in the setup {file} must be {word}")
    return setup
