"""Reading settings: the file, then the environment, then flags."""

from __future__ import annotations

import dataclasses
import keyword
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from replaydiff.replay.errors import SettingsError
from replaydiff.replay.settings.complaints import refuse_unknown, type_error
from replaydiff.replay.settings.whole import FILE_NAME, NAMED_TABLES, SUBTABLES, Settings, keys_of, sections

Section = TypeVar("Section")


def load(start: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read replay.toml (from `start` upwards) and the environment.

    Raises:
        SettingsError: bad TOML, an unknown key, or a value of the wrong type, with file and line.
    """
    import msgspec

    file = find(start or Path.cwd())
    text = _read(file) if file else ""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file} is not valid TOML: {error}", hint="mend that line") from None
    refuse_unknown(data, file, text)
    _lay_environment(data, os.environ if environ is None else environ)

    def table(type_: type, value: Any, *path: str) -> Any:
        try:
            return msgspec.convert(value, type=type_)
        except msgspec.ValidationError as error:
            raise SettingsError(type_error(str(error), type_, path, file, text)) from None

    found: dict[str, Any] = {
        f"{name}_" if keyword.iskeyword(name) else name: table(type_, data[name], name)
        for name, type_ in sections().items()
        if name in data
    }
    for name, type_ in NAMED_TABLES.items():
        entries = data.get(name, {})
        found[name] = {entry: table(type_, value, name, entry) for entry, value in entries.items()}
    root = file.parent if file else Path.cwd()
    return Settings(**found, root=root, file=file, given=frozenset(data))


def find(start: Path) -> Path | None:
    """The nearest replay.toml in `start` or above it, as git finds its own folder."""
    for folder in (start.resolve(), *start.resolve().parents):
        candidate = folder / FILE_NAME
        if candidate.is_file():
            return candidate
    return None


def override(section: Section, **flags: Any) -> Section:
    """The section with every flag that was given (is not None) laid over it."""
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return dataclasses.replace(section, **given)  # type: ignore[type-var]
    except ValueError as error:
        raise SettingsError(f"--{error}") from None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be read: {error}; it must be a UTF-8 text file") from None


def _lay_environment(data: dict[str, Any], environ: Mapping[str, str]) -> None:
    """`REPLAY_RUN_TRIALS=3` is `trials = 3` in `[run]`; values are TOML where they can be, else text."""
    tables: dict[tuple[str, ...], type] = {(section,): type_ for section, type_ in sections().items()}
    for section, inner in SUBTABLES.items():
        tables.update({(section, name): type_ for name, type_ in inner.items()})
    for path, type_ in tables.items():
        for key in keys_of(type_):
            raw = environ.get("_".join(("REPLAY", *path, key)).upper())
            if raw is None:
                continue
            try:
                value = tomllib.loads(f"value = {raw}")["value"]
            except tomllib.TOMLDecodeError:
                value = raw
            table = data
            for name in path:
                table = table.setdefault(name, {})
            table[key] = value
