"""What Phoenix gives out: spans and annotations, from its API, its client or a data frame that was saved.

| record | from |
|---|---|
| `{"name", "context": {…}, "span_kind", "attributes": {…}}`, alone or in a page `{"data": […]}` | REST API |
| `{"context.span_id", "context.trace_id", "attributes.…"}` | a data frame as JSON, CSV or Parquet |
| `{"context.trace_id": {"<span id>": …}, …}` | a data frame as JSON, by columns |
| `{"trace_id", "span_id", "start_time_unix_nano", …}` | REST API, `spans/otlpv1` |
| `{"span_id" or "trace_id", "annotator_kind", "result": {…}}`, also flat | annotations |

A data frame keeps span ids in its index, which `to_json(orient="records")` drops: such spans get an id of
their own here, and `linked` finds by time which of them are whose parents.

Spans and annotations of Phoenix on disk, and the traces that are made of them.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, Note, RecordError
from replaydiff.importers.convert import Group, Spool
from replaydiff.importers.sources.otlp import FoundSpan, otlp_span
from replaydiff.importers.spans.contents import Event, RawSpan, flat
from replaydiff.importers.spans.interpret import trace
from replaydiff.replay.messages import decode
from replaydiff.replay.model import Json, JsonObject, Score, as_object, objects_in

NOTE = "note"
"""Name of annotations that are a person's free text."""
_LOST = "sha256:"
_ATTRIBUTES = "attributes."
_TABLES = ("llm.input_messages", "llm.output_messages")
"""Columns of a data frame that hold lists of objects: as text, where it is a CSV file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A judgement of a span, a trace or a session."""

    of: str
    """Id of the span or trace; `SESSION` and the id of a session."""
    name: str
    value: Score
    human: bool
    updated: str
    label: str | None = None
    """The label beside a score."""
    by: str | None = None
    """Who gave it: `person`, `code` or `judge`; None where the row does not say."""


def rows(record: Json) -> Iterator[JsonObject]:
    """Yield the rows in one record of a file: itself, or what a page or a table by columns holds.

    Raises:
        RecordError: it is no object.
    """
    record = fields.object_of(record, "a row")
    data = record.get("data")
    if isinstance(data, list):
        for row in data:
            yield row if isinstance(row, dict) else {"": row}
    elif isinstance(record.get("context.trace_id"), dict):
        yield from _columns(record)
    else:
        yield record


def _columns(table: JsonObject) -> Iterator[JsonObject]:
    columns = {name: column for name, column in table.items() if isinstance(column, dict)}
    for key in columns["context.trace_id"]:
        row = {name: column.get(key) for name, column in columns.items()}
        # Where the index was reset first it holds numbers, and the ids are a column.
        yield row if row.get("context.span_id") else {**row, "context.span_id": key}


def is_span(row: JsonObject) -> bool:
    """Return whether a row is a span of Phoenix, by its fields."""
    context = row.get("context")
    if isinstance(context, dict):
        return "trace_id" in context and ("span_kind" in row or "status_code" in row)
    return "context.trace_id" in row or ("start_time_unix_nano" in row and "span_id" in row)


def is_annotation(row: JsonObject) -> bool:
    """Return whether a row is an annotation."""
    return "annotator_kind" in row and ("result" in row or "result.score" in row or "result.label" in row)


def read_span(row: JsonObject) -> FoundSpan:
    """Return a span from its row.

    Raises:
        RecordError: it lacks its trace or its start, or a time cannot be read.
    """
    if "start_time_unix_nano" in row:
        return otlp_span(row, "", {})
    context = row.get("context")
    columns = {key.removeprefix("context."): row[key] for key in row if key.startswith("context.")}
    ids: JsonObject = context if isinstance(context, dict) else columns
    trace_id, started_at = fields.text(ids, "trace_id"), fields.time(row, "start_time")
    if trace_id is None or started_at is None:
        raise RecordError(f"the span has no {'context.trace_id' if trace_id is None else 'start_time'}")
    attributes = _attributes(row)
    kind = row.get("span_kind")
    if isinstance(kind, str) and kind and kind.upper() != "UNKNOWN":
        attributes["openinference.span.kind"] = kind
    return FoundSpan(
        trace_id,
        RawSpan(
            id=fields.text(ids, "span_id") or row_id(row),
            parent=fields.text(row, "parent_id"),
            name=fields.text(row, "name") or "",
            started_at=started_at,
            ended_at=fields.time(row, "end_time"),
            failed=str(row.get("status_code")).upper() == "ERROR",
            message=str(row.get("status_message") or "") or None,
            attributes=attributes,
            events=_events(row),
        ),
    )


def _attributes(row: JsonObject) -> JsonObject:
    """Return attributes by dotted names, from `attributes` or from one column each."""
    decoded = decode(row.get("attributes"))
    attributes = flat(decoded) if isinstance(decoded, dict) else {}
    for key, value in row.items():
        if key.startswith(_ATTRIBUTES):
            name = key.removeprefix(_ATTRIBUTES)
            # What Phoenix has no name of its own for is one column for each first part of a name.
            attributes.update(flat(decode(value) if name in _TABLES or "." not in name else value, name))
    return attributes


def _events(row: JsonObject) -> tuple[Event, ...]:
    return tuple(
        Event(name=str(event.get("name") or ""), attributes=as_object(decode(event.get("attributes"))))
        for event in objects_in(decode(row.get("events")))
    )


def row_id(row: JsonObject) -> str:
    """Return an id for a row that has none: the same for the same row."""
    return _LOST + hashlib.sha256(msgspec.json.encode(row, order="sorted")).hexdigest()[:16]


def linked(spans: Sequence[RawSpan]) -> list[RawSpan]:
    """Return spans whose ids were lost, with those ids that their children still know.

    The parent of some spans is the shortest other span that encloses them all.
    """
    children: dict[str, list[RawSpan]] = defaultdict(list)
    for span in spans:
        if span.parent is not None:
            children[span.parent].append(span)
    ids: dict[str, str] = {}
    for parent, spans_below in children.items():
        start = min(span.started_at for span in spans_below)
        end = max(span.ended_at or span.started_at for span in spans_below)
        enclosing = [
            (span.ended_at - span.started_at, span.id)
            for span in spans
            if span.parent != parent
            and span.id not in ids
            and span.ended_at is not None
            and span.started_at <= start
            and end <= span.ended_at
        ]
        if enclosing:
            ids[min(enclosing)[1]] = parent
    return [replace(span, id=ids.get(span.id, span.id)) for span in spans]


def read_annotation(row: JsonObject) -> Annotation | None:
    """Return an annotation from its row; None where it judges nothing: a note, or neither score nor label.

    Raises:
        RecordError: it names no trace or span, or its score is no number.
    """
    of = fields.text(row, "span_id") or fields.text(row, "trace_id")
    session = fields.text(row, "session_id")
    if of is None and session is not None:
        of = SESSION + session
    if of is None:
        raise RecordError(
            "the annotation has no span_id: a data frame's index is not written as JSON records; "
            "export it with df.reset_index() first"
        )
    name = fields.text(row, "name") or fields.text(row, "annotation_name")
    result = as_object(row.get("result"))
    score = fields.number(result, "score")
    score = score if score is not None else fields.number(row, "result.score")
    label = fields.text(result, "label") or fields.text(row, "result.label")
    value: Score | None = score
    if score is None or not math.isfinite(score):
        value, label = label, None
    if name is None or name == NOTE or value is None:
        return None
    return Annotation(
        of=of,
        name=name,
        value=value,
        human=str(row.get("annotator_kind")).upper() == "HUMAN",
        updated=str(row.get("updated_at") or ""),
        label=label,
        by=fields.giver(row.get("annotator_kind")),
    )


def scores(
    spans: Sequence[RawSpan], of_spans: Sequence[Annotation], of_trace: Sequence[Annotation]
) -> dict[str, Score]:
    """Return scores by name. Of one name those of the trace or its root count before those of other spans, a
    person's before a machine's, a later before an earlier."""
    ranked = _ranked(spans, of_spans, of_trace)
    labels = {
        f"{annotation.name}_label": annotation.label for annotation in ranked if annotation.label is not None
    }
    return {**labels, **{annotation.name: annotation.value for annotation in ranked}}


def scored_by(
    spans: Sequence[RawSpan], of_spans: Sequence[Annotation], of_trace: Sequence[Annotation]
) -> JsonObject:
    """Return who gave the scores of `scores`, by name, as far as their rows say."""
    givers = {annotation.name: annotation.by for annotation in _ranked(spans, of_spans, of_trace)}
    return {name: by for name, by in givers.items() if by is not None}


def _ranked(
    spans: Sequence[RawSpan], of_spans: Sequence[Annotation], of_trace: Sequence[Annotation]
) -> list[Annotation]:
    """Return the annotations, those last that count where several have one name."""
    roots = {span.id for span in spans if span.parent is None}
    ranked = [
        (annotation.of in roots, annotation.human, annotation.updated, annotation) for annotation in of_spans
    ]
    ranked += [(True, annotation.human, annotation.updated, annotation) for annotation in of_trace]
    return [entry[3] for entry in sorted(ranked, key=lambda entry: entry[:3])]


SESSION = "session "
"""Beginning of the key under which the annotations of a session are kept."""
_SPAN, _ANNOTATION, _REFUSED = "span", "annotation", "refused"
LOST_IDS = (
    "spans without ids, since the index of a data frame was not written: which is whose parent was found by "
    "time; export with df.reset_index() to be sure"
)


class Gathered:
    """Two spools: spans by trace, annotations by what they are of; in a folder to go on from. `close` it."""

    def __init__(self, folder: Path | None = None) -> None:
        self.spans = Spool(folder and folder / "spans.sqlite")
        self.annotations = Spool(folder and folder / "annotations.sqlite")
        self._used = 0

    def close(self) -> None:
        """Let go of the files."""
        self.spans.close()
        self.annotations.close()

    def commit(self) -> None:
        """Write what was taken; marks stand with the spans, so annotations go first."""
        self.annotations.commit()
        self.spans.commit()

    def take(self, row: JsonObject, file: int = 0, line: int = 0) -> bool:
        """Keep a row; False where it is neither a span nor an annotation.

        Raises:
            RecordError: it cannot be read.
        """
        if is_annotation(row):
            annotation = read_annotation(row)
            if annotation is not None:
                key = f"{annotation.name} {annotation.human} {row.get('identifier') or ''}"
                self.annotations.add(
                    annotation.of, _ANNOTATION, key, asdict(annotation), updated=annotation.updated
                )
            return True
        if not is_span(row):
            return False
        span = read_span(row)
        self.spans.add(
            span.trace_id, _SPAN, span.span.id, msgspec.to_builtins(span.span), file=file, line=line
        )
        return True

    def refuse(self, row: JsonObject, reason: str) -> None:
        """Keep what was wrong with a row, for an import that may be interrupted before it says so."""
        self.annotations.add("", _REFUSED, row_id(row), {"row": row, "reason": reason})

    def refused(self) -> Iterator[tuple[JsonObject, str]]:
        """Yield rows that could not be taken, and why."""
        for row in self.annotations.of(""):
            assert isinstance(row.value, dict)  # noqa: S101 - as it was written above
            yield row.value["row"], str(row.value["reason"])  # type: ignore[misc]

    def trace_items(self, group: Group, source: str) -> Iterator[Imported]:
        """Yield the trace of a group of spans, with its scores.

        Raises:
            RecordError: a number in it cannot be read.
        """
        spans = [msgspec.convert(row, RawSpan) for row in group.of(_SPAN)]
        if any(span.id.startswith(_LOST) for span in spans):
            yield Note(LOST_IDS)
            spans = linked(spans)
        of_spans = [annotation for span in spans for annotation in self._judged(span.id)]
        session = next((str(value) for span in spans if (value := span.first("session.id"))), None)
        of_session = self._judged(SESSION + session) if session is not None else []
        of_trace = self._judged(group.key)
        by_name = {**scores(spans, [], of_session), **scores(spans, of_spans, of_trace)}
        givers = {**scored_by(spans, [], of_session), **scored_by(spans, of_spans, of_trace)}
        yield from trace(group.key, source, spans, by_name, givers)

    def _judged(self, key: str) -> list[Annotation]:
        annotations = [msgspec.convert(row.value, Annotation) for row in self.annotations.of(key)]
        self._used += len(annotations)
        return annotations

    @property
    def unused(self) -> int:
        """Return annotations of spans and traces that were not made."""
        return len(self.annotations) - self._used
