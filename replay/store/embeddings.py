"""Vectors of texts, by model and by the hash of the text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from replaydiff.replay.store import sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_COLUMNS = {"model": "VARCHAR", "text_hash": "VARCHAR", "vector": "FLOAT[]", "made_at": "TIMESTAMP"}


def read_vectors(con: DuckDBPyConnection, model: str, texts: Iterable[str]) -> dict[str, list[float]]:
    """Return the vectors that are kept of these texts."""
    of_hash = {_hash(text): text for text in texts}
    rows = con.execute(
        "SELECT text_hash, vector FROM embeddings WHERE model = $1 AND list_contains($2, text_hash)",
        [model, [*of_hash]],
    ).fetchall()
    return {of_hash[text_hash]: vector for text_hash, vector in rows}


def write_vectors(
    con: DuckDBPyConnection, model: str, vectors: Mapping[str, Sequence[float]], at: datetime
) -> None:
    """Keep the vectors of texts."""
    rows = [(model, _hash(text), [*vector], at) for text, vector in vectors.items()]
    sql.insert(con, "embeddings", _COLUMNS, rows, "ON CONFLICT DO NOTHING")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
