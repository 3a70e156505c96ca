"""How alike texts are, offline and cheap: cosine of hashed TF-IDF vectors over words and pairs of words.

Numbers count as one word, since two customers with different orders ask the same. The weight of a word is
(1 + log tf) · (log((1 + n) / (1 + df)) + 1), as in Manning, Raghavan & Schütze, *Introduction to Information
Retrieval*, ch. 6, with the smoothing that keeps a word of every text; vectors have length 1. Memory is that
of the words of all texts; comparing n with m texts takes time in n · m, in blocks.

Whether a golden set has a case like a new one: the same trace, the same content, or almost the same input.

Almost the same: the inputs are near-duplicates (numbers count as one word), and the same tools are expected
in the same order. "Where is order 12?" beside "Where is order 13?" teaches nothing new; one that is to end in
another tool does.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from replaydiff.cases.coverage import path_of
from replaydiff.replay.errors import InputError
from replaydiff.replay.golden import content_id
from replaydiff.replay.model import Case

_WORD = re.compile(r"\d+|[^\W\d_]+")
_SIZE = 1 << 20
_BLOCK = 256
_CHARACTERS = 20_000
"""Of one text: what a user asks stands at its beginning, and a pasted log must not cost a minute."""


def vectors(texts: Sequence[str]) -> Any:
    """One row of length 1 for each text (all zero where it has no word), as a sparse matrix."""
    rows, columns, counts = [], [], []
    for row, text in enumerate(texts):
        for column, count in Counter(_terms(text)).items():
            rows.append(row)
            columns.append(column)
            counts.append(1 + np.log(count))
    matrix = sparse.csr_matrix((counts, (rows, columns)), shape=(len(texts), _SIZE), dtype=np.float64)
    if not texts:
        return matrix
    having = np.bincount(matrix.indices, minlength=_SIZE)
    weights = np.log((1 + len(texts)) / (1 + having)) + 1
    matrix.data *= weights[matrix.indices]
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    return sparse.diags(1 / np.where(lengths == 0, 1, lengths)) @ matrix


def nearest(
    rows: Any, others: Any, *, but: Sequence[int | None] | None = None
) -> Iterator[tuple[int, float]]:
    """For each row of `rows` the row of `others` that is most like it, and how much: 0 to 1.

    `but` names for each the row of `others` that is itself. (-1, 0) where there is none to compare with.
    """
    for start in range(0, rows.shape[0], _BLOCK):
        block = (rows[start : start + _BLOCK] @ others.T).toarray()
        for offset, row in enumerate(block):
            own = but[start + offset] if but else None
            if own is not None:
                row[own] = -1
            best = int(row.argmax()) if row.size else -1
            yield (best, float(row[best])) if best >= 0 and row[best] >= 0 else (-1, 0.0)


def groups(rows: Any, least: float) -> list[int]:
    """For each row the first row it is a near-duplicate of (itself where it is the first)."""
    leader = list(range(rows.shape[0]))
    for start in range(0, rows.shape[0], _BLOCK):
        block = (rows[start : start + _BLOCK] @ rows.T).toarray() >= least
        for offset, alike in enumerate(block):
            index = start + offset
            before = np.flatnonzero(alike[:index])
            if before.size:
                leader[index] = leader[int(before[0])]
    return leader


def _terms(text: str) -> Iterator[int]:
    words = ["0" if found[0].isdigit() else found for found in _WORD.findall(text[:_CHARACTERS].lower())]
    for word in words:
        yield zlib.crc32(word.encode()) % _SIZE
    for one, other in pairwise(words):
        yield zlib.crc32(f"{one} {other}".encode()) % _SIZE


NEAR_DUPLICATE = 0.95
"""Inputs at least this similar are near-duplicates."""


class DuplicateError(InputError):
    """A case that is like one that is there; `force` adds it.

    Args:
        reason: which one it is like, and in what.
        case_id: the case that was not added.
    """

    def __init__(self, reason: str, case_id: str) -> None:
        self.case_id = case_id
        super().__init__(reason, hint=f"--force adds {case_id!r} all the same")


def refuse_duplicates(path: object, present: Sequence[Case], new: Sequence[Case]) -> None:
    """See that no new case is like one that is there, or like one before it.

    Raises:
        DuplicateError: one is; names both.
    """
    known = list(present)
    for case in new:
        if reason := _duplicate_of(path, known, case):
            raise DuplicateError(reason, case.id)
        known.append(case)


def _duplicate_of(path: object, known: Sequence[Case], case: Case) -> str | None:
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
    rows = vectors([case.input, *(other.input for other in rivals)])
    [(place, likeness)] = nearest(rows[:1], rows[1:])
    return rivals[place] if likeness >= NEAR_DUPLICATE else None
