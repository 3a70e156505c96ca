"""Measure how alike texts and cases are, and which tool paths the golden set covers.

*Texts*: cosine of hashed TF-IDF vectors over words and pairs of words, offline and cheap. Numbers count as
one word, since two customers with different orders ask the same. The weight of a word is (1 + log tf) ·
(log((1 + n) / (1 + df)) + 1), as in Manning, Raghavan & Schütze, *Introduction to Information Retrieval*,
ch. 6, with the smoothing that keeps a word of every text; vectors have length 1. Memory is that of the
words of all texts; comparing n with m texts takes time in n · m.

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
from typing import TYPE_CHECKING

import numpy as np

from replaydiff.replay.errors import InputError
from replaydiff.replay.golden import content_id
from replaydiff.replay.model import NO_TOOLS, Case
from replaydiff.replay.months import month_range

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

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
    """The tool paths of a month that a golden set covers."""

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
    """Return the share of a month's traffic whose tool path a case has."""
    start, end = month_range(month)
    paths = sorted({path for case in cases if (path := path_of(case)) is not None})
    rows = con.execute(
        "SELECT tool_path, count(*) AS traces, arg_min(trace_id, md5(trace_id), $2) AS examples FROM traces"
        " WHERE started_at >= $1 AND started_at < $3 GROUP BY tool_path ORDER BY traces DESC, tool_path",
        [start, _EXAMPLES, end],
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
    """Return how many cases there are by tag, category and difficulty, the most frequent first."""
    by: dict[str, Counter[str]] = {"tag": Counter(), "category": Counter(), "difficulty": Counter()}
    for case in cases:
        by["tag"].update(case.tags)
        by["category"].update([case.category] if case.category else [])
        by["difficulty"].update([case.difficulty] if case.difficulty else [])
    return {name: dict(counter.most_common()) for name, counter in by.items() if counter}


_WORD = re.compile(r"\d+|[^\W\d_]+")
_HASHES = 1 << 20
_CHARACTERS = 20_000
"""Of each text: the question is at its beginning, and a pasted log must not cost a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """Sparse vectors, one a text: only the terms that a text has are held."""

    starts: NDArray[np.int64]
    """Where the terms of each row begin, and at last where those of the last row end."""
    terms: NDArray[np.int64]
    """Numbers of the terms, ascending within a row."""
    values: NDArray[np.float64]
    """Their weights; those of a row have length 1 together."""
    size: int
    """How many different terms there are."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    def row(self, index: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the terms of one row and their weights."""
        span = slice(self.starts[index], self.starts[index + 1])
        return self.terms[span], self.values[span]

    def take(self, indices: Sequence[int]) -> Vectors:
        """Return the rows with these indices."""
        chosen = np.asarray(indices, dtype=np.int64)
        starts = self.starts[chosen]
        lengths = self.starts[chosen + 1] - starts
        cells = _spans(starts, lengths)
        return Vectors(
            starts=_sums(lengths), terms=self.terms[cells], values=self.values[cells], size=self.size
        )


def vectors(texts: Sequence[str]) -> Vectors:
    """Return one vector of length 1 for each text (without terms for a text without words)."""
    # Not lists: a month has millions of words, and each number of a list is an object.
    starts, hashes, counts = array("q", [0]), array("q"), array("d")
    for text in texts:
        for term, count in sorted(Counter(_terms(text)).items()):
            hashes.append(term)
            counts.append(1 + math.log(count))
        starts.append(len(hashes))
    distinct_terms, terms = np.unique(np.asarray(hashes, dtype=np.int64), return_inverse=True)
    having = np.bincount(terms, minlength=len(distinct_terms))
    values = np.asarray(counts) * (np.log((1 + len(texts)) / (1 + having)) + 1)[terms]
    rows = np.repeat(np.arange(len(texts)), np.diff(starts))
    lengths = np.sqrt(np.bincount(rows, weights=values * values, minlength=len(texts)))
    return Vectors(
        starts=np.asarray(starts), terms=terms, values=values / lengths[rows], size=len(distinct_terms)
    )


def likenesses(rows: Vectors, others: Vectors) -> Iterator[NDArray[np.float64]]:
    """Yield for each row of `rows` how much it is like each row of `others`, 0 to 1.

    Args:
        rows: vectors of some texts.
        others: vectors of others, which were made together with them.
    """
    # Of each term the rows that have it: a row is compared only with those that share a word.
    by_term = np.argsort(others.terms, kind="stable")
    having = np.repeat(np.arange(len(others)), np.diff(others.starts))[by_term]
    weights = others.values[by_term]
    starts = _sums(np.bincount(others.terms, minlength=others.size))
    for index in range(len(rows)):
        terms, values = rows.row(index)
        lengths = starts[terms + 1] - starts[terms]
        cells = _spans(starts[terms], lengths)
        products = weights[cells] * np.repeat(values, lengths)
        sums = np.bincount(having[cells], weights=products, minlength=len(others))
        yield sums.astype(np.float64, copy=False)


def _spans(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from each start on, as many as its length, one after the other."""
    sums = _sums(lengths)
    return np.repeat(starts - sums[:-1], lengths) + np.arange(sums[-1])


def _sums(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the cumulative sums of the lengths, from 0 on."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def nearest(
    rows: Vectors, others: Vectors, *, but: Sequence[int | None] | None = None
) -> Iterator[tuple[int, float]]:
    """Yield for each row of `rows` the most similar row of `others` and the similarity, 0 to 1.

    `but` names for each the row of `others` that is itself. (-1, 0) where there is none to compare with.
    """
    for index, row in enumerate(likenesses(rows, others)):
        excluded = but[index] if but else None
        if excluded is not None:
            row[excluded] = -1
        best = int(row.argmax()) if row.size else -1
        yield (best, float(row[best])) if best >= 0 and row[best] >= 0 else (-1, 0.0)


def groups(rows: Vectors, least: float) -> list[int]:
    """Return, for each row, the first row that it nearly duplicates (itself if it is the first).

    Rows that are equal are compared once: a run has the same question many times.

    Args:
        rows: as `vectors` returns them.
        least: the likeness from which one duplicates another, above 0 and below 1.
    """
    first = _first_equal(rows)
    first_rows = [index for index, earliest in enumerate(first) if index == earliest]
    distinct = rows.take(first_rows)
    leader: dict[int, int] = {}
    for number, row in enumerate(likenesses(distinct, distinct)):
        before = np.flatnonzero(row[:number] >= least)
        leader[first_rows[number]] = leader[first_rows[int(before[0])]] if before.size else first_rows[number]
    return [leader[index] for index in first]


def _first_equal(rows: Vectors) -> list[int]:
    """Return, for each row, the first row that equals it; one without words equals itself alone."""
    row_of_content: dict[tuple[bytes, bytes], int] = {}
    first_rows = []
    for index in range(len(rows)):
        terms, values = rows.row(index)
        first_rows.append(
            row_of_content.setdefault((terms.tobytes(), values.tobytes()), index) if len(terms) else index
        )
    return first_rows


def _terms(text: str) -> Iterator[int]:
    words = ["0" if match[0].isdigit() else match for match in _WORD.findall(text[:_CHARACTERS].lower())]
    for word in words:
        yield zlib.crc32(word.encode()) % _HASHES
    for word_before, word_after in pairwise(words):
        yield zlib.crc32(f"{word_before} {word_after}".encode()) % _HASHES


NEAR_DUPLICATE = 0.95
"""Inputs at least this similar are near-duplicates."""


class DuplicateError(InputError):
    """A case that is like an existing one; `force` adds it.

    Args:
        reason: which one it is like, and in what.
        case_id: the case that was not added.
    """

    def __init__(self, reason: str, case_id: str) -> None:
        self.case_id = case_id
        super().__init__(reason, hint=f"--yes adds {case_id!r} all the same")


def refuse_duplicates(path: object, present: Sequence[Case], new: Sequence[Case]) -> None:
    """Refuse a new case that is like an existing one, or like one before it.

    Raises:
        DuplicateError: one is; names both.
    """
    accepted = list(present)
    for case in new:
        if reason := _duplicate_of(path, accepted, case):
            raise DuplicateError(reason, case.id)
        accepted.append(case)


def _duplicate_of(path: object, accepted: Sequence[Case], case: Case) -> str | None:
    trace = case.provenance.trace_id
    for existing in accepted:
        if trace is not None and existing.provenance.trace_id == trace:
            return f"trace {trace!r} is case {existing.id!r} of {path} already"
        if content_id(existing) == content_id(case):
            return f"case {existing.id!r} of {path} has the same input and expectation"
    near = near_duplicate(accepted, case)
    return (
        None
        if near is None
        else f"case {near.id!r} of {path} asks almost the same and expects the same tools"
    )


def near_duplicate(cases: Sequence[Case], case: Case) -> Case | None:
    """Return the case with almost the same input and the same expected tools; None if there is none."""
    path = path_of(case)
    rivals = [existing for existing in cases if path_of(existing) == path]
    if not rivals:
        return None
    rows = vectors([case.input, *(existing.input for existing in rivals)])
    [(index, likeness)] = nearest(rows.take([0]), rows.take(range(1, len(rows))))
    return rivals[index] if likeness >= NEAR_DUPLICATE else None
