"""Care for the store file: what is in it, taking in another, leaving out what is old, making it small."""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from replaydiff.replay.errors import StoreError, StoreWriteError, remedy
from replaydiff.replay.files import MEDIA_FOLDER, check_target, private_folder, replacing
from replaydiff.replay.interruption import interruptible
from replaydiff.replay.model.media import MARK
from replaydiff.replay.store import pending, snapshot, sql
from replaydiff.replay.store.connection import UNWRITTEN, open_store, transaction
from replaydiff.replay.store.grades import decisions, iter_grades
from replaydiff.replay.store.histories import continued
from replaydiff.replay.store.import_records import merge_tokens
from replaydiff.replay.store.item_trials import iter_item_trials
from replaydiff.replay.store.memory import MEMORY_MB, in_batches
from replaydiff.replay.store.runs import list_runs
from replaydiff.replay.store.samples import SAMPLED, list_samples

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MERGED = (
    "traces", "tool_calls", "samples", "sample_items", "runs", "run_items", "trials", "model_calls", "grades",
    "decisions",
)  # fmt: skip
"""Tables in the order in which they are taken over. Rejects and marks belong to the machine that imported."""
_OWNER = {
    "tool_calls": ("traces", "trace_id"),
    "sample_items": ("samples", "sample"),
    "run_items": ("runs", "run_id"),
    "trials": ("runs", "run_id"),
    "model_calls": ("runs", "run_id"),
    "grades": ("runs", "run_id"),
}
"""Table → the table it is a part of, and the column that refers to its row."""
_KEYS = {"traces": "trace_id", "samples": "name", "runs": "run_id"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """How many rows were, or would be, deleted."""

    traces: int
    traces_needed: int
    """Traces as old that stay, since a sample holds them or later ones continue them."""
    runs: int


_WITH_MEDIA = {
    "traces": ("input", "final_response", "metadata", "messages", "steps"),
    "tool_calls": ("result",),
    "run_items": ("item",),
    "trials": ("served",),
    "model_calls": ("request",),
}
"""Table → the columns whose texts may refer to media."""


def media_hashes(con: DuckDBPyConnection) -> set[str]:
    """Return the SHA-256 of all media that the store refers to."""
    texts = " UNION ALL ".join(
        f"SELECT {column}::VARCHAR AS text FROM {table} WHERE contains({column}::VARCHAR, '{MARK}')"
        for table, columns in _WITH_MEDIA.items()
        for column in columns
    )
    rows = con.execute(
        f"SELECT DISTINCT unnest(regexp_extract_all(text, '{MARK}([0-9a-f]{{64}})', 1)) FROM ({texts})"
    )
    return {sha256 for (sha256,) in rows.fetchall()}


def contents(con: DuckDBPyConnection) -> dict[str, int]:
    """Return the number of rows per table."""
    return {table: _count(con, f"SELECT count(*) FROM {table}") for table in _MERGED}


def check_rows(con: DuckDBPyConnection) -> None:
    """Read every run and sample, and the newest run's items, trials and grades, as the commands do.

    Raises:
        StoreDamagedError: a table or value is not as any release writes it.
    """
    list_samples(con)
    decisions(con)
    for run in list_runs(con, experiments=True)[:1]:
        for rows in (iter_item_trials(con, run.id), iter_grades(con, run.id)):
            deque(rows, maxlen=0)


class _DryRunError(Exception):
    """Rolls back what was deleted to see what that leaves."""


def prune(con: DuckDBPyConnection, before: datetime, *, runs: bool, really: bool) -> tuple[Pruned, set[str]]:
    """Leave out traces that started before a time, and with `runs` the runs made before it.

    Cases keep their tapes, runs the copies of their items; traces stay that a sample holds or that later ones
    continue. Without `really` nothing is changed. The file gets no smaller by it: `compact` makes it so.

    Returns:
        What is deleted, and the SHA-256 of the media that the rest refers to.
    """
    aged = f"started_at < $1 AND trace_id NOT IN {SAMPLED}"
    old = f"{aged} AND NOT {continued(aged)}"
    pruned = Pruned(
        traces=_count(con, f"SELECT count(*) FROM traces WHERE {old}", before),
        traces_needed=_count(
            con,
            f"SELECT count(*) FROM traces WHERE started_at < $1 AND NOT ({old})",
            before,
        ),
        runs=_count(con, "SELECT count(*) FROM runs WHERE created_at < $1", before) if runs else 0,
    )
    media: set[str] = set()
    with suppress(_DryRunError), transaction(con):
        con.execute(
            f"DELETE FROM tool_calls WHERE trace_id IN (SELECT trace_id FROM traces WHERE {old})", [before]
        )
        con.execute(f"DELETE FROM traces WHERE {old}", [before])
        parts = [name for name, (owner, _) in _OWNER.items() if owner == "runs"]
        for table in parts:
            # A run is written last: one that was killed before leaves items and trials of its recordings.
            con.execute(f"DELETE FROM {table} WHERE run_id NOT IN (SELECT run_id FROM runs)")
        if runs:
            old_runs = "run_id IN (SELECT run_id FROM runs WHERE created_at < $1)"
            for table in (*parts, "runs"):
                con.execute(f"DELETE FROM {table} WHERE {old_runs}", [before])
            con.execute("DELETE FROM judge_votes WHERE cast_at < $1", [before])
            con.execute("DELETE FROM embeddings WHERE made_at < $1", [before])
        media = media_hashes(con)
        if not really:
            raise _DryRunError
    return pruned, media


def merge(con: DuckDBPyConnection, source: DuckDBPyConnection) -> dict[str, int]:
    """Take in what another store has and this one has not; rows taken by table.

    What both have stays as it is here: a trace by its id, a sample by its name, a run by its id, a vote of
    the judge by what it was asked.

    Raises:
        InputError: both hold redacted traces, and a token would mean two values.
    """
    present_keys = {table: _keys(con, table, key) for table, key in _KEYS.items()}
    present_keys["decisions"] = {
        tuple(row) for rows in in_batches(con, "SELECT * FROM decisions") for row in rows
    }
    row_counts: dict[str, int] = {}
    with transaction(con):
        merge_tokens(con, source)
        for table in _MERGED:
            columns = sql.columns_of(con, table)
            owner, key = _OWNER.get(table, (table, _KEYS.get(table)))
            key_position = list(columns).index(key) if key else None
            row_counts[table] = 0
            for rows in in_batches(source, f"SELECT * FROM {table}"):
                fresh = [
                    row
                    for row in rows
                    if (row if key_position is None else row[key_position]) not in present_keys[owner]
                ]
                sql.insert(con, table, columns, fresh)
                row_counts[table] += len(fresh)
        row_counts["judge_votes"] = _merge_votes(con, source)
    return row_counts


def _merge_votes(con: DuckDBPyConnection, source: DuckDBPyConnection) -> int:
    """Copy votes, which are keyed by question and belong to no run: neither store's votes are paid again."""
    columns = sql.columns_of(con, "judge_votes")
    before = _count(con, "SELECT count(*) FROM judge_votes")
    for rows in in_batches(source, "SELECT * FROM judge_votes"):
        sql.insert(con, "judge_votes", columns, rows, "ON CONFLICT DO NOTHING")
    return _count(con, "SELECT count(*) FROM judge_votes") - before


def compact(path: Path) -> tuple[int, int]:
    """Rewrite the store without the space of deleted rows; return the bytes before and after.

    The old file is replaced once the new one is whole.

    Raises:
        StoreBusyError: another process holds the file.
        StoreError: there is no room for the copy.
    """
    path = path.absolute()
    before = path.stat().st_size
    target = path.with_name(f"{path.name}.compact")
    target.unlink(missing_ok=True)
    # Held open meanwhile: a second writer would write into the file that is about to go.
    with open_store(path) as con:
        con.execute("CHECKPOINT")
    try:
        with interruptible(duckdb.connect(config={"memory_limit": f"{MEMORY_MB}MB"})) as work:
            for name, file in (("old", path), ("new", target)):
                quoted = str(file).replace("'", "''")
                work.execute(f"ATTACH '{quoted}' AS {name}")
            work.execute("COPY FROM DATABASE old TO new")
            work.execute("DETACH new")
            os.replace(target, path)  # noqa: PTH105 - while the old one is still held
    except (duckdb.Error, OSError) as error:
        target.unlink(missing_ok=True)
        failed = f"the store {path} could not be rewritten"
        if unwritten := UNWRITTEN.search(str(error)):
            raise StoreWriteError(
                f"{failed} ({unwritten[0]}); it is as it was", hint=f"{remedy(unwritten[0])}, then try again"
            ) from None
        raise StoreError(f"{failed}: {error}; it is as it was") from None
    return before, path.stat().st_size


def backup(path: Path, target: Path) -> int:
    """Write a copy of a store as it was last committed; return its bytes.

    Another process may write meanwhile. Votes and decisions that wait beside the store are in the copy;
    trials of a run in progress are not, until they are committed. Media are copied into the folder `media`
    beside the copy.

    Args:
        path: of the store.
        target: the new file; one that is there is replaced once the copy is whole.

    Raises:
        StoreError: the writer never left the file alone, or there is no room.
    """
    path = path.absolute()
    check_target(target, "backup.duckdb")
    try:
        with replacing(target, example="backup.duckdb") as file:
            # Beside the store if possible: a mounted bucket may hold no file that DuckDB can open.
            is_writable = os.access(path.parent, os.W_OK)
            copied = snapshot.copy(path, path.parent if is_writable else file.parent)
            try:
                with interruptible(
                    duckdb.connect(str(copied), config={"enable_external_access": "false"})
                ) as con:
                    pending.absorb(con, path, keep=True)
                    con.execute("CHECKPOINT")
                    copy_media(path, target, media_hashes(con))
                shutil.copyfile(copied, file)
            finally:
                snapshot.remove(copied)
            return file.stat().st_size
    except (OSError, duckdb.Error, snapshot.UnsettledError) as error:
        reason = str(error).splitlines()[0] if str(error) else "another process writes to it without a pause"
        raise StoreError(
            f"the store {path} cannot be copied to {target}: {reason}", hint=f"try again, or {remedy(reason)}"
        ) from None


def copy_media(source: Path, target: Path, hashes: Collection[str]) -> int:
    """Copy media from beside one store to beside another; return how many were not there yet."""
    source_folder, target_folder = (
        source.absolute().parent / MEDIA_FOLDER,
        target.absolute().parent / MEDIA_FOLDER,
    )
    absent = [
        sha256
        for sha256 in hashes
        if not (target_folder / sha256).exists() and (source_folder / sha256).exists()
    ]
    for sha256 in absent:
        private_folder(target_folder)
        with replacing(target_folder / sha256) as file:
            shutil.copyfile(source_folder / sha256, file)
    return len(absent)


def _keys(con: DuckDBPyConnection, table: str, key: str) -> set[object]:
    return {value for (value,) in con.execute(f"SELECT {key} FROM {table}").fetchall()}


def _count(con: DuckDBPyConnection, query: str, *values: object) -> int:
    row = con.execute(query, list(values)).fetchone()
    return int(row[0]) if row else 0
