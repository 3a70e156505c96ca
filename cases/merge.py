"""Two branches' golden sets made one, case by case, with what both came from.

A case that only one side added, changed or took out is as that side has it. One that both changed, each in
its own way, or that one changed and the other took out, is a conflict: it stays as it is here, and is named.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replaydiff.replay.files import write_whole
from replaydiff.replay.golden import case_of, case_to_json, read_golden
from replaydiff.replay.golden.splicing import pieces_of, rewritten, with_case, without
from replaydiff.replay.golden.text import read_text
from replaydiff.replay.locks import locked_folder


@dataclass(slots=True)
class Merged:
    """What a merge did, by case id."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    conflicts: dict[str, str] = field(default_factory=dict)
    """Id → what each side did."""


def merge_branches(ours: Path, base: Path, theirs: Path) -> Merged:
    """Bring into `ours` what `theirs` changed since `base`.

    Raises:
        InputError: one of the files cannot be read; nothing was changed.
    """
    done = Merged()
    with locked_folder(ours.parent):
        text = read_text(ours)
        before, here, there = _cases(base), _cases(ours), _cases(theirs)
        for name in sorted({**before, **there}):
            old, mine, other = before.get(name), here.get(name), there.get(name)
            if other in (old, mine):
                continue
            if mine != old:
                done.conflicts[name] = _conflict(old, mine, other)
                continue
            piece = next((one for one in pieces_of(ours, text) if case_of(one.record).id == name), None)
            if other is None and piece is not None:
                text = without(ours, text, piece)
                done.removed.append(name)
            elif other is not None and piece is not None:
                text = rewritten(ours, text, piece, other)
                done.changed.append(name)
            elif other is not None:
                text = with_case(ours, text, other)
                done.added.append(name)
        write_whole(ours, text.encode("utf-8"))
    return done


def _cases(path: Path) -> dict[str, dict[str, Any]]:
    return {case.id: case_to_json(case) for case in read_golden(path)}


def _conflict(old: object, mine: object, other: object) -> str:
    if old is None:
        return "added on both sides, differently"
    if mine is None or other is None:
        here, there = ("taken out", "changed") if mine is None else ("changed", "taken out")
        return f"{here} here, {there} there"
    return "changed on both sides, differently"
