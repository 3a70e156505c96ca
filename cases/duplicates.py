"""Whether a golden set has a case like a new one: the same trace, the same content, or almost the same input.

Almost the same: the inputs are near-duplicates (numbers count as one word), and the same tools are expected
in the same order. "Where is order 12?" beside "Where is order 13?" teaches nothing new; one that is to end in
another tool does.
"""

from __future__ import annotations

from collections.abc import Sequence

from replaydiff.cases.coverage import path_of
from replaydiff.replay.errors import InputError
from replaydiff.replay.golden import content_id
from replaydiff.replay.model import Case

ALIKE = 0.95
"""Inputs at least this similar are near-duplicates."""


class DuplicateError(InputError):
    """A case that is there already; `force` adds it all the same."""


def refuse_twins(path: object, present: Sequence[Case], new: Sequence[Case]) -> None:
    """See that no new case is like one that is there, or like one before it.

    Raises:
        DuplicateError: one is; names both.
    """
    known = list(present)
    for case in new:
        if said := _twin(path, known, case):
            raise DuplicateError(f"{said}; --force adds {case.id!r} all the same")
        known.append(case)


def _twin(path: object, known: Sequence[Case], case: Case) -> str | None:
    trace = case.provenance.trace_id
    for other in known:
        if trace is not None and other.provenance.trace_id == trace:
            return f"trace {trace!r} is case {other.id!r} of {path} already"
        if content_id(other) == content_id(case):
            return f"case {other.id!r} of {path} has the same input and expectation"
    near = near_duplicate(known, case)
    return (
        None
        if near is None
        else f"case {near.id!r} of {path} asks almost the same and expects the same tools"
    )


def near_duplicate(known: Sequence[Case], case: Case) -> Case | None:
    """The case that asks almost the same and expects the same tools; None where there is none."""
    path = path_of(case)
    rivals = [other for other in known if path_of(other) == path]
    if not rivals:
        return None
    from replaydiff.cases.similarity import nearest, vectors

    rows = vectors([case.input, *(other.input for other in rivals)])
    [(place, likeness)] = nearest(rows[:1], rows[1:])
    return rivals[place] if likeness >= ALIKE else None
