"""Read and write cases as a table, one row each, for flat sets. Values other than text are JSON.

`tags`, `expected_tools`, `expected_response_traits` and `expected_fields` are lists: texts between
semicolons, or a JSON list. `metadata.NAME` columns go into the metadata. An empty cell says nothing.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from replaydiff.replay.errors import InputError
from replaydiff.replay.golden.json_form import parse
from replaydiff.replay.golden.text import BOM, FormError, Piece, allow_long_cells
from replaydiff.replay.model import JsonObject

_TEXTS = {"id", "input", "question", "expected_answer", "answer", "tolerance", "category", "difficulty"}
_NUMBERS = {"max_latency_ms", "max_cost_usd", "threshold"}
_LISTS = {"tags", "expected_tools", "expected_response_traits", "expected_fields"}
_JSON = {"messages", "expected_tool_calls", "match", "criteria", "expected_state", "tape", "metadata"}
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def rows(text: str) -> Iterator[Piece]:
    """Yield the cases of a table with names in its first line; commas, semicolons or tabs separate cells.

    Raises:
        FormError: there is no table.
    """
    allow_long_cells()
    text = text.removeprefix(BOM)
    if not text.strip():
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    try:
        names = [name.strip() for name in next(reader)]
    except csv.Error as error:
        raise FormError(f"not a table: {error}") from None
    twice = next((name for index, name in enumerate(names) if name and name in names[:index]), None)
    if twice is not None:
        raise FormError(f"not a table of cases: two columns are named {twice[:60]!r}")
    if not {"input", "question", "messages"} & set(names):
        raise FormError(
            "not a table of cases: its first line must name the columns, one of them input or question"
        )
    line = reader.line_num + 1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield Piece(line, 0, 0, InputError(f"not a row: {error}; quotes inside a cell are doubled"))
            return
        if any(cell.strip() for cell in cells):
            yield Piece(line, 0, 0, _record(names, cells))
        line = reader.line_num + 1


def table(records: Sequence[JsonObject]) -> str:
    """Return the records as a table; columns in the order in which they first come."""
    names = list(dict.fromkeys(name for record in records for name in record)) or ["id", "input"]
    return "".join([_row(names), *(_row([_cell(n, record.get(n)) for n in names]) for record in records)])


def _row(cells: Sequence[str]) -> str:
    out = io.StringIO()
    # With the longer line end, a lone carriage return inside a cell is quoted, too.
    csv.writer(out, lineterminator="\r\n").writerow(cells)
    return out.getvalue().removesuffix("\r\n") + "\n"


def _delimiter(text: str) -> str:
    head = text.split("\n", 1)[0]
    return max(",;\t", key=head.count)


def _record(names: Sequence[str], cells: Sequence[str]) -> Any:
    if len(cells) > len(names):
        return InputError(f"the row has {len(cells)} cells and the first line {len(names)} names")
    record: JsonObject = {}
    metadata: JsonObject = {}
    try:
        for name, cell in zip(names, cells, strict=False):
            if not name or not cell.strip():
                continue
            if name.startswith("metadata."):
                metadata[name.removeprefix("metadata.")] = cell
            else:
                record[name] = _value(name, cell)
    except InputError as error:
        return InputError(f"column {name}: {error}")
    if metadata:
        metadata_cell = record.get("metadata")
        record["metadata"] = metadata | metadata_cell if isinstance(metadata_cell, dict) else metadata
    return record


def _value(name: str, cell: str) -> Any:
    if name in _TEXTS:
        return cell
    if name in _LISTS:
        if cell.lstrip().startswith("["):
            return parse(cell)
        return [part.strip() for part in cell.split(";") if part.strip()]
    if name in _NUMBERS:
        if not _NUMBER.fullmatch(cell.strip()):
            raise InputError(f"must be a number, not {cell[:40]!r}")
        return parse(cell)
    if name in _JSON and name != "match":
        return parse(cell)
    try:
        return parse(cell)
    except InputError:
        return cell


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name in _TEXTS and isinstance(value, str):
        return value
    if name in _LISTS and value and all(_plain(entry) for entry in value):
        return "; ".join(value)
    if isinstance(value, str) and (name == "match" or name not in _JSON) and not _reads_as_json(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _plain(text: str) -> bool:
    return bool(text) and text == text.strip() and not text.startswith("[") and ";" not in text


def _reads_as_json(text: str) -> bool:
    try:
        parse(text)
    except InputError:
        return not text.strip()
    return True
