"""Phoenix: spans of OpenInference from files, or from a server over its REST API.

Spans are fetched by their own start, so a time range cuts traces at its edges: those that miss a parent, or
ended after the range, are fetched completely. Spans, annotations and the position of the next page are
written together; after an interruption the import continues at that page.

The address and the keys are read from the environment as Phoenix's own client reads them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence, Set
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Note, Query, RecordError, ShowStatus, Skipped
from replaydiff.importers.convert import Group, guarded, refused, spooled
from replaydiff.importers.http import ATTEMPTS, HttpError, JsonClient, Params, check_next, read_url
from replaydiff.importers.reading import Record
from replaydiff.importers.sources.phoenix.records import Gathered, is_annotation, is_span, rows
from replaydiff.importers.spans.contents import RawSpan
from replaydiff.importers.spans.interpret import lacks_parent
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import Json, JsonObject, Trace, as_object, objects_in

NAME = "phoenix"
LOOKBACK = timedelta(days=30)
"""A rating often comes days after its trace, and Phoenix cannot be asked what was rated since a time: only
annotations of spans that are named. So `--since last` reads the spans of this time again."""
_ADDRESSES = ("PHOENIX_ENDPOINT", "PHOENIX_COLLECTOR_ENDPOINT", "PHOENIX_BASE_URL", "PHOENIX_HOST")
_PROJECTS = ("PHOENIX_PROJECT", "PHOENIX_PROJECT_NAME")
KEYS = "PHOENIX_API_KEY and PHOENIX_CLIENT_HEADERS"
_OTLP_PATH = re.compile(r"/+v1/traces/?$")
_PORT = "6006"

_PAGE_SIZES = (200, 20, 1)
"""Spans a page: fewer where a page is too heavy for the server. Ids of 200 still fit into an address."""
_EARLY = 2
"""How often a page is asked for before a smaller one is."""
_IDS_AT_ONCE = 100
_MOST_ANNOTATIONS = 1000
_DONE = "done"
_NEXT, _WHOLE = "next", "whole "
_EDGE = timedelta(hours=1)
"""How far beyond the span of time the rest of a trace is looked for, where it cannot be asked for by id."""
_NOT_THERE = (200, 404, 405)
"""A path that the server does not know: an older Phoenix answers it with its own web page."""
CUT = "spans of this trace are missing, and this version of Phoenix cannot be asked for one trace"


def origin(query: Query) -> str:
    """Return the server and the project."""
    return f"Phoenix at {server_url()}, project {_project(query)}"


def read_live(query: Query, folder: Path, show_status: ShowStatus) -> Iterator[Imported]:
    """Yield the traces of a query, after all of their spans were fetched."""
    with closing(Gathered(folder)) as gathered:
        with JsonClient(
            server_url(), headers=server_headers(), service="Phoenix", keys=KEYS, show_status=show_status
        ) as client:
            reader = _PageReader(client, query, gathered, show_status)
            reader.read()
        origin_file = InputFile(path=os.devnull, name=origin(query), size=0, modified=0)
        for row, reason in gathered.refused():
            yield refused(NAME, origin_file, Record(1, row), reason)
        for group in gathered.spans.groups():
            record = Record(1, group.rows[0].value)
            yield from guarded(NAME, origin_file, record, partial(reader.trace_items, group))


def server_url() -> str:
    """Return the address of the server, out of the environment."""
    for name in _ADDRESSES:
        value = os.environ.get(name, "").strip()
        if not value:
            continue
        if name == "PHOENIX_COLLECTOR_ENDPOINT":
            value = _OTLP_PATH.sub("", value)
        if name == "PHOENIX_HOST" and "://" not in value:
            host = "127.0.0.1" if value == "0.0.0.0" else value  # noqa: S104 - where a server listens
            port = os.environ.get("PHOENIX_PORT", "").strip() or _PORT
            value = f"http://{host}" if ":" in host else f"http://{host}:{port}"
        return read_url(name, value)
    return f"http://localhost:{os.environ.get('PHOENIX_PORT', '').strip() or _PORT}"


def server_headers() -> dict[str, str]:
    """Return headers of the environment, `name=value` with commas between them, URL-encoded; and the key."""
    headers: dict[str, str] = {}
    for pair in os.environ.get("PHOENIX_CLIENT_HEADERS", "").split(","):
        name, equals, value = pair.partition("=")
        if equals and name.strip():
            headers[unquote(name).strip().lower()] = unquote(value).strip()
    key = os.environ.get("PHOENIX_API_KEY", "").strip()
    if key and "authorization" not in headers:
        headers["authorization"] = f"Bearer {key}"
    return headers


def _project(query: Query) -> str:
    return query.project or next((os.environ[name] for name in _PROJECTS if os.environ.get(name)), "default")


class _PageReader:
    def __init__(self, client: JsonClient, query: Query, gathered: Gathered, show_status: ShowStatus) -> None:
        self._client, self._query, self._gathered, self._show_status = client, query, gathered, show_status
        self._path = f"/v1/projects/{quote(_project(query), safe='')}"
        self._size = _PAGE_SIZES[0]
        self._cannot_complete = False
        self._sessions: set[str] = set()
        """Sessions whose annotations were asked for."""

    def read(self) -> None:
        """Fill the spools, without fetching what they already contain."""
        spool, start, end = self._gathered.spans, self._query.start, self._query.end
        self._fetch(_NEXT, start, end)
        cut = {group.key for group in spool.groups() if self._is_cut(group)}
        for key in sorted(cut):
            if spool.marked(_WHOLE + key) is None:
                self._complete(key)
                spool.mark(_WHOLE + key, "1")
                self._gathered.commit()
        if self._cannot_complete:
            self._fetch("after", end, end + _EDGE, cut)
            if start is not None:
                self._fetch("before", start - _EDGE, start, cut)

    def trace_items(self, group: Group, _value: Json, _file: InputFile) -> Iterator[Imported]:
        """Yield the trace of a group, where the query wants it."""
        items = list(self._gathered.trace_items(group, NAME))
        trace = next((item for item in items if isinstance(item, Trace)), None)
        if trace is None or _matches(trace, self._query):
            cut = self._cannot_complete and lacks_parent(_spans(group))
            if cut and trace is not None:
                yield Note(CUT)
            for item in items:
                yield replace(item, incomplete=True) if cut and isinstance(item, Trace) else item

    def _fetch(self, mark: str, start: datetime | None, end: datetime, only: Set[str] | None = None) -> None:
        """Take the spans that started in a span of time, of all traces or `only` of these."""
        spool = self._gathered.spans
        selection = {"end_time": _iso(end)} | ({"start_time": _iso(start)} if start else {})
        cursor = spool.marked(mark) or ""
        while cursor != _DONE:
            rows, cursor = self._page(selection, cursor)
            self._keep([row for row in rows if only is None or _trace_id(row) in only])
            spool.mark(mark, cursor)
            self._gathered.commit()
            self._show_status(f"{len(spool):,} spans")

    def _page(self, selection: Params, cursor: str) -> tuple[list[JsonObject], str]:
        """Return spans of a page, and the place of the next one."""
        while True:
            params = {**selection, "limit": self._size, **({"cursor": cursor} if cursor else {})}
            smaller = next((size for size in _PAGE_SIZES if size < self._size), None)
            heavy_attempts = ATTEMPTS if smaller is None else _EARLY
            try:
                answer = self._client.get(f"{self._path}/spans", params, heavy_attempts=heavy_attempts)
            except HttpError as error:
                if error.heavy and error.status != 422 and smaller is not None:
                    self._size = smaller
                    continue
                if error.status in _NOT_THERE:
                    raise InputError(self._no_project()) from None
                raise
            data, following = _listed(answer)
            check_next(cursor, following, f"{self._path}/spans")
            return data, following or _DONE

    def _no_project(self) -> str:
        """Return what to say where spans are not found: another project, an old server, or none of
        Phoenix.
        """
        try:
            listed, _ = _listed(self._client.get("/v1/projects", {"limit": 100}))
        except HttpError:
            return (
                f"{origin(self._query)}: nothing there answers as Phoenix 11 or later does; "
                "is the address right?"
            )
        names = ", ".join(str(project.get("name")) for project in listed)
        return f"{origin(self._query)}: there is no such project; --project takes one of: {names}"

    def _keep(self, spans: Sequence[JsonObject]) -> None:
        for row in spans:
            self._take(row)
        contexts = [row["context"] for row in spans if isinstance(row.get("context"), dict)]
        self._annotate("span", list(dict.fromkeys(_ids(contexts, "span_id"))))
        self._annotate("trace", list(dict.fromkeys(_ids(contexts, "trace_id"))))
        attributes = objects_in([row.get("attributes") for row in spans])
        sessions = dict.fromkeys(
            str(session["session.id"]) for session in attributes if session.get("session.id")
        )
        unseen = [session for session in sessions if session not in self._sessions]
        self._sessions.update(unseen)
        self._annotate("session", unseen)

    def _take(self, row: JsonObject) -> None:
        try:
            self._gathered.take(row)
        except RecordError as error:
            self._gathered.refuse(row, str(error))

    def _annotate(self, what: str, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), _IDS_AT_ONCE):
            params: dict[str, Any] = {
                f"{what}_ids": ids[start : start + _IDS_AT_ONCE],
                "limit": _MOST_ANNOTATIONS,
            }
            while True:
                path = f"{self._path}/{what}_annotations"
                try:
                    rows, cursor = _listed(self._client.get(path, params))
                except HttpError as error:
                    if error.status in _NOT_THERE:
                        return
                    raise
                for row in rows:
                    self._take(row)
                if not cursor:
                    break
                check_next(params.get("cursor"), cursor, path)
                params["cursor"] = cursor

    def _is_cut(self, group: Group) -> bool:
        """Return whether spans of a trace may lie beyond the span of time."""
        spans = _spans(group)
        open_ended = any(span.ended_at is None or span.ended_at >= self._query.end for span in spans)
        return open_ended or lacks_parent(spans)

    def _complete(self, trace_id: str) -> None:
        """Ask for all spans of a trace, where the server knows that question."""
        cursor = ""
        while cursor != _DONE and not self._cannot_complete:
            rows, cursor = self._page({"trace_id": trace_id}, cursor)
            trace_spans = [row for row in rows if _trace_id(row) == trace_id]
            # A server that does not know the parameter answers with spans of any trace.
            self._cannot_complete = len(trace_spans) < len(rows)
            self._keep(trace_spans)


def _spans(group: Group) -> list[RawSpan]:
    return [msgspec.convert(row.value, RawSpan) for row in group.rows]


def _trace_id(row: JsonObject) -> str:
    return next(iter(_ids([row.get("context")], "trace_id")), "")


def _matches(trace: Trace, query: Query) -> bool:
    """Return whether a trace matches the query; Phoenix itself filters spans, not traces."""
    return query.covers(trace.started_at) and query.matches(
        trace.environment, trace.release, trace.name, trace.user_id, trace.tags
    )


def _listed(answer: Json) -> tuple[list[JsonObject], str]:
    page = as_object(answer)
    if not isinstance(page.get("data"), list):
        raise InputError(
            "Phoenix returned what is not a page of its API; is the address that of a Phoenix server?"
        )
    return objects_in(page["data"]), fields.text(page, "next_cursor") or ""


def _ids(contexts: Sequence[Json], key: str) -> list[str]:
    return [value for context in objects_in([*contexts]) if isinstance(value := context.get(key), str)]


def _iso(moment: datetime) -> str:
    return moment.replace(tzinfo=UTC).isoformat()


RECOGNISED_BY = "records are spans or annotations of Phoenix"


def recognises(record: Json) -> float:
    """Recognise a record by the fields of its rows."""
    try:
        all_rows = list(rows(record))
    except RecordError:
        return 0.0
    recognised = sum(is_span(row) or is_annotation(row) for row in all_rows)
    return 0.95 * recognised / len(all_rows) if all_rows else 0.0


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """Yield one trace for each trace id in the files, with the annotations that are in them."""
    with closing(Gathered()) as gathered:
        for number, file in enumerate(files):
            yield from spooled(NAME, file, rows, partial(_take, gathered, number))
        for group in gathered.spans.groups():
            source = Record(group.line, group.rows[0].value)
            yield from guarded(NAME, files[group.file], source, partial(_trace_items, gathered, group))
        for _ in range(gathered.unused):
            yield Skipped("annotations of spans that are not in these files")


def _take(gathered: Gathered, number: int, record: Record) -> Iterator[Imported]:
    row = record.value
    assert isinstance(row, dict)  # noqa: S101 - `rows` yields objects
    if not gathered.take(row, number, record.line):
        shown = ", ".join(list(row)[:6]) or "nothing"
        raise RecordError(f"neither a span nor an annotation of Phoenix: it has {shown}")
    return iter(())


def _trace_items(gathered: Gathered, group: Group, _value: Json, _file: InputFile) -> Iterator[Imported]:
    return gathered.trace_items(group, NAME)
