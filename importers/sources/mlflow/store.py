"""A tracking store of MLflow on this machine: the SQLite file that it keeps where no server is.

It is read as it stands, nothing is written to it. Spans that are not in it (MLflow kept them as files before
version 3) are not looked for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from replaydiff.importers.base import Query, RecordError, ShowStatus
from replaydiff.importers.sources.mlflow.records import bounds, is_wanted, project, read_info
from replaydiff.replay.errors import InputError, SettingsError
from replaydiff.replay.messages import decode
from replaydiff.replay.model import Json, JsonObject

SCHEME = "sqlite:"
_TELL_EVERY = 1000


def path_of(uri: str) -> Path:
    """The file that `sqlite:///mlflow.db` names.

    Raises:
        SettingsError: there is none.
    """
    path = Path(uri.removeprefix(SCHEME).removeprefix("///"))
    if not path.is_file():
        raise SettingsError(f"MLFLOW_TRACKING_URI names {path}, and there is no such file")
    return path


def stored(path: Path, query: Query, show_status: ShowStatus) -> Iterator[JsonObject]:
    """The traces of a query, as `{"trace_info": …, "spans": […]}`, oldest first.

    Raises:
        InputError: it is no tracking store, or has no such experiment.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as con:
            con.row_factory = sqlite3.Row
            yield from _traces(con, query, show_status)
    except sqlite3.Error as error:
        raise InputError(f"{path} cannot be read as a tracking store of MLflow: {error}") from None


def _traces(con: sqlite3.Connection, query: Query, show_status: ShowStatus) -> Iterator[JsonObject]:
    tables = {row[0] for row in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    experiments = _experiments(con, project(query))
    first, last = bounds(query)
    rows = con.execute(
        "SELECT * FROM trace_info WHERE timestamp_ms >= ? AND timestamp_ms < ? ORDER BY timestamp_ms",
        (first, last),
    )
    for number, row in enumerate(rows, start=1):
        if number % _TELL_EVERY == 0:
            show_status(f"{number:,} traces")
        if row["experiment_id"] not in experiments:
            continue
        trace_id = str(row["request_id"])
        info: JsonObject = {
            **dict(row),
            "trace_metadata": _column(row, "session_id", "mlflow.trace.session")
            | _table(con, "trace_request_metadata", trace_id),
            "tags": _column(row, "trace_name", "mlflow.traceName") | _table(con, "trace_tags", trace_id),
            "assessments": _assessments(con, trace_id) if "assessments" in tables else [],
        }
        if _is_wanted(info, query):
            yield {"trace_info": info, "spans": _spans(con, trace_id) if "spans" in tables else []}


def _is_wanted(info: JsonObject, query: Query) -> bool:
    try:
        return is_wanted(read_info(info), query)
    except RecordError:
        # It is rejected where traces are made.
        return True


def _experiments(con: sqlite3.Connection, wanted: str | None) -> set[int]:
    if wanted is None:
        found = con.execute("SELECT experiment_id FROM experiments WHERE lifecycle_stage = 'active'")
        return {row[0] for row in found}
    for column in ("name", "CAST(experiment_id AS TEXT)"):
        own = con.execute(f"SELECT experiment_id FROM experiments WHERE {column} = ?", (wanted,))
        ids = {row[0] for row in own}
        if ids:
            return ids
    raise InputError(f"there is no experiment {wanted!r} in this store; --project takes its name or its id")


def _column(row: sqlite3.Row, column: str, name: str) -> JsonObject:
    """What newer stores keep in a column of its own, under the name it has elsewhere."""
    return {name: row[column]} if column in row.keys() and row[column] else {}  # noqa: SIM118


def _table(con: sqlite3.Connection, table: str, trace_id: str) -> JsonObject:
    found = con.execute(f"SELECT key, value FROM {table} WHERE request_id = ?", (trace_id,))
    return {str(row["key"]): row["value"] for row in found}


def _assessments(con: sqlite3.Connection, trace_id: str) -> list[Json]:
    found = con.execute("SELECT * FROM assessments WHERE trace_id = ?", (trace_id,))
    return [
        {
            "assessment_name": row["name"],
            "last_update_time": row["last_updated_timestamp"],
            "valid": bool(row["valid"]),
            str(row["assessment_type"]): {"value": _plain(row["value"])},
        }
        for row in found
    ]


def _plain(value: Json) -> Json:
    """A value that stands as JSON text; bare words, numbers and truths too, which records never decode."""
    wrapped = decode(f"[{value}]") if isinstance(value, str) else [value]
    return wrapped[0] if isinstance(wrapped, list) and len(wrapped) == 1 else value


def _spans(con: sqlite3.Connection, trace_id: str) -> list[Json]:
    found = con.execute(
        "SELECT content FROM spans WHERE trace_id = ? ORDER BY start_time_unix_nano", (trace_id,)
    )
    return [decode(row["content"]) for row in found]
