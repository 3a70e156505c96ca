"""Reading a golden set of any form, and changing one case of it; every other stays byte for byte as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from replaydiff.replay.errors import InputError
from replaydiff.replay.golden import csv_form, json_form, yaml_form
from replaydiff.replay.golden.case import case_of
from replaydiff.replay.golden.text import BOM, Form, FormError, Piece, form_of, read_text
from replaydiff.replay.model import Case, JsonObject

_FORMS: dict[Form, Callable[[str], Iterator[Piece]]] = {
    Form.LINES: json_form.lines,
    Form.ARRAY: json_form.array,
    Form.YAML: yaml_form.items,
    Form.CSV: csv_form.rows,
}


def read_golden(path: Path) -> list[Case]:
    """Return the cases of a file, in its order; an empty file has none.

    Raises:
        InputError: the file cannot be read, or a case in it; names file, line and field.
    """
    cases: list[Case] = []
    lines: dict[str, int] = {}
    for line, case in each_case(path):
        if isinstance(case, InputError):
            raise case
        if case.id in lines:
            raise InputError(
                f"{path}:{line}: id {case.id!r} is already that of line {lines[case.id]}", hint="rename one"
            )
        lines[case.id] = line
        cases.append(case)
    return cases


def each_case(path: Path) -> Iterator[tuple[int, Case | InputError]]:
    """Yield each case of a file with its line, or the error there; ids may come twice.

    Raises:
        InputError: the file cannot be read as a whole.
    """
    for piece in pieces_of(path, read_text(path)):
        try:
            if isinstance(piece.record, InputError):
                raise InputError(f"{path}:{piece.line}: {piece.record}")
            yield piece.line, case_of(piece.record, f"{path}:{piece.line}")
        except InputError as error:
            yield piece.line, error


def pieces_of(path: Path, text: str, form: Form | None = None) -> list[Piece]:
    """Return the positions of a file's cases in its text; `form` defaults to the detected one.

    Raises:
        InputError: the text is not of that form at all.
    """
    try:
        return list(_FORMS[form or form_of(path, text)](text))
    except FormError as error:
        raise InputError(f"{path}:{error.line}: {error}") from None


def with_case(path: Path, text: str, record: JsonObject) -> str:
    """Return the text with one more case, before the first whose id is greater.

    Raises:
        InputError: the file is of a form that cases are not added to.
    """
    form, pieces = _writable(path, text)
    position = next(
        (index for index, piece in enumerate(pieces) if id_of(piece) > str(record["id"])), len(pieces)
    )
    if form is Form.ARRAY:
        return _ended(text, json_form.array_with(text, pieces, position, record))
    new = _block(form, record, text, pieces)
    if position < len(pieces):
        start = pieces[position].start
        return _ended(text, text[:start] + new + text[start:])
    end = pieces[-1].end if pieces else len(text)
    if form is Form.YAML and not pieces and yaml_form.load(text).value == []:
        end = text.rindex("[")
        return _ended(text, text[:end] + new + text[text.rindex("]") + 1 :].lstrip())
    between = "" if text[:end].removeprefix(BOM).endswith("\n") or not text[:end].strip(BOM) else "\n"
    return _ended(text, text[:end] + between + new + text[end:])


def without(path: Path, text: str, piece: Piece) -> str:
    """Return the text without this piece of it.

    Raises:
        InputError: the file is of a form that cases are not taken out of.
    """
    form, pieces = _writable(path, text)
    if form is Form.ARRAY:
        return json_form.array_without(
            text, pieces, [candidate.start for candidate in pieces].index(piece.start)
        )
    return text[: piece.start] + text[piece.end :]


def replaced(path: Path, text: str, piece: Piece, new: str) -> str:
    """Return the text with another in place of this piece.

    An object of JSON, or an item of YAML (`source_of`).
    """
    form, pieces = _writable(path, text)
    if form is Form.YAML:
        margin = yaml_form.margin_of(text, pieces)
        lines = [f"{margin}{line}" if line.strip() else line for line in new.splitlines(keepends=True)]
        new = "".join(lines)
    elif form is Form.LINES:
        new += "\n" if text[piece.start : piece.end].endswith("\n") else ""
    return _ended(text, text[: piece.start] + new + text[piece.end :])


def rewritten(path: Path, text: str, piece: Piece, record: JsonObject) -> str:
    """Return the text with this record in place of the piece."""
    form, pieces = _writable(path, text)
    if form is Form.ARRAY:
        return replaced(path, text, piece, json_form.element_of(record, text, pieces))
    return replaced(
        path, text, piece, yaml_form.item_of(record) if form is Form.YAML else json_form.line_of(record)
    )


def source_of(path: Path, text: str, piece: Piece) -> str:
    """Return the text of one case, with its comments, as a document of its own."""
    _, pieces = _writable(path, text)
    source, margin = text[piece.start : piece.end], yaml_form.margin_of(text, pieces)
    return "".join(
        line.removeprefix(margin) for line in source.replace("\r\n", "\n").splitlines(keepends=True)
    )


def id_of(piece: Piece) -> str:
    """Return the id that is written there; empty without one."""
    return str(piece.record.get("id", "")) if isinstance(piece.record, dict) else ""


def _writable(path: Path, text: str) -> tuple[Form, list[Piece]]:
    form = form_of(path, text)
    if form is Form.CSV:
        raise InputError(
            f"{path} is a table, which is read only",
            hint=(f"make a golden set of it with `replay cases convert {path} {path.with_suffix('.jsonl')}`"),
        )
    pieces = pieces_of(path, text)
    if form is Form.YAML and pieces and yaml_form.is_flow(text):
        raise InputError(f"{path} is one list in brackets", hint="write it with a dash for each case")
    broken = next((piece for piece in pieces if piece.broken), None)
    if broken is not None:
        raise InputError(f"{path}:{broken.line}: {broken.record}")
    return form, pieces


def _block(form: Form, record: JsonObject, text: str, pieces: list[Piece]) -> str:
    if form is Form.YAML:
        return yaml_form.item_of(record, yaml_form.margin_of(text, pieces))
    return json_form.line_of(record) + "\n"


def _ended(before: str, after: str) -> str:
    """Return the new text with the line ends of the old one."""
    if "\r\n" not in before:
        return after
    return after.replace("\r\n", "\n").replace("\n", "\r\n")
