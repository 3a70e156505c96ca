"""Cases as JSON: an object a line, or one array."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from replaydiff.replay.errors import InputError
from replaydiff.replay.golden.text import BOM, DEEPEST, FormError, Piece, line_at, too_deep
from replaydiff.replay.model import JsonObject

_SPACE = re.compile(r"[ \t\r\n]*")


class _TwiceError(ValueError):
    """A key comes twice in one object."""


def parse(text: str) -> Any:
    """Return one JSON value.

    Raises:
        FormError: it is none. Keys that come twice, NaN, and nesting without end are none.
    """
    try:
        value, end = decode_at(text, _SPACE.match(text).end())  # type: ignore[union-attr]
    except json.JSONDecodeError as error:
        raise FormError(f"not valid JSON: {error.msg} (column {error.colno})", error.lineno) from None
    if (trailing := _SPACE.match(text, end).end()) != len(text):  # type: ignore[union-attr]
        raise FormError("not valid JSON: more after its end", line_at(text, trailing))
    return value


def decode_at(text: str, index: int) -> tuple[Any, int]:
    """Return the JSON value that begins at `index`, and its end.

    Raises:
        json.JSONDecodeError: it is none.
        FormError: it is JSON that no case is written in.
    """
    try:
        value, end = _DECODER.raw_decode(text, index)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise FormError(f"not valid JSON: nested deeper than {DEEPEST}", line_at(text, index)) from None
    except ValueError as error:
        reason = "a number has too many digits" if "int_max_str_digits" in str(error) else str(error)
        raise FormError(f"not valid JSON: {reason}", line_at(text, index)) from None
    if text.count("[", index, end) + text.count("{", index, end) > DEEPEST and too_deep(value):
        raise FormError(f"not valid JSON: nested deeper than {DEEPEST}", line_at(text, index))
    if text.find("\\ud", index, end) >= 0 or text.find("\\uD", index, end) >= 0:
        _hold_text(value)
    return value, end


def lines(text: str) -> Iterator[Piece]:
    """Yield the cases of JSON lines; empty lines are none."""
    start, line = (1 if text.startswith(BOM) else 0), 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        line += 1
        raw = text[start:end]
        if raw.strip():
            yield Piece(line, start, end, _line(raw, whole=raw.endswith("\n")))
        start = end


def array(text: str) -> Iterator[Piece]:
    """Yield the cases of one array. What comes after an element that cannot be read is not read."""
    if not text.strip(f"{BOM} \t\r\n"):
        return
    index = text.index("[") + 1
    while True:
        index = _SPACE.match(text, index).end()  # type: ignore[union-attr]
        if text.startswith("]", index):
            if text[index + 1 :].strip():
                yield _unread(text, index, "more after the end of the array")
            return
        try:
            record, end = decode_at(text, index)
        except json.JSONDecodeError as error:
            yield _unread(text, min(error.pos, len(text)), error.msg)
            return
        except InputError as error:
            yield Piece(line_at(text, index), index, len(text), error)
            return
        yield Piece(line_at(text, index), index, end, record)
        index = _SPACE.match(text, end).end()  # type: ignore[union-attr]
        if text.startswith(",", index):
            index += 1
        elif not text.startswith("]", index):
            yield _unread(text, index, "the array has no end" if index == len(text) else "a comma is missing")
            return


def line_of(record: JsonObject) -> str:
    """Return a case as a line, without its end."""
    return json.dumps(record, ensure_ascii=False)


def element_of(record: JsonObject, text: str, pieces: Sequence[Piece]) -> str:
    """Return a case as an element of an array, over as many lines as its neighbours."""
    if pieces and "\n" not in text[pieces[0].start : pieces[0].end]:
        return line_of(record)
    margin = "  "
    if pieces:
        margin = text[text.rfind("\n", 0, pieces[0].start) + 1 : pieces[0].start]
        margin = margin if not margin.strip() else ""
    return json.dumps(record, ensure_ascii=False, indent=2).replace("\n", f"\n{margin}")


def array_with(text: str, pieces: Sequence[Piece], position: int, record: JsonObject) -> str:
    """Return the text with one more element before the piece of that number."""
    new = element_of(record, text, pieces)
    if not pieces:
        opened = text.index("[") + 1 if "[" in text else 0
        return f"{text[:opened]}\n  {new}\n{text[opened:].lstrip()}" if opened else f"[\n  {new}\n]\n"
    between = text[pieces[0].end : pieces[1].start] if len(pieces) > 1 else ""
    if "," not in between:
        lead = text[text.rfind("\n", 0, pieces[0].start) + 1 : pieces[0].start]
        between = ", " if lead.strip() else f",\n{lead}"
    if position == len(pieces):
        return text[: pieces[-1].end] + between + new + text[pieces[-1].end :]
    start = pieces[position].start
    return text[:start] + new + between + text[start:]


def array_without(text: str, pieces: Sequence[Piece], position: int) -> str:
    """Return the text without the piece of that number, and without one comma."""
    if position + 1 < len(pieces):
        return text[: pieces[position].start] + text[pieces[position + 1].start :]
    if position:
        return text[: pieces[position - 1].end] + text[pieces[position].end :]
    return text[: pieces[0].start].rstrip() + text[pieces[0].end :].lstrip()


def _line(raw: str, whole: bool) -> Any:
    try:
        return parse(raw.strip())
    except FormError as error:
        if not whole and raw.lstrip().startswith("{") and not raw.rstrip().endswith("}"):
            return InputError("not valid JSON: the file ends within this line, as if it was cut off")
        return InputError(f"{error}; one case a line" if "column" in str(error) else str(error))


def _unread(text: str, index: int, reason: str) -> Piece:
    return Piece(line_at(text, index), index, len(text), InputError(f"not valid JSON: {reason}"))


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for index, key in enumerate(keys) if key in keys[:index])
        raise _TwiceError(f"the key {twice[:60]!r} comes twice in one object")
    return record


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_no_number)


def _hold_text(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise FormError("not valid JSON: half a character (a lone surrogate, \\ud8…) in a text") from None
