"""A case as a text that a person edits, JSON or YAML, and what is wrong in it by line."""

from __future__ import annotations

import json
import re
from typing import Any

from replaydiff.replay.errors import InputError
from replaydiff.replay.golden import CaseError, case_of, case_to_json, json_form, yaml_form
from replaydiff.replay.golden.piece import FormError
from replaydiff.replay.golden.text import line_at
from replaydiff.replay.model import Case

_STEPS = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class EditError(InputError):
    """The text is no case; `line` is where, from 1, as far as it is known."""

    def __init__(self, said: str, line: int | None) -> None:
        """`said` names the line itself where it is not the whole text."""
        super().__init__(said)
        self.line = line


def text_of(case: Case, *, yaml: bool = False) -> str:
    """The case as JSON, a value a line, or as YAML."""
    record = case_to_json(case)
    return yaml_form.dump(record) if yaml else json.dumps(record, ensure_ascii=False, indent=2)


def read_case(text: str) -> Case:
    """The case that a person wrote, as a JSON object or as YAML.

    Raises:
        EditError: it is none.
    """
    return read_record(text)[1]


def read_record(text: str) -> tuple[dict[str, Any], Case]:
    """What a person wrote, a JSON object or YAML (alone, or as the one item of a list), and the case it is.

    Raises:
        EditError: it is none.
    """
    record = _json(text) if text.lstrip().startswith("{") else _yaml(text)
    if isinstance(record, list) and len(record) == 1:
        record = record[0]
    try:
        return record, case_of(record)
    except CaseError as error:
        line = _line_of(text, error.field)
        raise EditError(f"line {line}: {error.said}" if line else error.said, line) from None


def _json(text: str) -> Any:
    start = text.index("{")
    try:
        record, end = json_form.decode_at(text, start)
    except json.JSONDecodeError as error:
        raise EditError(f"line {error.lineno}: not valid JSON: {error.msg}", error.lineno) from None
    except InputError as error:
        raise EditError(str(error), None) from None
    if rest := text[end:].strip():
        line = line_at(text, text.index(rest, end))
        raise EditError(f"line {line}: not valid JSON: more after the end of the case", line)
    return record


def _yaml(text: str) -> Any:
    try:
        return yaml_form.load(text).value
    except FormError as error:
        raise EditError(f"line {error.line}: {error}", error.line) from None


def _line_of(text: str, field: str) -> int | None:
    """Where a field stands, or what is to hold it; None where that cannot be told."""
    try:
        marks = yaml_form.load(text).marks
    except InputError:
        return None
    found = tuple(int(number) if number else name for name, number in _STEPS.findall(field))
    path = (0, *found) if (0,) in marks else found
    for length in range(len(path), 0, -1):
        if path[:length] in marks:
            return line_at(text, marks[path[:length]][0])
    return None
