"""How alike texts are, offline and cheap: cosine of hashed TF-IDF vectors over words and pairs of words.

Numbers count as one word, since two customers with different orders ask the same. The weight of a word is
(1 + log tf) · (log((1 + n) / (1 + df)) + 1), as in Manning, Raghavan & Schütze, *Introduction to Information
Retrieval*, ch. 6, with the smoothing that keeps a word of every text; vectors have length 1. Memory is that
of the words of all texts; comparing n with m texts takes time in n · m, in blocks.
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
    asked: Any, among: Any, *, but: Sequence[int | None] | None = None
) -> Iterator[tuple[int, float]]:
    """For each row of `asked` the row of `among` that is most like it, and how much: 0 to 1.

    `but` names for each the row of `among` that is itself. (-1, 0) where there is none to compare with.
    """
    for start in range(0, asked.shape[0], _BLOCK):
        block = (asked[start : start + _BLOCK] @ among.T).toarray()
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
