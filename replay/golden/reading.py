"""Reading a golden set of any form, and saying what is wrong in it by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from replaydiff.replay.errors import InputError
from replaydiff.replay.golden import csv_form, json_form, yaml_form
from replaydiff.replay.golden.case import case_of
from replaydiff.replay.golden.piece import FormError, Piece
from replaydiff.replay.golden.text import Form, form_of, read_text
from replaydiff.replay.model import Case

_FORMS: dict[Form, Callable[[str], Iterator[Piece]]] = {
    Form.LINES: json_form.lines,
    Form.ARRAY: json_form.array,
    Form.YAML: yaml_form.items,
    Form.CSV: csv_form.rows,
}


def read_golden(path: Path) -> list[Case]:
    """The cases of a file, in its order; an empty file has none.

    Raises:
        InputError: the file cannot be read, or a case in it; names file, line and field.
    """
    cases: list[Case] = []
    lines: dict[str, int] = {}
    for line, found in each_case(path):
        if isinstance(found, InputError):
            raise found
        if found.id in lines:
            raise InputError(
                f"{path}:{line}: id {found.id!r} is already that of line {lines[found.id]}; rename one"
            )
        lines[found.id] = line
        cases.append(found)
    return cases


def each_case(path: Path) -> Iterator[tuple[int, Case | InputError]]:
    """Each case of a file with its line, or what is wrong there; ids may come twice.

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
    """Where the cases of a file stand in its text; without `form`, in that which its name and text say.

    Raises:
        InputError: the text is not of that form at all.
    """
    try:
        return list(_FORMS[form or form_of(path, text)](text))
    except FormError as error:
        raise InputError(f"{path}:{error.line}: {error}") from None
