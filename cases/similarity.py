"""How alike texts and cases are, and which tool paths the golden set covers.

*Texts*: cosine of hashed TF-IDF vectors over words and pairs of words, offline and cheap. Numbers count as
one word, since two customers with different orders ask the same. The weight of a word is (1 + log tf) ·
(log((1 + n) / (1 + df)) + 1), as in Manning, Raghavan & Schütze, *Introduction to Information Retrieval*,
ch. 6, with the smoothing that keeps a word of every text; vectors have length 1. Memory is that of the
words of all texts; comparing n with m texts takes time in n · m, in blocks.

*Cases*: a new one is a duplicate where it has the same trace, the same content, or nearly the same input and
the same expected tools in the same order. "Where is order 12?" beside "Where is order 13?" teaches nothing
new; one that is to end in another tool does.
"""

from __future__ import annotations

import math
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from replaydiff.replay.errors import InputError
from replaydiff.replay.golden import content_id
from replaydiff.replay.model import NO_TOOLS, Case

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncovered:
    """A tool path of a month that no case has."""

    tool_path: str
    traces: int
    examples: tuple[str, ...]
    """Ids of such traces to look at: those whose ids have the smallest hashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """A month against a golden set."""

    month: str
    traces: int
    covered: int
    """Traces whose tool path a case has."""
    missing: tuple[Uncovered, ...]
    """The most frequent first."""


def path_of(case: Case) -> str | None:
    """Return the tool path that a case expects, else that of its tape; None if neither has one."""
    if case.expectation.tool_calls is not None:
        return ">".join(call.name for call in case.expectation.tool_calls) or NO_TOOLS
    return ">".join(call.name for call in case.tape) or None


def coverage(con: DuckDBPyConnection, cases: Sequence[Case], month: str) -> Coverage:
    """How much of a month's traffic goes a way that a case goes, too."""
    paths = sorted({path for case in cases if (path := path_of(case)) is not None})
    rows = con.execute(
        "SELECT tool_path, count(*) AS traces, arg_min(trace_id, md5(trace_id), $2) AS examples FROM traces"
        " WHERE strftime(started_at, '%Y-%m') = $1 GROUP BY tool_path ORDER BY traces DESC, tool_path",
        [month, _EXAMPLES],
    ).fetchall()
    return Coverage(
        month=month,
        traces=sum(traces for _, traces, _ in rows),
        covered=sum(traces for path, traces, _ in rows if path in paths),
        missing=tuple(
            Uncovered(tool_path=path, traces=traces, examples=tuple(examples))
            for path, traces, examples in rows
            if path not in paths
        ),
    )


def counted(cases: Sequence[Case]) -> dict[str, dict[str, int]]:
    """How many cases there are by tag, category and difficulty, the most frequent first."""
    by: dict[str, Counter[str]] = {"tag": Counter(), "category": Counter(), "difficulty": Counter()}
    for case in cases:
        by["tag"].update(case.tags)
        by["category"].update([case.category] if case.category else [])
        by["difficulty"].update([case.difficulty] if case.difficulty else [])
    return {name: dict(counter.most_common()) for name, counter in by.items() if counter}


_WORD = re.compile(r"\d+|[^\W\d_]+")
_SIZE = 1 << 20
_BLOCK = 256
_CELLS, _FEWEST_ROWS = 4_000_000, 16
"""Likenesses that are held at a time, as far as that leaves blocks of so many rows."""
_CHARACTERS = 20_000
"""Of one text: what a user asks stands at its beginning, and a pasted log must not cost a minute."""


def vectors(texts: Sequence[str]) -> Any:
    """Return a sparse matrix with one unit-length row per text (all zero for a text without words)."""
    # scipy takes half a second to load, and most commands compare no texts.
    from scipy import sparse

    # Not lists: a month has millions of words, and each number of a list is an object.
    rows, columns, counts = array("l"), array("l"), array("d")
    for row, text in enumerate(texts):
        for column, count in Counter(_terms(text)).items():
            rows.append(row)
            columns.append(column)
            counts.append(1 + math.log(count))
    cells = (np.asarray(counts), (np.asarray(rows), np.asarray(columns)))
    matrix = sparse.csr_matrix(cells, shape=(len(texts), _SIZE), dtype=np.float64)
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
    """Return, for each row, the first row that it nearly duplicates (itself if it is the first).

    Rows that are equal are compared once: a run has the same question many times.

    Args:
        rows: of unit length, as `vectors` returns them.
        least: the likeness from which one duplicates another, above 0 and below 1.
    """
    first = _first_equal(rows)
    places = [place for place, same in enumerate(first) if place == same]
    distinct = rows[places]
    columns = distinct.T.tocsr()
    leader: dict[int, int] = {}
    step = max(_FEWEST_ROWS, min(_BLOCK, _CELLS // max(1, len(places))))
    for start in range(0, len(places), step):
        block = (distinct[start : start + step] @ columns).toarray() >= least
        for number, alike in enumerate(block, start=start):
            before = np.flatnonzero(alike[:number])
            leader[places[number]] = leader[places[int(before[0])]] if before.size else places[number]
    return [leader[place] for place in first]


def _first_equal(rows: Any) -> list[int]:
    """Return, for each row, the first row that equals it; one without words equals itself alone."""
    known: dict[tuple[bytes, bytes], int] = {}
    found = []
    for place, (start, end) in enumerate(pairwise(rows.indptr.tolist())):
        key = (rows.indices[start:end].tobytes(), rows.data[start:end].tobytes())
        found.append(known.setdefault(key, place) if start < end else place)
    return found


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
    """Return the case with almost the same input and the same expected tools; None if there is none."""
    path = path_of(case)
    rivals = [other for other in known if path_of(other) == path]
    if not rivals:
        return None
    rows = vectors([case.input, *(other.input for other in rivals)])
    [(place, likeness)] = nearest(rows[:1], rows[1:])
    return rivals[place] if likeness >= NEAR_DUPLICATE else None
