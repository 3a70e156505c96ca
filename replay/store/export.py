"""Sets of the store as rows for other tools: traces, samples, the trials of runs, and grades.

JSON Lines of traces are the published trace format (`docs/schema/trace.schema.json`), so that
`replay import jsonl` makes the same traces of them; `replay.store.trace_codec` writes one. All else, and
everything in Parquet, is one flat row each: payloads that have no fixed shape are objects in JSON Lines and
JSON text in Parquet. Times are UTC.

Memory is flat: what was chosen is kept by its key in a temporary table, which DuckDB moves to disk where it
grows, and its rows are read some at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import duckdb
import msgspec

from replaydiff.replay.errors import InputError, NoSpaceError, remedy
from replaydiff.replay.media import MediaFolder
from replaydiff.replay.model import Grade, RunRecord
from replaydiff.replay.model.media import MARK
from replaydiff.replay.store import sql
from replaydiff.replay.store.connection import UNWRITTEN
from replaydiff.replay.store.grades import GRADES
from replaydiff.replay.store.histories import with_histories
from replaydiff.replay.store.memory import all_rows, by_position
from replaydiff.replay.store.runs import get_run, list_runs
from replaydiff.replay.store.samples import get_sample
from replaydiff.replay.store.trace_codec import FACTS, trace_record
from replaydiff.replay.store.traces import read_traces
from replaydiff.replay.store.where import guarded, selection

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

OnRows = Callable[[int, int], None]
"""Called with the number of rows that are done, and how many there are."""

_IDS = 10_000
_TOGETHER = 20_000
"""Rows that are read together."""
_TRACES = 500
_ROWS = 500
_ROW_GROUP = 2048
"""Rows that Parquet holds in memory before it writes them: rows may be large."""
_LINE_ENDS = tuple((end.encode(), f"\\u{ord(end):04x}".encode()) for end in "\u0085\u2028\u2029")
"""What JSON allows in a string, and readers like Python's `splitlines` take for the end of a line."""
_encoder = msgspec.json.Encoder()


class ExportKind(StrEnum):
    """A set of rows that can be exported."""

    TRACES = "traces"
    SAMPLES = "samples"
    RUNS = "runs"
    GRADES = "grades"
    MODEL_CALLS = "model-calls"
    """What the model gateway recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSelection:
    """The rows to export; a field that is None does not narrow them."""

    where: str | None = None
    """A condition on traces: of the others, the rows whose trace fits."""
    month: str | None = None
    sample: str | None = None
    run: RunRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Rows that were chosen, in a temporary table or ready to be read."""

    con: DuckDBPyConnection
    kind: ExportKind
    rows: int
    query: str = ""
    """Selects the rows of a kind other than traces from `$first` to below `$end`, in their order; their first
    column is their place in it."""


def select(
    con: DuckDBPyConnection, *, where: str | None, month: str | None, sample: str | None, run: str | None
) -> ExportSelection:
    """Return the selection, with its names looked up.

    Raises:
        UnknownNameError: there is no such sample or run.
    """
    if sample is not None:
        get_sample(con, sample)
    return ExportSelection(where=where, month=month, sample=sample, run=get_run(con, run) if run else None)


def runs_of(con: DuckDBPyConnection, chosen: ExportSelection) -> list[RunRecord]:
    """Return the runs that the selection leaves, oldest first."""
    runs = [chosen.run] if chosen.run else list_runs(con, experiments=True)
    return [run for run in runs if chosen.sample in (None, run.sample)]


def prepare(
    con: DuckDBPyConnection, kind: ExportKind, chosen: ExportSelection, computed: Iterable[Grade] = ()
) -> Export:
    """Choose the rows. `computed` are grades that the store does not keep, for an export of grades.

    Raises:
        InputError: the condition or the month cannot be used, or the run has no sample to export.
    """
    narrowed = kind is ExportKind.TRACES or bool(chosen.where) or chosen.month is not None
    if narrowed:
        _choose_traces(con, chosen, whole=kind is ExportKind.TRACES)
    if kind is ExportKind.TRACES:
        return Export(con=con, kind=kind, rows=_count(con, "exported"))
    if kind is ExportKind.GRADES:
        _stage_grades(con, computed)
    conditions, values = ["true"], dict[str, Any]()
    if narrowed:
        conditions.append("i.trace_id IN (SELECT trace_id FROM exported)")
    if chosen.sample is not None:
        conditions.append("s.name = $sample" if kind is ExportKind.SAMPLES else "r.sample = $sample")
        values["sample"] = chosen.sample
    if chosen.run is not None:
        if kind is not ExportKind.SAMPLES:
            conditions.append("r.run_id = $run")
            values["run"] = chosen.run.id
        elif chosen.run.sample is None:
            raise InputError(
                f"run {chosen.run.id} replayed a golden set, not a sample", hint="leave out --run"
            )
        else:
            conditions.append("s.name = $of_run")
            values["of_run"] = chosen.run.sample
    tables, order, key = _FROM[kind]
    # Rows are sorted without their texts, which may be large.
    con.execute(
        f"CREATE TEMP TABLE chosen AS SELECT row_number() OVER (ORDER BY {order}) - 1 AS place, {key}"
        f" {tables} WHERE {' AND '.join(conditions)}",
        values,
    ).fetchall()
    same_key = " AND ".join(f"chosen.{name.rpartition('.')[2]} = {name}" for name in key.split(", "))
    return Export(
        con=con,
        kind=kind,
        rows=_count(con, "chosen"),
        query=f"SELECT chosen.place, {_columns(kind)} {tables} JOIN chosen ON {same_key}"
        " WHERE chosen.place >= $first AND chosen.place < $end ORDER BY chosen.place",
    )


def write_jsonl(export: Export, file: BinaryIO, on_rows: OnRows) -> None:
    """Write each row as one line of JSON, with the bytes of its media."""
    rows = _trace_records(export) if export.kind is ExportKind.TRACES else _row_records(export)
    media = MediaFolder.of(export.con)
    for count, row in enumerate(rows, start=1):
        line = _line(row)
        # Whoever reads it has no other file: media are in it as base64.
        file.write(media.filled_text(line.decode()).encode() if MARK.encode() in line else line)
        if count % _ROWS == 0:
            on_rows(count, export.rows)


def _line(row: dict[str, Any]) -> bytes:
    line = _encoder.encode(row)
    for bare, escaped in _LINE_ENDS:
        if bare in line:
            line = line.replace(bare, escaped)
    return line + b"\n"


def write_parquet(export: Export, path: Path, on_rows: OnRows) -> None:
    """Write the rows as one Parquet file; `path` is what the store was opened with as `export_to`.

    Raises:
        InputError: a row is larger than the memory DuckDB is given, or the disk is full.
    """
    # With more threads, or its own temporary file, DuckDB needs more memory or another path than it may have.
    export.con.execute("SET GLOBAL threads = 1")
    options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_ROW_GROUP}, USE_TMP_FILE false"
    try:
        if export.kind is ExportKind.TRACES:
            _stage_traces(export, on_rows)
        else:
            _stage_rows(export)
        copy = f"COPY (FROM staged ORDER BY rowid) TO $path ({options})"
        all_rows(export.con, copy, {"path": str(path)})
    except duckdb.OutOfMemoryException:
        raise InputError(
            "a row is too large for Parquet in the memory there is",
            hint="export to JSON Lines (--format jsonl)",
        ) from None
    except duckdb.IOException as error:
        if unwritten := UNWRITTEN.search(str(error)):
            raise NoSpaceError(
                f"the Parquet file cannot be written: {unwritten[0]}",
                hint=f"{remedy(unwritten[0])}, or name another file",
            ) from None
        raise InputError(f"the Parquet file cannot be written: {str(error).splitlines()[0]}") from None


def _choose_traces(con: DuckDBPyConnection, chosen: ExportSelection, *, whole: bool) -> None:
    """Keep which traces fit in the table `exported`, and where they and their tool calls lie.

    `whole` says that sample and run narrow the traces themselves. Traces of a sample come in the order of
    the draw, others in the order of import: what lies together is read together.
    """
    con.execute("CREATE TEMP TABLE fitting (trace_id VARCHAR)")
    with guarded(con, chosen.where) as cursor:
        source, values = selection(cursor, chosen.where, chosen.month)
        cursor.execute(f"SELECT trace_id FROM {source}", values)
        while rows := cursor.fetchmany(_IDS):
            sql.insert(con, "fitting", {"trace_id": "VARCHAR"}, rows)
    joins, order, values = "", "t.rowid", dict[str, Any]()
    if whole and chosen.sample is not None:
        joins += (
            " JOIN (SELECT unnest(list_prepend(trace_id, turns)) AS trace_id, position"
            " FROM sample_items WHERE sample = $sample) s ON s.trace_id = t.trace_id"
        )
        order = "s.position, t.started_at, t.rowid"
        values["sample"] = chosen.sample
    if whole and chosen.run is not None:
        joins += (
            " SEMI JOIN (SELECT trace_id FROM run_items WHERE run_id = $run) r ON r.trace_id = t.trace_id"
        )
        values["run"] = chosen.run.id
    con.execute(
        f"""
        CREATE TEMP TABLE exported AS
        SELECT t.trace_id, row_number() OVER (ORDER BY {order}) - 1 AS position, t.rowid AS place,
               c.first_call, c.last_call
        FROM traces t JOIN fitting USING (trace_id) {joins} LEFT JOIN (
            SELECT trace_id, min(rowid) AS first_call, max(rowid) AS last_call
            FROM tool_calls GROUP BY trace_id
        ) c ON c.trace_id = t.trace_id
        """,
        values,
    ).fetchall()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExportBatch:
    """Traces that are read together."""

    ids: list[str]
    rows: tuple[int, int]
    call_rows: tuple[int, int]


def _batches(export: Export) -> Iterator[_ExportBatch]:
    for start in range(0, export.rows, _TRACES):
        ids, low, high, first, last = export.con.execute(
            "SELECT list(trace_id ORDER BY position), min(place), max(place),"
            " coalesce(min(first_call), 0), coalesce(max(last_call), -1)"
            " FROM exported WHERE position >= ? AND position < ?",
            [start, start + _TRACES],
        ).fetchall()[0]
        yield _ExportBatch(ids=ids, rows=(low, high), call_rows=(first, last))


_ALONE = """
SELECT trace_id FROM traces WHERE continues IS NOT NULL AND trace_id IN (SELECT unnest(?::VARCHAR[]))
AND (source, continues) NOT IN (SELECT (source, trace_id) FROM traces SEMI JOIN exported USING (trace_id))
"""
"""Traces whose session is not exported up to them: they are written with all that was said before.

A trace whose id here is not that of its source is imported under its id here, so no other may refer to it."""


def _trace_records(export: Export) -> Iterator[dict[str, Any]]:
    for batch in _batches(export):
        traces = read_traces(export.con, batch.ids, batch.rows, batch.call_rows)
        alone = {name for (name,) in export.con.execute(_ALONE, [batch.ids]).fetchall()}
        for trace in traces:
            yield trace_record(with_histories(export.con, [trace])[0] if trace.trace_id in alone else trace)


def _stage_traces(export: Export, on_rows: OnRows) -> None:
    """Collect the traces with their tool calls in the table `staged`.

    By the hundreds, because DuckDB cannot move a list that it is collecting to disk.
    """
    query = f"""
        WITH called AS (
            SELECT trace_id, list({{
                'name': name, 'args': args::VARCHAR, 'id': call_id, 'result': result::VARCHAR, 'error': error,
                'answered': answered, 'started_at': started_at, 'duration_ms': duration_ms
            }} ORDER BY index) AS tool_calls
            FROM tool_calls
            WHERE trace_id IN (SELECT unnest($ids::VARCHAR[])) AND rowid BETWEEN $first AND $last
            GROUP BY trace_id
        )
        SELECT {_columns(ExportKind.TRACES)}, coalesce(c.tool_calls, []) AS tool_calls
        FROM traces t LEFT JOIN called c USING (trace_id)
        WHERE t.trace_id IN (SELECT unnest($ids::VARCHAR[])) AND t.rowid BETWEEN $low AND $high
        ORDER BY list_position($ids::VARCHAR[], t.trace_id)
    """
    con = export.con
    no_rows = {"ids": [], "first": 0, "last": -1, "low": 0, "high": -1}
    con.execute(f"CREATE TEMP TABLE staged AS {query}", no_rows).fetchall()
    count = 0
    for batch in _batches(export):
        (first, last), (low, high) = batch.call_rows, batch.rows
        con.execute(
            f"INSERT INTO staged {query}",
            {"ids": batch.ids, "first": first, "last": last, "low": low, "high": high},
        ).fetchall()
        count += len(batch.ids)
        on_rows(count, export.rows)


def _stage_rows(export: Export) -> None:
    """Collect the rows in the table `staged`, some at a time, since a sort has their texts in memory."""
    con, size = export.con, _TOGETHER // 4
    query = f"SELECT * EXCLUDE (place) FROM ({export.query}) ORDER BY place"
    con.execute(f"CREATE TEMP TABLE staged AS {query}", {"first": 0, "end": 0}).fetchall()
    for first in range(0, export.rows, size):
        all_rows(con, f"INSERT INTO staged {query}", {"first": first, "end": first + size})


def _stage_grades(con: DuckDBPyConnection, computed: Iterable[Grade]) -> None:
    con.execute("CREATE TEMP TABLE computed AS FROM grades LIMIT 0")
    unstaged = iter(computed)
    while batch := list(islice(unstaged, _ROWS)):
        GRADES.insert(con, batch, table="computed")


def _row_records(export: Export) -> Iterator[dict[str, Any]]:
    names = list(_SELECTED[export.kind])
    for _, *row in by_position(export.con, export.query, {}, end=export.rows, batch=_TOGETHER):
        yield {name: _plain(name, value) for name, value in zip(names, row, strict=True)}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat() + "Z"
    if name in _PAYLOADS and value is not None:
        return msgspec.Raw(value.encode())
    return value


def _count(con: DuckDBPyConnection, table: str) -> int:
    row = con.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(row[0]) if row else 0


_PAYLOADS = {"served", "scores", "metadata", "messages", "steps", "detail", "votes", "request", "tool_calls"}
"""Columns of JSON text."""
_TRACE_COLUMNS = ("trace_id", "source", "updated_at", *FACTS, "metadata", "continues", "messages", "steps")


def _of(table: str, *names: str) -> dict[str, str]:
    """Return these columns of a table under their own names."""
    return {name: f"{table}.{name}" for name in names}


def _tokens(table: str) -> dict[str, str]:
    return {
        name: f"json_extract_string({table}.usage, '/{name}')::BIGINT"
        for name in ("input_tokens", "output_tokens")
    }


_SELECTED: dict[ExportKind, dict[str, str]] = {
    ExportKind.TRACES: _of("t", *_TRACE_COLUMNS),
    ExportKind.SAMPLES: {
        "sample": "s.name",
        **_of("i", "position", "trace_id", "stratum", "weight"),
        **_of("s", "created_at", "month"),
        "condition": "s.where_clause",
        "by": "s.by_fields",
        **_of("s", "size", "seed", "population"),
    },
    ExportKind.RUNS: {
        "run_id": "r.run_id",
        "run_created_at": "r.created_at",
        **_of("r", "sample", "golden_path", "mode"),
        "lane": "t.lane",
        "version": "json_extract_string(r.lanes, '/' || t.lane || '/name')",
        "model": "json_extract_string(r.lanes, '/' || t.lane || '/args/model')",
        "item_id": "t.item_id",
        **_of("i", "trace_id", "case_id", "stratum", "weight"),
        "trial": "t.index",
        **_of("t", "status", "reason", "final_response"),
        "tool_path": "coalesce(nullif(array_to_string("
        "json_extract_string(t.served, '$[*].call.name'), '>'), ''), '-')",
        "served": "t.served",
        **_tokens("t"),
        **_of("t", "cost_usd", "latency_ms", "started_at", "attempts", "scores"),
    },
    ExportKind.GRADES: {
        **_of("g", "run_id", "item_id"),
        **_of("i", "trace_id", "case_id"),
        **_of("g", "lane", "trial", "grader", "grader_version", "state", "score", "passed", "reason"),
        **_of("g", "detail", "votes", "cost_usd"),
    },
    ExportKind.MODEL_CALLS: {
        **_of("m", "run_id", "item_id"),
        **_of("i", "trace_id", "case_id"),
        "lane": "m.lane",
        "version": "json_extract_string(r.lanes, '/' || m.lane || '/name')",
        **_of("m", "trial", "index", "api", "path", "model", "status", "error", "request", "response"),
        "tool_calls": "m.tool_calls",
        **_tokens("m"),
        **_of("m", "cost_usd", "latency_ms", "started_at"),
    },
}
_ITEM = (
    "JOIN run_items i ON i.run_id = {0}.run_id AND i.item_id = {0}.item_id"
    " JOIN runs r ON r.run_id = {0}.run_id"
)
_FROM = {
    # Kind → tables, order of the rows, and the columns that are the key of one.
    ExportKind.SAMPLES: (
        "FROM samples s JOIN sample_items i ON i.sample = s.name",
        "s.created_at, s.name, i.position",
        "s.name, i.position",
    ),
    ExportKind.RUNS: (
        f"FROM trials t {_ITEM.format('t')}",
        "r.created_at, r.run_id, i.position, t.lane, t.index",
        "t.run_id, t.item_id, t.lane, t.index",
    ),
    ExportKind.GRADES: (
        f"FROM (FROM grades UNION ALL FROM computed) g {_ITEM.format('g')}",
        "r.created_at, r.run_id, i.position, g.lane, g.trial, g.grader, g.grader_version",
        "g.run_id, g.item_id, g.lane, g.trial, g.grader, g.grader_version",
    ),
    ExportKind.MODEL_CALLS: (
        f"FROM model_calls m {_ITEM.format('m')}",
        "r.created_at, r.run_id, i.position, m.lane, m.trial, m.index",
        "m.run_id, m.item_id, m.lane, m.trial, m.index",
    ),
}


def _columns(kind: ExportKind) -> str:
    # As text: Parquet readers that know no JSON type would show bytes.
    return ", ".join(
        f'{sql}{"::VARCHAR" if name in _PAYLOADS else ""} AS "{name}"'
        for name, sql in _SELECTED[kind].items()
    )
