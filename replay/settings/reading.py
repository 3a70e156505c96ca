"""Reading settings: the file, then the environment, then `--set` and flags; and the errors in them.

An error names the file, its line and the key.
"""

from __future__ import annotations

import dataclasses
import difflib
import keyword
import os
import re
import tomllib
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from replaydiff.replay.errors import SettingsError
from replaydiff.replay.model.case import Assertion, PathRule, ToolMatch
from replaydiff.replay.settings.sections import (
    FILE_NAME,
    NAMED_TABLES,
    SUBTABLES,
    Settings,
    keys_of,
    sections,
)

ASSERT = "assert"
"""The list of tables among the sections."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Source:
    """Where values come from, to name the location of one that is wrong."""

    file: Path | None
    text: str
    """Of the file."""
    overrides: dict[tuple[str, ...], str] = dataclasses.field(default_factory=dict)
    """Path of a key → the variable or the `--set` that assigns it."""

    def location(self, path: tuple[str, ...]) -> str:
        """Return what assigns a key, or `file:line`, by reading the file (tomllib keeps no positions)."""
        for assigned, name in reversed(self.overrides.items()):
            if path[: len(assigned)] == assigned:
                return name
        table: tuple[str, ...] = ()
        for number, line in enumerate(self.text.splitlines(), start=1):
            header = re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]", line)
            if (match := header or re.match(r"\s*([^=#]+?)\s*=", line)) is None:
                continue
            names = tuple(part.strip().strip("\"'") for part in match[1].split("."))
            if header:
                table, names = names, ()
            if (*table, *names)[: len(path)] == path:
                return f"{self.file}:{number}"
        return str(self.file or "the environment or --set")


def _refuse_unknown(data: dict[str, Any], source: _Source) -> None:
    """Refuse sections and keys that no section has."""
    tables = sections()
    _refuse(data, {*tables, *NAMED_TABLES, ASSERT}, (), source)
    for name, value in data.items():
        if name == ASSERT:
            if not isinstance(value, list) or not all(isinstance(assertion, dict) for assertion in value):
                raise SettingsError(
                    f"{source.location((name,))}: {name!r} must be a list of tables, [[{name}]]"
                )
            for assertion in value:
                _refuse(assertion, keys_of(Assertion), (name,), source)
            continue
        if not isinstance(value, dict):
            raise SettingsError(f"{source.location((name,))}: {name!r} must be a table, [{name}]")
        if name in tables:
            _refuse(value, keys_of(tables[name]), (name,), source)
            for inner, type_ in SUBTABLES.get(name, {}).items():
                if isinstance(value.get(inner), dict):
                    _refuse(value[inner], keys_of(type_), (name, inner), source)
            if name == "match" and isinstance(value.get("tools"), dict):
                for tool, rules in value["tools"].items():
                    _refuse_in_match(rules, (name, "tools", tool), source)
            continue
        for entry, keys in value.items():
            if not isinstance(keys, dict):
                where = source.location((name, entry))
                raise SettingsError(f"{where}: {name}.{entry} must be a table, [{name}.{entry}]")
            _refuse(keys, keys_of(NAMED_TABLES[name]), (name, entry), source)
            if name == "tools":
                _refuse_in_match(keys.get("match"), (name, entry, "match"), source)


def _refuse_in_match(rules: Any, path: tuple[str, ...], source: _Source) -> None:
    """Refuse unknown keys of a `ToolMatch` and of the rules in it."""
    if not isinstance(rules, dict):
        return
    _refuse(rules, keys_of(ToolMatch), path, source)
    paths = rules.get("paths")
    for argument_path, rule in paths.items() if isinstance(paths, dict) else ():
        if isinstance(rule, dict):
            _refuse(rule, keys_of(PathRule), (*path, "paths", argument_path), source)


def _refuse(table: dict[str, Any], allowed: set[str], section: tuple[str, ...], source: _Source) -> None:
    for key in table:
        if key in allowed:
            continue
        near = difflib.get_close_matches(key, allowed, n=1, cutoff=0.5)
        advice = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(allowed))}"
        problem = f"unknown key {key!r} in [{'.'.join(section)}]" if section else f"unknown section [{key}]"
        raise SettingsError(f"{source.location((*section, key))}: {problem}; {advice}")


_WORDS = {
    "array": "a list",
    "object": "a table",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}
"""What a person calls the types of JSON that msgspec names."""


def _type_error(message: str, type_: type, path: tuple[str, ...], source: _Source) -> str:
    """Return the sentence for a value that msgspec refuses."""
    problem, _, inside = message.partition(" - at `$")
    keys = (*path, *(key for key in re.sub(r"\[[^\]]*\]", "", inside.rstrip("`")).split(".") if key))
    subject = problem.split()[0]
    if subject in keys_of(type_):
        return f"{source.location((*keys, subject))}: [{'.'.join(keys)}] {problem}"
    wrong = re.match(r"Expected `(.+?)`, got `(.+?)`", problem)
    if wrong:
        expected = " or ".join(_WORDS.get(name, name) for name in wrong[1].split(" | ") if name != "null")
        problem = f"expected {expected}, not {_WORDS.get(wrong[2], wrong[2])}"
    within = SUBTABLES.get(keys[0], {}).get(keys[1] if len(keys) > 2 else "", type_)
    allowed = _allowed(typing.get_type_hints(within).get(keys[-1]))
    if problem.startswith("Invalid enum value") and allowed:
        value = problem.removeprefix("Invalid enum value ").replace("`", "")
        problem = f"{value} is none of {', '.join(allowed)}"
    return f"{source.location(keys)}: {'.'.join(keys)}: {problem}"


def _allowed(hint: Any) -> list[str]:
    """Return the allowed values of a key with a fixed set of them."""
    if typing.get_origin(hint) is Literal:
        return [repr(value) for value in typing.get_args(hint)]
    if typing.get_origin(hint) is tuple:
        return _allowed(typing.get_args(hint)[0]) or ["a list"]
    return [word for part in typing.get_args(hint) for word in _allowed(part)]


Section = TypeVar("Section")


def load(
    start: Path | None = None, environ: Mapping[str, str] | None = None, assignments: Sequence[str] = ()
) -> Settings:
    """Read replay.toml (from `start` upwards), the environment, and what `--set` assigns.

    Args:
        start: the folder where the search begins; default the current one.
        environ: the variables; default those of this process.
        assignments: each `SECTION.KEY=VALUE`; they override the file and the environment.

    Raises:
        SettingsError: bad TOML, an unknown key, or a value of the wrong type, with file and line.
    """
    import msgspec

    file = find(start or Path.cwd())
    text = _read(file) if file else ""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file} is not valid TOML: {error}", hint="correct that line") from None
    source = _Source(file, text)
    _refuse_unknown(data, source)
    source.overrides.update(_lay_environment(data, os.environ if environ is None else environ))
    assigned = {_assign(data, assignment): assignment for assignment in assignments}
    source.overrides.update({path: f"--set {assignment}" for path, assignment in assigned.items()})

    def table(type_: type, value: Any, *path: str) -> Any:
        try:
            return msgspec.convert(value, type=type_)
        except msgspec.ValidationError as error:
            raise SettingsError(_type_error(str(error), type_, path, source)) from None

    tables: dict[str, Any] = {
        f"{name}_" if keyword.iskeyword(name) else name: table(type_, data[name], name)
        for name, type_ in sections().items()
        if name in data
    }
    for name, type_ in NAMED_TABLES.items():
        entries = data.get(name, {})
        tables[name] = {entry: table(type_, value, name, entry) for entry, value in entries.items()}
    if ASSERT in data:
        tables["assert_"] = tuple(table(Assertion, assertion, ASSERT) for assertion in data[ASSERT])
    root = file.parent if file else Path.cwd()
    return Settings(
        **tables,
        root=root,
        file=file,
        named_sections=frozenset(data),
        assigned=frozenset(".".join(path) for path in assigned),
    )


def find(start: Path) -> Path | None:
    """Return the nearest replay.toml in `start` or above it, as git finds its own folder."""
    for folder in (start.resolve(), *start.resolve().parents):
        candidate = folder / FILE_NAME
        if candidate.is_file():
            return candidate
    return None


def override(section: Section, **flags: Any) -> Section:
    """Return the section with every flag that was set (is not None) laid over it."""
    changes = {name: value for name, value in flags.items() if value is not None}
    try:
        return dataclasses.replace(section, **changes)  # type: ignore[type-var]
    except ValueError as error:
        raise SettingsError(f"--{error}") from None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be read: {error}; it must be a UTF-8 text file") from None


def _lay_environment(data: dict[str, Any], environ: Mapping[str, str]) -> dict[tuple[str, ...], str]:
    """Apply the environment, `REPLAY_RUN_TRIALS=3` as `trials = 3` of `[run]`; return path → variable."""
    tables: dict[tuple[str, ...], type] = {(section,): type_ for section, type_ in sections().items()}
    for section, inner in SUBTABLES.items():
        tables.update({(section, name): type_ for name, type_ in inner.items()})
    variables = {
        (*path, key): "_".join(("REPLAY", *path, key)).upper()
        for path, type_ in tables.items()
        for key in keys_of(type_)
    }
    assigned = {path: variable for path, variable in variables.items() if variable in environ}
    for path, variable in assigned.items():
        _lay(data, path, environ[variable])
    return assigned


def _assign(data: dict[str, Any], assignment: str) -> tuple[str, ...]:
    """Lay `SECTION.KEY=VALUE` over the data, and return the path of the key.

    Raises:
        SettingsError: it has another form, or names no key.
    """
    name, equals, raw = assignment.partition("=")
    path = tuple(part.strip() for part in name.split("."))
    if not equals or len(path) < 2 or not all(path):
        raise SettingsError(
            f"--set {assignment!r} has not the form SECTION.KEY=VALUE", hint="such as --set run.retries=0"
        )
    assigned: dict[str, Any] = {}
    _lay(assigned, path, raw)
    _refuse_unknown(assigned, _Source(None, "", {(): f"--set {assignment}"}))
    _lay(data, path, raw)
    return path


def _lay(data: dict[str, Any], path: tuple[str, ...], raw: str) -> None:
    """Put a value at a path; it is TOML where it can be, else text."""
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw
    table = data
    for name in path[:-1]:
        if not isinstance(table.get(name), dict):
            # A value in a table's place is refused with its key, once all is laid.
            table[name] = {}
        table = table[name]
    table[path[-1]] = value
