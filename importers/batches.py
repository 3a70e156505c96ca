"""The Batch API of OpenAI: a file of requests and a file of results, joined by `custom_id`.

Neither file has what the other has, and either may come first. Both are spooled to a temporary SQLite file,
so memory does not depend on their size; files without such records never touch it.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from importers.base import InputFile, Item, Skipped
from importers.convert import Convert, guarded, reject
from importers.reading import Broken, Record, records
from replay.messages import parse
from replay.model import Json


def joined(source: str, files: Sequence[InputFile], convert: Convert) -> Iterator[Item]:
    """What `convert` makes of each record; a batch result gets its request as `body` first."""
    with tempfile.TemporaryDirectory(prefix="replay-batch-") as folder:
        spool = _Spool(Path(folder) / "batch.sqlite")
        try:
            for number, file in enumerate(files):
                for found in records(file):
                    if isinstance(found, Broken):
                        yield reject(source, file, found)
                    elif not spool.takes(found, number):
                        yield from guarded(source, file, found, convert)
            yield from spool.results(source, files, convert)
        finally:
            spool.close()


class _Spool:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._con: sqlite3.Connection | None = None

    def close(self) -> None:
        if self._con is not None:
            self._con.close()

    def takes(self, record: Record, file: int) -> bool:
        """Keep a batch record for later; False for any other."""
        value = record.value
        if not isinstance(value, dict) or not isinstance(value.get("custom_id"), str):
            return False
        is_result = "response" in value or "error" in value
        if not is_result and not isinstance(value.get("body"), dict):
            return False
        self._open().execute(
            "INSERT INTO batch VALUES (?, ?, ?, ?, ?)",
            (value["custom_id"], is_result, file, record.line, msgspec.json.encode(value)),
        )
        return True

    def results(self, source: str, files: Sequence[InputFile], convert: Convert) -> Iterator[Item]:
        """Every result with its request, in the order of the results; requests without result are skipped."""
        if self._con is None:
            return
        self._con.execute("CREATE INDEX by_id ON batch (custom_id, is_result)")
        request = "SELECT record FROM batch WHERE custom_id = ? AND NOT is_result ORDER BY rowid DESC LIMIT 1"
        for custom_id, file, line, text in self._con.execute(
            "SELECT custom_id, file, line, record FROM batch WHERE is_result ORDER BY rowid"
        ):
            result: Any = parse(text)
            asked = self._con.execute(request, (custom_id,)).fetchone()
            whole: Json = {"body": parse(asked[0])["body"], **result} if asked else result  # type: ignore[index,call-overload]
            yield from guarded(source, files[file], Record(line, whole), convert)
        unanswered = self._con.execute(
            "SELECT count(*) FROM batch WHERE NOT is_result"
            " AND custom_id NOT IN (SELECT custom_id FROM batch WHERE is_result)"
        ).fetchone()[0]
        for _ in range(unanswered):
            yield Skipped("batch requests without a result; import the batch's output file with them")

    def _open(self) -> sqlite3.Connection:
        if self._con is None:
            self._con = sqlite3.connect(self._path, isolation_level=None)
            self._con.execute("PRAGMA synchronous = OFF")
            self._con.execute("PRAGMA journal_mode = OFF")
            self._con.execute(
                "CREATE TABLE batch"
                " (custom_id TEXT, is_result INTEGER, file INTEGER, line INTEGER, record BLOB)"
            )
            self._con.execute("BEGIN")
        return self._con
