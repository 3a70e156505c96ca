"""Logs of Braintrust: over its API, or rows of it (`btql`, `fetch`), exports of the UI, JSON, CSV or Parquet.

A row is a span. Of several states of one row the one of the highest transaction counts. Experiments are
evaluations, and no production traffic; spans of scorers are no part of the agent, their scores the trace's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Query, RecordError, ShowStatus, Skipped
from replaydiff.importers.convert import Group, Spool, grouped
from replaydiff.importers.reading import Record
from replaydiff.importers.sources.braintrust_api import address, client, compared, page, project_id
from replaydiff.importers.spans.interpret import argument, with_notes
from replaydiff.importers.spans.trace import About, Span, of_spans
from replaydiff.replay.errors import InputError
from replaydiff.replay.files import replacing
from replaydiff.replay.messages import decode, definitions, read_text
from replaydiff.replay.model import CORRECTION, Json, JsonObject, Score, StepKind, Trace

NAME = "braintrust"
RECOGNISED_BY = "records have span_attributes and root_span_id"

_TRACEBACK = "Traceback (most recent call last):"
_ROW = "row"
_LISTS = ("data", "events", "rows")
"""Keys under which a page of the API lists its rows."""
_ENCODED = ("span_attributes", "metrics", "metadata", "scores", "span_parents", "tags", "input", "output")
"""Fields that are JSON text in a CSV export."""
_KINDS = {"llm": StepKind.LLM, "tool": StepKind.TOOL}
_SESSIONS = ("session_id", "sessionId", "conversation_id", "thread_id")
_USERS = ("user_id", "userId", "user")
_RELEASES = ("release", "version", "revision")
_TOKENS = (
    ("prompt_tokens",),
    ("completion_tokens",),
    ("prompt_cached_tokens",),
    ("prompt_cache_creation_tokens",),
)
EXPERIMENT = "spans of experiments"
LOOKBACK = timedelta(days=7)
"""Rows are found by the time they were created; scores come to them later."""
_EDGE = timedelta(days=1)
"""How far outside of the span rows are fetched, for traces that its ends cut."""
_ROWS, _CURSOR = "rows.jsonl", "cursor.json"


def recognises(record: Json) -> float:
    """Recognise a record by the fields that a row has, or the first row of a page."""
    row = next(iter(_rows(record)), {})
    is_span = isinstance(row, dict) and {"span_attributes", "root_span_id", "span_id"} <= row.keys()
    return 0.97 if is_span else 0.0


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """Read one trace for each root span in the files."""
    return grouped(NAME, files, _keep, _trace, unpack=_rows, numbered=False)


def _rows(record: Json) -> Iterator[Json]:
    if isinstance(record, dict) and "span_id" not in record:
        listed = next((rows for key in _LISTS if isinstance(rows := record.get(key), list)), [record])
        yield from listed
    else:
        yield record


def _keep(spool: Spool, number: int, file: InputFile, record: Record) -> Iterator[Imported]:
    row = fields.object_of(record.value, "a row")
    span_id = fields.text(row, "span_id") or fields.text(row, "id")
    if span_id is None or "span_attributes" not in row:
        raise RecordError("no row of Braintrust: looked for span_id, root_span_id and span_attributes")
    if row.get("_object_delete") is True:
        yield Skipped("rows that were deleted")
        return
    if row.get("experiment_id") and not file.all_environments:
        yield Skipped(EXPERIMENT)
        return
    plain = {**row, **{key: decode(row[key]) for key in _ENCODED if key in row}}
    root = fields.text(row, "root_span_id") or span_id
    state = (fields.text(row, "_xact_id") or "").rjust(24, "0")
    spool.add(root, _ROW, span_id, plain, updated=state, file=number, line=record.line)


def _trace(group: Group, _value: Json, file: InputFile) -> Iterator[Imported]:
    rows = group.objects(_ROW)
    rows.sort(
        key=lambda row: (_started(row), fields.count(fields.mapping(row, "span_attributes"), "exec_counter"))
    )
    root = next((row for row in rows if not fields.sequence(row, "span_parents")), rows[0])
    if _type(root) == "eval" and not file.all_environments:
        yield Skipped(EXPERIMENT)
        return
    spans = [_span(row, row is root) for row in rows]
    yield from with_notes(of_spans(group.key, NAME, spans, _about(root, rows)), spans)


def _started(row: JsonObject) -> datetime:
    started_at = fields.time(fields.mapping(row, "metrics"), "start") or fields.time(row, "created")
    if started_at is None:
        raise RecordError("the row has no metrics.start and no created")
    return started_at


def _type(row: JsonObject) -> str:
    return str(fields.mapping(row, "span_attributes").get("type") or "")


def _span(row: JsonObject, is_root: bool) -> Span:
    kind = _KINDS.get(_type(row), StepKind.AGENT if is_root else StepKind.UNCLASSIFIED)
    metrics, metadata = fields.mapping(row, "metrics"), fields.mapping(row, "metadata")
    parents = fields.sequence(row, "span_parents")
    is_model = kind is StepKind.LLM
    output = row.get("output")
    first = output[0] if is_model and isinstance(output, list) and output else None
    if isinstance(first, dict) and "message" in first:
        # Several choices are alternatives.
        output = {"choices": output}
    return Span(
        id=fields.text(row, "span_id") or str(row.get("id")),
        parent=str(parents[0]) if parents else None,
        kind=kind,
        name=fields.text(fields.mapping(row, "span_attributes"), "name") or _type(row),
        started_at=_started(row),
        ended_at=fields.time(metrics, "end"),
        input=argument(row.get("input")) if kind is StepKind.AGENT else row.get("input"),
        output=output,
        call_id=fields.text(metadata, "tool_call_id") if kind is StepKind.TOOL else None,
        model=fields.text(metadata, "model") if is_model else None,
        usage=fields.tokens(metrics, *_TOKENS),
        cost=fields.number(metrics, "estimated_cost"),
        error=_error(row),
        evaluator=_type(row) == "score",
    )


def _error(row: JsonObject) -> str | None:
    """Return what went wrong: of a traceback its last line."""
    error = row.get("error")
    if isinstance(error, dict):
        error = error.get("message") or error.get("name") or "failed"
    before, _, traceback = str(error or "").strip().partition(_TRACEBACK)
    return before.strip() or next(
        (line.strip() for line in traceback.splitlines()[::-1] if line.strip()), None
    )


def _about(root: JsonObject, rows: Sequence[JsonObject]) -> About:
    metadata = dict(fields.mapping(root, "metadata"))
    offered = [fields.mapping(row, "metadata").get("tools") for row in rows if _type(row) == "llm"]
    definitions.put(metadata, *offered)
    expected = read_text(root.get("expected")) if root.get("expected") is not None else None
    if expected:
        metadata[CORRECTION] = expected
    session, user, release, environment = (
        fields.popped(metadata, *keys) for keys in (_SESSIONS, _USERS, _RELEASES, ("environment",))
    )
    scores: dict[str, Score] = {}
    for row in (*rows, root):
        scores |= {
            name: number
            for name, value in fields.mapping(row, "scores").items()
            if (number := fields.finite(value)) is not None
        }
    return About(
        name=fields.text(fields.mapping(root, "span_attributes"), "name"),
        session_id=session,
        user_id=user,
        environment=environment,
        release=release,
        tags=fields.tags(root),
        scores=scores,
        metadata=metadata,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """How far a query was answered."""

    cursor: str | None = None
    rows: int = 0
    done: bool = False


def origin(query: Query) -> str:
    """Return the host and the project of a query.

    Raises:
        CredentialsError: the key is not in the environment.
        SettingsError: the address in the environment is none.
        InputError: no project is named.
    """
    client(lambda _text: None)
    if query.project is None:
        raise InputError("which project of Braintrust? --project NAME says it")
    return f"{address()} ({query.project})"


def read_live(query: Query, folder: Path, show_status: ShowStatus) -> Iterator[Imported]:
    """Ask for the traces of `query`; see `LiveImporter`.

    Each page is in the folder before the cursor behind it is: one may be there twice, and none is lost.
    """
    rows_file, cursor_file = folder / _ROWS, folder / _CURSOR
    with client(show_status) as http:
        project = project_id(http, query.project or "")
        text = cursor_file.read_text() if cursor_file.exists() else "{}"
        mark = msgspec.json.decode(text, type=_Mark)
        while not mark.done:
            rows, following = page(http, "project_logs", project, _created_in(query), mark.cursor)
            with rows_file.open("a", encoding="utf-8") as target:
                target.writelines(json.dumps(row) + "\n" for row in rows)
            mark = _Mark(cursor=following, rows=mark.rows + len(rows), done=following is None)
            with replacing(cursor_file) as path:
                path.write_bytes(msgspec.json.encode(mark))
            show_status(f"{mark.rows:,} rows")
    size = rows_file.stat().st_size if rows_file.exists() else 0
    if not size:
        return
    file = InputFile(
        path=str(rows_file),
        name=f"{address()}/btql",
        size=size,
        modified=0.0,
        lines=True,
        all_environments=query.all_environments,
    )
    for item in read_files([file]):
        if not isinstance(item, Trace) or _matches(item, query):
            yield item


def _created_in(query: Query) -> JsonObject:
    """Return the condition on rows that may belong to traces of the query."""
    bounds: list[Json] = [compared("lt", "created", f"{(query.end + _EDGE).isoformat()}Z")]
    if query.start is not None:
        bounds.append(compared("ge", "created", f"{(query.start - _EDGE).isoformat()}Z"))
    return {"op": "and", "children": bounds}


def _matches(trace: Trace, query: Query) -> bool:
    return query.covers(trace.started_at) and query.matches(
        trace.environment, trace.release, trace.name, trace.user_id, trace.tags
    )
