"""Runs of LangSmith, in whichever spelling: dumps of the old and the new API, exports, what an SDK posts.

| | old API, SDK | new API | bulk export |
|---|---|---|---|
| `run_type`, `status` | lower case | upper case | lower case |
| parent | `parent_run_id` | `parent_run_ids`, the last one | both |
| project | `session_id` | `project_id` | `session_id` |
| inputs, outputs, extra … | objects | objects | JSON text |

`dotted_order` (`<time>Z<id>` for each run from the root down, joined by dots) names the trace and the parent
where the other fields do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from replaydiff.importers import fields
from replaydiff.importers.base import RecordError
from replaydiff.importers.convert import Spool
from replaydiff.replay.messages import decode
from replaydiff.replay.model import Json, JsonObject, Usage, as_list, as_object

RUN, UPDATE, FEEDBACK = "run", "update", "feedback"
"""Sorts of rows."""
BEGUN, UPDATED = "post", "patch"
"""Keys of a batch that an SDK posts: runs that begin or are whole, and what is known of runs later."""
_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
_STAMP = len("20261101T100000000000Z")
_PENDING = ("GraphInterrupt(", "NodeInterrupt(", "ParentCommand(")
"""How LangGraph hands over to a person or another graph: its tracer records that as an error."""
_COLUMNS = frozenset(
    {
        "id", "run_id", "trace_id", "dotted_order", "parent_run_id", "parent_run_ids", "name",
        "run_type", "status", "start_time", "end_time", "inputs", "outputs", "extra",
        "metadata", "error", "tags", "total_cost", "feedback_stats", "project_id", "session_id",
        "session_name", "reference_example_id", "prompt_token_details", "events", "serialized",
        "inputs_preview", "outputs_preview", "child_runs", "child_run_ids",
        "direct_child_run_ids", "manifest", "app_path",
    }
)  # fmt: skip
"""Fields of a run that are read, or that are known to repeat or describe it."""
_LISTS = ("runs", "items", "feedback")
"""Keys under which a page of the API lists what it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LangsmithRun:
    """One run."""

    id: str
    trace_id: str
    parent: str | None
    order: str
    """Sorts the runs of a trace by execution: `dotted_order` where it was recorded, else the start."""
    name: str
    type: str
    """chain, llm, tool, retriever, embedding, prompt, parser."""
    started_at: datetime
    ended_at: datetime | None
    inputs: Json
    outputs: Json
    pending: bool
    """It had not ended when it was recorded."""
    error: str | None
    tags: tuple[str, ...]
    extra: JsonObject
    metadata: JsonObject
    """`extra.metadata`, which is the user's and LangChain's own."""
    usage: Usage | None
    cost: float | None
    feedback: JsonObject
    """Statistics by key, as the server keeps them: `{"thumbs": {"n": 1, "avg": 1.0}}`."""
    project: str | None
    """Its id."""
    project_name: str | None
    example_id: str | None
    """The example of a dataset that an evaluation ran it on."""
    unknown: JsonObject
    """What it has under keys that LangSmith's runs do not have."""

    @property
    def session(self) -> str | None:
        """Return the conversation it belongs to."""
        return self._metadata_text("thread_id", "session_id", "conversation_id")

    @property
    def user(self) -> str | None:
        """Return the user it ran for."""
        return self._metadata_text("user_id")

    @property
    def release(self) -> str | None:
        """Return the version of the application."""
        return self._metadata_text("revision_id", "LANGSMITH_REVISION_ID", "LANGCHAIN_REVISION_ID", "version")

    @property
    def environment(self) -> str | None:
        """Return where the application ran; LangSmith has no word of its own for it."""
        return self._metadata_text("environment", "env")

    def _metadata_text(self, *keys: str) -> str | None:
        values = (self.metadata.get(key) for key in keys)
        return next((str(value) for value in values if isinstance(value, str | int) and value != ""), None)


def is_run(record: JsonObject) -> bool:
    """Return whether a record looks like a run."""
    return "run_type" in record and ("dotted_order" in record or "trace_id" in record or "id" in record)


def is_feedback(record: JsonObject) -> bool:
    """Return whether a record looks like a feedback."""
    return "key" in record and "run_id" in record and ("score" in record or "value" in record)


def rows(record: Json) -> Iterator[JsonObject]:
    """Yield the runs and feedbacks in a record: itself, those of a page or a batch, those nested in
    `child_runs`.

    Raises:
        RecordError: it is none of these.
    """
    record = fields.object_of(record, "a record")
    if not is_run(record) and isinstance(record.get(BEGUN, record.get(UPDATED)), list):
        yield from _of_batch(record)
        return
    listed = next((value for key in _LISTS if isinstance(value := record.get(key), list)), None)
    if listed is not None and not is_run(record):
        for row in listed:
            yield from rows(row)
    elif is_run(record):
        yield {key: value for key, value in record.items() if key != "child_runs"}
        for child in as_list(record.get("child_runs")):
            yield from rows(child)
    elif is_feedback(record):
        yield record
    else:
        raise RecordError("neither a run (run_type, id) nor a feedback (key, run_id) of LangSmith")


def _of_batch(record: JsonObject) -> Iterator[JsonObject]:
    for row in fields.sequence(record, BEGUN):
        yield from rows(row)
    for row in fields.sequence(record, UPDATED):
        if not isinstance(row, dict) or trace_of(row) is None or _row_id(row) is None:
            raise RecordError("an update of a run has no id or no trace_id")
        yield {UPDATED: row}


def whole_runs(runs: Sequence[Json], updates: Sequence[Json]) -> Iterator[LangsmithRun]:
    """Return runs with what was posted of them later.

    Args:
        runs: the rows of runs.
        updates: the rows of updates, in the order in which they came.

    Raises:
        RecordError: a run cannot be read, or an update's run is not among them.
    """
    begun = {_row_id(row): row for row in runs if isinstance(row, dict)}
    for update in updates:
        assert isinstance(update, dict)  # noqa: S101 - as `add_row` kept it
        run_id = _row_id(update)
        if run_id not in begun and "start_time" not in update:
            raise RecordError(f"the beginning of run {run_id} is not in these files")
        changes = {key: value for key, value in update.items() if value is not None}
        begun[run_id] = {**begun.get(run_id, {}), **changes}
    return map(read_run, begun.values())


def add_row(spool: Spool, row: JsonObject, *, file: int = 0, line: int = 0) -> None:
    """Keep a row with the others of its trace; of two of one id the one that ended, or came, later counts.

    Raises:
        RecordError: a run cannot be read.
    """
    if is_feedback(row):
        # Only the API names the trace; the run that a user rates is mostly the root, which names it.
        key = fields.text(row, "trace_id") or fields.text(row, "run_id") or ""
        row_id = fields.text(row, "id") or f"{key} {row['key']}"
        spool.add(key, FEEDBACK, row_id, row, updated=str(row.get("modified_at") or ""), file=file, line=line)
        return
    update = row.get(UPDATED)
    if isinstance(update, dict):
        # Several may come of one run.
        row_id = msgspec.json.encode(update).decode()
        spool.add(str(trace_of(update)), UPDATE, row_id, update, file=file, line=line)
        return
    run = read_run(row)
    ended = run.ended_at.isoformat() if run.ended_at else ""
    spool.add(run.trace_id, RUN, run.id, row, updated=ended, file=file, line=line)


def trace_of(row: JsonObject) -> str | None:
    """Return the trace of a run or feedback; for a feedback that does not say, None."""
    trace_id = fields.text(row, "trace_id")
    if trace_id is not None or is_feedback(row):
        return trace_id
    path = _path(row)
    if path:
        return path[0]
    above = _parents(row)
    return above[0] if above else fields.text(row, "id")


def read_run(row: JsonObject) -> LangsmithRun:
    """Return a run.

    Raises:
        RecordError: it has no id or no start, or a field is of the wrong type.
    """
    run_id = _row_id(row)
    trace_id = trace_of(row)
    started_at = fields.time(row, "start_time")
    if run_id is None or trace_id is None:
        raise RecordError("id is missing")
    if started_at is None:
        raise RecordError("start_time is missing")
    extra = _object(row, "extra")
    metadata = {**as_object(extra.get("metadata")), **_object(row, "metadata")}
    path, above = _path(row), _parents(row)
    parent = above[-1] if above else path[-2] if len(path) > 1 else None
    return LangsmithRun(
        id=run_id,
        trace_id=trace_id,
        parent=parent,
        order=fields.text(row, "dotted_order") or started_at.isoformat(),
        name=fields.text(row, "name") or "",
        type=(fields.text(row, "run_type") or "chain").lower(),
        started_at=started_at,
        ended_at=fields.time(row, "end_time"),
        inputs=decode(row.get("inputs")),
        outputs=decode(row.get("outputs")),
        pending=str(row.get("status")).lower() == "pending",
        error=_error(row),
        tags=_tags(row),
        extra=extra,
        metadata=metadata,
        usage=_usage(row),
        cost=fields.number(row, "total_cost"),
        feedback=_object(row, "feedback_stats"),
        project=fields.text(row, "project_id") or fields.text(row, "session_id"),
        project_name=fields.text(row, "session_name"),
        example_id=fields.text(row, "reference_example_id"),
        unknown={key: decode(row[key]) for key in row.keys() - _COLUMNS},
    )


def _row_id(row: JsonObject) -> str | None:
    return fields.text(row, "id") or fields.text(row, "run_id")


def began(run: LangsmithRun) -> datetime:
    """Return when the whole trace of a run began, as far as the run knows."""
    try:
        return datetime.strptime(run.order[:_STAMP], "%Y%m%dT%H%M%S%fZ")
    except ValueError:
        return run.started_at


def _path(row: JsonObject) -> list[str]:
    """Return ids from the root down to the run itself."""
    order = row.get("dotted_order")
    matches = [_ID.search(part) for part in order.split(".")] if isinstance(order, str) else []
    return [match.group() for match in matches if match]


def _parents(row: JsonObject) -> list[str]:
    """Return ids above the run, as far as they were recorded; the direct parent is the last."""
    listed = decode(row.get("parent_run_ids"))
    if isinstance(listed, list) and listed:
        return [str(parent) for parent in listed]
    parent = fields.text(row, "parent_run_id")
    return [parent] if parent else []


def _object(row: JsonObject, key: str) -> JsonObject:
    """Return an object, also if it is given as JSON text."""
    return fields.mapping({key: decode(row.get(key)) or None}, key)


def _tags(row: JsonObject) -> tuple[str, ...]:
    """Return the user's tags; those that LangGraph numbers its steps with are left out."""
    tags = fields.tags({"tags": decode(row.get("tags")) or None})
    return tuple(tag for tag in tags if not tag.startswith(("seq:step:", "graph:step:", "map:key:")))


def _error(row: JsonObject) -> str | None:
    """Return what went wrong, without the traceback that LangChain puts behind it."""
    message = fields.text(row, "error")
    if message is None:
        return "failed" if str(row.get("status")).lower() == "error" else None
    if message.startswith(_PENDING):
        return None
    return message.partition("Traceback (most recent call last)")[0].strip() or message.strip()


def _usage(row: JsonObject) -> Usage | None:
    """Return tokens as the server counted them; of what is no model call they are sums of what is below."""
    details = as_object(decode(row.get("prompt_token_details")))
    details = as_object(details.get("raw")) or details
    return fields.counted(
        input_tokens=fields.count(row, "prompt_tokens"),
        output_tokens=fields.count(row, "completion_tokens"),
        cache_read_tokens=fields.count(details, "cache_read"),
        cache_write_tokens=fields.count(details, "cache_creation", "cache_write"),
    )
