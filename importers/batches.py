"""Batch APIs: a file of requests and a file of results, joined by `custom_id`.

| | request | result |
|---|---|---|
| OpenAI | `{custom_id, body}` | `{custom_id, response: {status_code, body}, error}` |
| Anthropic | `{custom_id, params}` | `{custom_id, result: {type, message or error}}` |

Neither file has what the other has, and either may come first. Both are spooled to a temporary SQLite file,
so memory does not depend on their size; files without such records never touch it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from replaydiff.importers.base import InputFile, Item, Skipped
from replaydiff.importers.convert import Convert, guarded
from replaydiff.importers.reading import Record
from replaydiff.replay.messages import parse
from replaydiff.replay.model import Json

REQUESTS = ("body", "params")
_RESULTS = ("response", "result", "error")


@contextmanager
def batch_spool(folder: Path) -> Iterator[BatchSpool]:
    """A spool of batch records for the time of an import."""
    spool = BatchSpool(folder / "batch.sqlite")
    try:
        yield spool
    finally:
        spool.close()


class BatchSpool:
    """Requests and results of batches that wait for each other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: sqlite3.Connection | None = None

    def close(self) -> None:
        """Let go of the file."""
        if self._opened is not None:
            self._opened.close()

    def takes(self, record: Record, file: int) -> bool:
        """Keep a batch record for later; False for any other."""
        value = record.value
        if not isinstance(value, dict) or not isinstance(value.get("custom_id"), str):
            return False
        is_result = any(key in value for key in _RESULTS)
        if not is_result and not any(isinstance(value.get(key), dict) for key in REQUESTS):
            return False
        self._con.execute(
            "INSERT INTO batch VALUES (?, ?, ?, ?, ?)",
            (value["custom_id"], is_result, file, record.line, msgspec.json.encode(value)),
        )
        return True

    def results(self, source: str, files: Sequence[InputFile], convert: Convert) -> Iterator[Item]:
        """Every result with its request, in the order of the results; requests without result are skipped."""
        if self._opened is None:
            return
        self._con.execute("CREATE INDEX by_id ON batch (custom_id, is_result)")
        request = "SELECT record FROM batch WHERE custom_id = ? AND NOT is_result ORDER BY rowid DESC LIMIT 1"
        for custom_id, file, line, text in self._con.execute(
            "SELECT custom_id, file, line, record FROM batch WHERE is_result ORDER BY rowid"
        ):
            result: Any = parse(text)
            asked: Any = self._con.execute(request, (custom_id,)).fetchone()
            before: Any = parse(asked[0]) if asked else {}
            whole: Json = {**{key: before[key] for key in REQUESTS if key in before}, **result}
            yield from guarded(source, files[file], Record(line, whole), convert)
        unanswered = self._con.execute(
            "SELECT count(*) FROM batch WHERE NOT is_result"
            " AND custom_id NOT IN (SELECT custom_id FROM batch WHERE is_result)"
        ).fetchone()[0]
        for _ in range(unanswered):
            yield Skipped("batch requests without a result; import the batch's output file with them")

    @property
    def _con(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = sqlite3.connect(self._path, isolation_level=None)
            self._opened.executescript(
                "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;"
                "CREATE TABLE batch"
                " (custom_id TEXT, is_result INTEGER, file INTEGER, line INTEGER, record BLOB);"
                "BEGIN;"
            )
        return self._opened
