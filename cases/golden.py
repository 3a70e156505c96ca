"""Writing a golden set: a promotion is one added line (or block of YAML), and no other is touched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from replaydiff.cases.similarity import refuse_duplicates
from replaydiff.replay.errors import InputError, UnknownNameError
from replaydiff.replay.files import write_whole
from replaydiff.replay.golden import case_of, case_to_json, json_form, read_golden
from replaydiff.replay.golden.splicing import pieces_of, with_case, without
from replaydiff.replay.golden.text import Piece, read_text
from replaydiff.replay.locks import locked_folder
from replaydiff.replay.model import Case


def add_cases(path: Path, cases: Sequence[Case], *, force: bool = False) -> None:
    """Add cases, each sorted by id among its neighbours.

    Cases that are there stay byte for byte. The file is read and replaced under a lock, so two processes that
    promote at once lose nothing.

    Raises:
        InputError: an id is taken.
        DuplicateError: a case like one of them is there (without `force`); nothing was changed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked_folder(path.parent):
        present = read_golden(path) if path.exists() else []
        ids = {case.id for case in present}
        for case in cases:
            if case.id in ids:
                raise InputError(f"{path} already has a case {case.id!r}", hint="give another with --id")
            ids.add(case.id)
        if not force:
            refuse_duplicates(path, present, cases)
        text = read_text(path) if path.exists() else ""
        for case in cases:
            text = with_case(path, text, case_to_json(case))
        write_whole(path, text.encode("utf-8"))


def take_back(path: Path, case: Case) -> None:
    """Remove a case that was added, if its line still is what was written.

    Raises:
        InputError: the case is not there, or was changed since.
    """
    with locked_folder(path.parent):
        text = read_text(path) if path.exists() else ""
        wanted = case_to_json(case)
        place = next((piece for piece in pieces_of(path, text) if piece.record == wanted), None)
        if place is None:
            raise InputError(
                f"case {case.id!r} of {path} was changed since, or is gone", hint="edit the file itself"
            )
        write_whole(path, without(path, text, place).encode("utf-8"))


def retire_cases(path: Path, ids: Sequence[str], *, reason: str, by: str, at: datetime) -> Path:
    """Move cases to `retired.jsonl` beside the file, with who, when and why in their metadata; its path.

    Raises:
        UnknownNameError: a case is not there; nothing was changed.
        InputError: the file is of a form that cases are not taken out of.
    """
    kept = path.parent / "retired.jsonl"
    with locked_folder(path.parent):
        cases = {case.id for case in read_golden(path)}
        for name in ids:
            if name not in cases:
                raise UnknownNameError("case", name, cases, f"in {path}")
        text = read_text(path)
        retired = []
        for name in dict.fromkeys(ids):
            piece = next(one for one, case in _each(path, text) if case == name)
            note = {"reason": reason, "by": by, "at": at.isoformat(timespec="seconds")}
            metadata = {**(piece.record.get("metadata") or {}), "retired": note}
            retired.append(json_form.line_of({"id": name, **piece.record, "metadata": metadata}) + "\n")
            text = without(path, text, piece)
        before = read_text(kept) if kept.exists() else ""
        # First kept, then taken out: a crash in between leaves a case twice, never nowhere.
        write_whole(kept, (before + "".join(retired)).encode("utf-8"))
        write_whole(path, text.encode("utf-8"))
    return kept


def free_id(path: Path, wanted: str) -> str:
    """A case id made of plain letters from a trace id, not taken in the file."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted).strip("-.")[:60] or "case"
    taken = {case.id for case in read_golden(path)} if path.exists() else set()
    number, name = 2, plain
    while name in taken:
        name, number = f"{plain}-{number}", number + 1
    return name


def _each(path: Path, text: str) -> Iterator[tuple[Piece, str]]:
    """The pieces of a file that are cases, each with the id it has as a case."""
    return ((piece, case_of(piece.record).id) for piece in pieces_of(path, text))
