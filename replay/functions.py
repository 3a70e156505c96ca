"""A function that the user names in settings or in a case: `module:function` or `./file.py:function`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from replaydiff.replay.errors import SettingsError
from replaydiff.replay.trust import require_trust


def load_function(target: str, root: Path, what: str) -> Callable[..., Any]:
    """Return the function of that name.

    Args:
        target: `module:function`, or `./file.py:function` relative to `root`.
        root: the folder of replay.toml; a module beside it is found as well as an installed one.
        what: where it is named, for errors: "[import.redact] hook".

    Raises:
        SettingsError: there is no such function, or its module cannot be imported.
        UntrustedError: the user has not trusted this folder.
    """
    source, _, name = target.rpartition(":")
    if not source or not name:
        raise SettingsError(
            f"{what} = {target!r} names no function", hint="write module:function or ./file.py:function"
        )
    require_trust(root, f"{what} = {target!r}")
    try:
        module = _file_module(root / source) if source.endswith(".py") else _module(source, root)
        function = getattr(module, name)
    except Exception as error:  # noqa: BLE001 - the user's module may raise anything
        raise SettingsError(f"{what} = {target!r} cannot be loaded: {error}") from None
    if not callable(function):
        raise SettingsError(f"{what} = {target!r} is not a function")
    return function  # type: ignore[no-any-return]


def _module(name: str, root: Path) -> ModuleType:
    sys.path.insert(0, str(root))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(root))


def _file_module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"replay_user_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    module = importlib.util.module_from_spec(spec)
    # A dataclass in it looks its module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
