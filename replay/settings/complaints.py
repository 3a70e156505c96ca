"""What is wrong in replay.toml, with its file, line and key."""

from __future__ import annotations

import difflib
import re
import typing
from pathlib import Path
from typing import Any, Literal

from replaydiff.replay.errors import SettingsError
from replaydiff.replay.model.case import PathRule, ToolMatch
from replaydiff.replay.settings.whole import NAMED_TABLES, SUBTABLES, keys_of, sections


def refuse_unknown(data: dict[str, Any], file: Path | None, text: str) -> None:
    tables = sections()
    _refuse(data, {*tables, *NAMED_TABLES}, (), file, text)
    for name, value in data.items():
        if not isinstance(value, dict):
            raise SettingsError(f"{_place(file, text, (name,))}: {name!r} must be a table, [{name}]")
        if name in tables:
            _refuse(value, keys_of(tables[name]), (name,), file, text)
            for inner, type_ in SUBTABLES.get(name, {}).items():
                if isinstance(value.get(inner), dict):
                    _refuse(value[inner], keys_of(type_), (name, inner), file, text)
            if name == "match" and isinstance(value.get("tools"), dict):
                for tool, rules in value["tools"].items():
                    _refuse_in_match(rules, (name, "tools", tool), file, text)
            continue
        for entry, keys in value.items():
            if not isinstance(keys, dict):
                where = _place(file, text, (name, entry))
                raise SettingsError(f"{where}: {name}.{entry} must be a table, [{name}.{entry}]")
            _refuse(keys, keys_of(NAMED_TABLES[name]), (name, entry), file, text)
            if name == "tools":
                _refuse_in_match(keys.get("match"), (name, entry, "match"), file, text)


def _refuse_in_match(rules: Any, path: tuple[str, ...], file: Path | None, text: str) -> None:
    """The keys of a `ToolMatch`, and of the rules in it."""
    if not isinstance(rules, dict):
        return
    _refuse(rules, keys_of(ToolMatch), path, file, text)
    paths = rules.get("paths")
    for place, rule in paths.items() if isinstance(paths, dict) else ():
        if isinstance(rule, dict):
            _refuse(rule, keys_of(PathRule), (*path, "paths", place), file, text)


def _refuse(
    table: dict[str, Any], known: set[str], section: tuple[str, ...], file: Path | None, text: str
) -> None:
    for key in table:
        if key in known:
            continue
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        advice = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(known))}"
        what = f"unknown key {key!r} in [{'.'.join(section)}]" if section else f"unknown section [{key}]"
        raise SettingsError(f"{_place(file, text, (*section, key))}: {what}; {advice}")


def _place(file: Path | None, text: str, path: tuple[str, ...]) -> str:
    """`file:line` of a key, found by reading the file's lines (tomllib keeps no positions)."""
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]", line)
        if header:
            table = tuple(part.strip().strip("\"'") for part in header[1].split("."))
            if table[: len(path)] == path:
                return f"{file}:{number}"
            continue
        key = re.match(r"\s*([^=#]+?)\s*=", line)
        if key and (*table, *(part.strip().strip("\"'") for part in key[1].split(".")))[: len(path)] == path:
            return f"{file}:{number}"
    return str(file or "the environment")


_WORDS = {
    "array": "a list",
    "object": "a table",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}
"""What a person calls the types of JSON that msgspec names."""


def type_error(message: str, type_: type, path: tuple[str, ...], file: Path | None, text: str) -> str:
    what, _, inside = message.partition(" - at `$")
    keys = (*path, *(key for key in re.sub(r"\[[^\]]*\]", "", inside.rstrip("`")).split(".") if key))
    subject = what.split()[0]
    if subject in keys_of(type_):
        return f"{_place(file, text, (*keys, subject))}: [{'.'.join(keys)}] {what}"
    wrong = re.match(r"Expected `(.+?)`, got `(.+?)`", what)
    if wrong:
        wanted = " or ".join(_WORDS.get(name, name) for name in wrong[1].split(" | ") if name != "null")
        what = f"expected {wanted}, not {_WORDS.get(wrong[2], wrong[2])}"
    within = SUBTABLES.get(keys[0], {}).get(keys[1] if len(keys) > 2 else "", type_)
    allowed = _allowed(typing.get_type_hints(within).get(keys[-1]))
    if what.startswith("Invalid enum value") and allowed:
        value = what.removeprefix("Invalid enum value ").replace("`", "")
        what = f"{value} is none of {', '.join(allowed)}"
    return f"{_place(file, text, keys)}: {'.'.join(keys)}: {what}"


def _allowed(hint: Any) -> list[str]:
    """What a key with set values may be, in words."""
    if typing.get_origin(hint) is Literal:
        return [repr(value) for value in typing.get_args(hint)]
    if typing.get_origin(hint) is tuple:
        return _allowed(typing.get_args(hint)[0]) or ["a list"]
    return [word for part in typing.get_args(hint) for word in _allowed(part)]
