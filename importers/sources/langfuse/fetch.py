"""Fetch the rows of a query from a Langfuse server and store them.

Servers that store observations alone (version 4, and Langfuse Cloud) have no trace records. Observations are
walked through by their start, and traces that the time range cuts are fetched completely by trace id: those
with rows just outside the range, with a parent that is not in it, with something that ended after it, or
stored ones that began before it.

Older servers (self-hosted, versions 2 and 3) have tables of traces, observations and scores. Traces are
walked through by their time; their observations come from the table of observations, many traces a page, and
those that a trace lists and that did not come are fetched by trace. Where filters leave few traces, all
observations are fetched by trace.

A score has a time of its own and is often days younger than its trace: scores are fetched from the start of
the range up to today.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from urllib.parse import quote

import msgspec

from replaydiff.importers import fields
from replaydiff.importers.base import Query, ShowStatus
from replaydiff.importers.http import HttpError, JsonClient, Params
from replaydiff.importers.sources.langfuse.answers import FetchedRows, Others
from replaydiff.importers.sources.langfuse.pages import (
    GONE,
    NEWER,
    SHORT,
    Page,
    TimeRange,
    cursor_page,
    fetch_pages,
    iso,
    numbered_page,
)
from replaydiff.importers.sources.langfuse.rows import rows, table
from replaydiff.replay import clock
from replaydiff.replay.model import Json, JsonObject

SCORE_LIMITS = (100, 20, 5, 1)
_AHEAD = timedelta(days=1)
"""Clocks of those who send scores may be ahead."""
_ENDPOINT = "endpoint of scores"
_COMMENTS = "/comments"
_SCORE_CONFIGS = "/score-configs"
SCALES = "score scales"
"""Mark: score → its lowest and highest value."""


@dataclass(frozen=True, slots=True)
class _Endpoint:
    path: str
    page: Callable[[JsonClient, str, Params, str | None, int, int], Page]
    params: Params
    traces: int
    """Trace ids that it takes at once."""


_ENDPOINTS = (
    _Endpoint("/v3/scores", cursor_page, {"fields": "details,subject"}, 50),
    _Endpoint("/v2/scores", numbered_page, {}, 1),
    _Endpoint("/scores", numbered_page, {}, 1),
)
"""From the newest to the oldest."""


class Fetching:
    """Asks for what a query wants, and keeps it."""

    def __init__(
        self, http: JsonClient, answers: FetchedRows, query: Query, span: TimeRange, show_status: ShowStatus
    ) -> None:
        self._http, self._answers, self._query, self._span, self._show_status = (
            http,
            answers,
            query,
            span,
            show_status,
        )
        self._read = 0

    def _count(self, page: Page, what: str, window: TimeRange) -> None:
        self._read += len(page.rows)
        self._show_status(f"{self._read:,} {what}, back to {window.start:%Y-%m-%d %H:%M}")


class Ratings(Fetching):
    """Asks for the scores of a query's traces, and keeps them."""

    def fetch(self) -> None:
        """Ask for scores since the start. Where updates are wanted, traces that got one are wanted whole.

        Raises:
            CredentialsError, HttpError: the server refuses.
        """
        span = TimeRange(start=self._span.start, end=clock.utc_now() + _AHEAD)
        others = Others.WANT if self._query.updates else Others.LEAVE

        def ask(window: TimeRange, after: str | None, limit: int, attempts: int) -> Page:
            times = {"fromTimestamp": iso(window.start), "toTimestamp": iso(window.end)}
            page = self._page(times, after, limit, attempts)
            self._count(page, "scores", window)
            return page

        def keep(rows: Iterable[Json]) -> None:
            self._answers.keep(rows, self._endpoint().path, others)

        fetch_pages(self._answers, "scores", span, SCORE_LIMITS, ask, keep)

    def fetch_older(self) -> None:
        """Ask for all scores of traces that began before the span: those from before it are missing.

        Raises:
            CredentialsError, HttpError: the server refuses.
        """
        while self._query.updates:
            trace_ids = self._answers.unrated(self._span.start, self._endpoint().traces)
            if not trace_ids:
                return

            def ask(
                _window: TimeRange,
                after: str | None,
                limit: int,
                attempts: int,
                of: str = ",".join(trace_ids),
            ) -> Page:
                return self._page({"traceId": of}, after, limit, attempts)

            def finish(rated_ids: list[str] = trace_ids) -> None:
                self._answers.rated(rated_ids)

            def keep(rows: Iterable[Json]) -> None:
                self._answers.keep(rows, self._endpoint().path)

            fetch_pages(
                self._answers,
                "scores of older traces",
                self._span,
                SCORE_LIMITS,
                ask,
                keep,
                of=",".join(trace_ids),
                whole=True,
                finish=finish,
            )

    def _endpoint(self) -> _Endpoint:
        return _ENDPOINTS[int(self._answers.marked(_ENDPOINT) or 0)]

    def _page(self, selection: Params, after: str | None, limit: int, attempts: int) -> Page:
        while True:
            endpoint = self._endpoint()
            try:
                return endpoint.page(
                    self._http, endpoint.path, {**endpoint.params, **selection}, after, limit, attempts
                )
            except HttpError as error:
                older = _ENDPOINTS.index(endpoint) + 1
                if error.status not in GONE or older == len(_ENDPOINTS):
                    raise
                self._answers.mark(_ENDPOINT, str(older))


class Comments(Fetching):
    """Asks for what people wrote about a query's traces, and keeps it."""

    def fetch(self) -> None:
        """Ask for the comments of all traces: they cannot be asked for by time.

        Where updates are wanted, traces that got one since the start are wanted whole. Servers without
        comments have none.

        Raises:
            CredentialsError, HttpError: the server refuses.
        """

        def ask(_window: TimeRange, after: str | None, limit: int, attempts: int) -> Page:
            return numbered_page(self._http, _COMMENTS, {"objectType": "TRACE"}, after, limit, attempts)

        def keep(rows: Iterable[Json]) -> None:
            answer = [*rows]
            # Those of traces that are asked for afterwards, too: comments are not asked for again.
            self._answers.keep(answer, _COMMENTS)
            if self._query.updates:
                comments = (row for row in answer if isinstance(row, dict))
                self._answers.want(str(row.get("objectId")) for row in comments if self._is_new(row))

        try:
            fetch_pages(self._answers, "comments", self._span, SCORE_LIMITS, ask, keep, whole=True)
        except HttpError as error:
            if error.status not in GONE:
                raise

    def _is_new(self, row: JsonObject) -> bool:
        at = fields.time(row, "updatedAt", "createdAt")
        return at is not None and at >= self._span.start


class ScoreScales(Fetching):
    """Asks for the scales that the project configures for its scores, and keeps them."""

    def fetch(self) -> None:
        """Ask for all configurations; servers without them have none.

        A name with two configurations and different scales has none: its scores do not say which is meant.

        Raises:
            CredentialsError, HttpError: the server refuses.
        """
        scales: dict[str, set[tuple[float, float]]] = {}

        def ask(_window: TimeRange, after: str | None, limit: int, attempts: int) -> Page:
            return numbered_page(self._http, _SCORE_CONFIGS, {}, after, limit, attempts)

        def keep(rows: Iterable[Json]) -> None:
            for row in rows:
                low, high = (
                    fields.number(row, key) if isinstance(row, dict) else None
                    for key in ("minValue", "maxValue")
                )
                if isinstance(row, dict) and low is not None and high is not None and low < high:
                    scales.setdefault(str(row.get("name")), set()).add((low, high))

        def finish() -> None:
            single = {name: next(iter(pairs)) for name, pairs in scales.items() if len(pairs) == 1}
            self._answers.mark(SCALES, msgspec.json.encode(single).decode())

        if self._answers.marked(SCALES) is not None:
            return
        try:
            fetch_pages(
                self._answers, "score configs", self._span, SCORE_LIMITS, ask, keep, whole=True, finish=finish
            )
        except HttpError as error:
            if error.status not in GONE:
                raise


V2_OBSERVATIONS = "/v2/observations"
FIELDS = "core,basic,time,io,metadata,model,usage,prompt,metrics,trace_context"
LIMITS = (1000, 200, 50, 10, 1)
EDGE = timedelta(hours=1)
"""How far outside of the span rows are looked at (their ids alone) to find the traces that it cuts."""
NEAR = timedelta(days=1)
"""A missing parent of a trace that is first seen this near to the start may stand before it."""
CONTENTS = frozenset(("input", "name", "output"))
"""What every row has, if only null."""
CUT_CHARACTERS = 200
"""Longer values of metadata are cut by the server, unless their keys are named."""
_MOST_EXPANDED = 40
_EXPANDED, _REFUSED = "expanded metadata", "refused"
_NOISE = ("scope.", "resourceAttributes.", "attributes.")

Selection = dict[str, str | list[str]]


class _Traces(Fetching, ABC):
    """Completes the traces of which a list showed only a part."""

    @cached_property
    def _ratings(self) -> Ratings:
        return Ratings(self._http, self._answers, self._query, self._span, self._show_status)

    @cached_property
    def _comments(self) -> Comments:
        return Comments(self._http, self._answers, self._query, self._span, self._show_status)

    @cached_property
    def _scales(self) -> ScoreScales:
        return ScoreScales(self._http, self._answers, self._query, self._span, self._show_status)

    def _whole_traces(self) -> None:
        left = self._answers.count_unfinished()
        while (trace_id := self._answers.unfinished_trace()) is not None:
            self._show_status(f"{left:,} traces to complete")
            left -= 1
            self._complete(trace_id)

    def _with_contents(self, rows: Iterable[Json]) -> Iterator[Json]:
        """Yield the rows, and note where they lack a field that all servers give."""
        for row in rows:
            absent = sorted(CONTENTS - row.keys()) if isinstance(row, dict) else []
            if absent:
                self._answers.mark(SHORT, f"the server answers rows without {' and '.join(absent)}; {NEWER}")
            yield row

    @abstractmethod
    def _complete(self, trace_id: str) -> None:
        """Ask for all rows of a trace."""


class Events(_Traces):
    """Asks the endpoint whose rows are observations, each with the fields of its trace."""

    def fetch(self) -> None:
        """Ask for everything that was not answered yet.

        Raises:
            CredentialsError, HttpError: the server refuses. With a status of `client.GONE` at the first
                question it does not have these endpoints.
        """
        if self._query.users:
            # A user's name may stand on one observation of a trace alone: it chooses traces, not rows.
            span = reaching_back(self._query, self._span)
            for user in self._query.users:
                self._trace_ids(f"user {user}", span, Others.WANT, userId=user)
        else:
            fetch_pages(self._answers, "observations", self._span, LIMITS, self._full_page, self._keep)
            self._edges()
        self._whole_traces()
        self._ratings.fetch()
        self._comments.fetch()
        self._whole_traces()
        self._ratings.fetch_older()
        self._scales.fetch()

    def _edges(self) -> None:
        """Find the traces that the ends of the span cut."""
        start, end = self._span.start, self._span.end
        self._trace_ids("before the span", TimeRange(start=start - EDGE, end=start), Others.LEAVE)
        self._trace_ids(
            "after the span", TimeRange(start=end, end=max(min(end + EDGE, clock.utc_now()), end))
        )
        self._answers.unless_done("cut", partial(self._answers.want_cut, start, end, NEAR))
        self._answers.unless_done("earlier", self._answers.want_earlier)

    def _trace_ids(self, name: str, span: TimeRange, others: Others = Others.LEAVE, **selection: str) -> None:
        """Want the traces whole that have rows in a span; those of which nothing is here as `others` says."""

        def ask(window: TimeRange, after: str | None, limit: int, attempts: int) -> Page:
            params = {"fields": "core", **self._of(window), **selection}
            return cursor_page(self._http, V2_OBSERVATIONS, params, after, limit, attempts)

        def keep(rows: Iterable[Json]) -> None:
            ids = {row.get("traceId") for row in rows if isinstance(row, dict)}
            self._answers.want((key for key in ids if isinstance(key, str)), others)

        fetch_pages(self._answers, name, span, LIMITS, ask, keep)

    def _complete(self, trace_id: str) -> None:
        fetch_pages(
            self._answers,
            "trace",
            self._span,
            LIMITS,
            partial(self._trace_page, trace_id),
            self._keep,
            of=trace_id,
            whole=True,
            finish=partial(self._answers.got, trace_id),
        )

    def _of(self, window: TimeRange) -> Selection:
        selection: Selection = {"fromStartTime": iso(window.start), "toStartTime": iso(window.end)}
        if self._query.environments:
            selection["environment"] = list(self._query.environments)
        return selection

    def _keep(self, rows: Iterable[Json]) -> None:
        self._answers.keep(self._with_contents(rows), V2_OBSERVATIONS)

    def _full_page(self, window: TimeRange, after: str | None, limit: int, attempts: int) -> Page:
        page = self._page(self._of(window), after, limit, attempts)
        self._count(page, "observations", window)
        return page

    def _trace_page(
        self, trace_id: str, _window: TimeRange, after: str | None, limit: int, attempts: int
    ) -> Page:
        return self._page({"traceId": trace_id}, after, limit, attempts)

    def _page(self, selection: Selection, after: str | None, limit: int, attempts: int) -> Page:
        """Return a page with all fields; once more where metadata was cut, with the keys of the cut values
        named.
        """
        text = self._answers.marked(_EXPANDED) or "[]"
        trace_ids: list[str] = [] if text == _REFUSED else msgspec.json.decode(text, type=list[str])
        params: Selection = {
            "fields": FIELDS,
            **selection,
            **({"expandMetadata": ",".join(trace_ids)} if trace_ids else {}),
        }
        page = cursor_page(self._http, V2_OBSERVATIONS, params, after, limit, attempts)
        keys = [] if text == _REFUSED else [*trace_ids, *sorted(_cut_keys(page.rows) - set(trace_ids))]
        if len(keys) == len(trace_ids) or len(keys) > _MOST_EXPANDED:
            return page
        try:
            params["expandMetadata"] = ",".join(keys)
            page = cursor_page(self._http, V2_OBSERVATIONS, params, after, limit, attempts)
        except HttpError as error:
            if error.heavy or error.status is None:
                raise
            self._answers.mark(_EXPANDED, _REFUSED)
        else:
            self._answers.mark(_EXPANDED, msgspec.json.encode(keys).decode())
        return page


def reaching_back(query: Query, span: TimeRange) -> TimeRange:
    """Return where to look for chosen traces: further back, where those that ran into the span are wanted,
    too.
    """
    return TimeRange(start=span.start - NEAR, end=span.end) if query.updates else span


def _cut_keys(rows: Iterable[Json]) -> set[str]:
    """Return keys of cut metadata of roots, which is what a trace takes over."""
    return {
        key
        for row in rows
        if isinstance(row, dict)
        and (row.get("isRootObservation") is True or not row.get("parentObservationId"))
        for key, value in table(row, "metadata").items()
        if isinstance(value, str)
        and len(value) >= CUT_CHARACTERS
        and "," not in key
        and not key.startswith(_NOISE)
    }


TRACES, OBSERVATIONS = "/traces", "/observations"
TABLE_LIMITS = (100, 20, 5, 1)


class Tables(_Traces):
    """Asks the two endpoints of servers without the newer one: traces, and observations."""

    def fetch(self) -> None:
        """Ask for everything that was not answered yet.

        Raises:
            CredentialsError, HttpError: the server refuses.
        """
        query, span = self._query, self._span
        fetch_pages(
            self._answers,
            "traces",
            self._chosen_span,
            TABLE_LIMITS,
            self._traces,
            partial(self._answers.keep, where=TRACES),
        )
        if self._filtered:
            self._answers.unless_done("filtered", self._answers.want_all)
        if not self._filtered or query.updates:
            wider = TimeRange(start=span.start, end=span.end + EDGE)
            fetch_pages(
                self._answers,
                "observations",
                wider,
                TABLE_LIMITS,
                self._observations,
                self._keep_observations,
            )
        if not self._filtered:
            self._answers.unless_done("listed", self._answers.want_listed)
        self._whole_traces()
        self._ratings.fetch()
        self._comments.fetch()
        self._whole_traces()
        self._scales.fetch()

    @property
    def _filtered(self) -> bool:
        query = self._query
        return bool(query.environments or query.releases or query.tags or query.names or query.users)

    @property
    def _chosen_span(self) -> TimeRange:
        return reaching_back(self._query, self._span) if self._filtered else self._span

    @cached_property
    def _ratings(self) -> Ratings:
        return Ratings(self._http, self._answers, self._query, self._chosen_span, self._show_status)

    def _keep_observations(self, rows: Iterable[Json]) -> None:
        """Keep rows of listed traces, and want stored ones whole to which something was added.

        With filters, traces of which nothing is stored are those that the filters leave out.
        """
        if not self._filtered:
            others = Others.WANT if self._query.updates else Others.LEAVE
            self._answers.keep(self._with_contents(rows), OBSERVATIONS, others)
            return
        ids = {row.get("traceId") for row in rows if isinstance(row, dict)}
        self._answers.want_stored(key for key in ids if isinstance(key, str))

    def _traces(self, window: TimeRange, after: str | None, limit: int, attempts: int) -> Page:
        selection: Selection = {
            "fromTimestamp": iso(window.start),
            "toTimestamp": iso(window.end),
            # A trace that is added meanwhile comes last, and moves no other one to another page.
            "orderBy": "timestamp.asc",
        }
        for key, values in (
            ("environment", self._query.environments),
            ("tags", self._query.tags),
        ):
            if values:
                selection[key] = list(values)
        for key, values in (
            ("release", self._query.releases),
            ("name", self._query.names),
            ("userId", self._query.users),
        ):
            # These take one value; of several, the right ones are chosen from all that come.
            if len(values) == 1:
                selection[key] = values[0]
        page = numbered_page(self._http, TRACES, selection, after, limit, attempts)
        self._count(page, "traces", window)
        return page

    def _observations(self, window: TimeRange, after: str | None, limit: int, attempts: int) -> Page:
        selection: Selection = {"fromStartTime": iso(window.start), "toStartTime": iso(window.end)}
        page = numbered_page(self._http, OBSERVATIONS, selection, after, limit, attempts)
        self._count(page, "rows", window)
        return page

    def _complete(self, trace_id: str) -> None:
        if self._answers.has_trace(trace_id):
            fetch_pages(
                self._answers,
                "trace",
                self._span,
                TABLE_LIMITS,
                partial(self._observations_of, trace_id),
                self._keep_whole,
                of=trace_id,
                whole=True,
                finish=partial(self._answers.got, trace_id),
            )
        else:
            self._answers.keep(self._trace(trace_id), TRACES)
            self._answers.got(trace_id)
            self._answers.commit()

    def _keep_whole(self, rows: Iterable[Json]) -> None:
        self._answers.keep(self._with_contents(rows), OBSERVATIONS)

    def _observations_of(
        self, trace_id: str, _window: TimeRange, after: str | None, limit: int, attempts: int
    ) -> Page:
        return numbered_page(self._http, OBSERVATIONS, {"traceId": trace_id}, after, limit, attempts)

    def _trace(self, trace_id: str) -> Iterable[Json]:
        """Return a trace with all that belongs to it; nothing where it was deleted meanwhile."""
        try:
            return list(rows(self._http.get(f"{TRACES}/{quote(trace_id, safe='')}")))
        except HttpError as error:
            if error.status in GONE:
                return []
            raise
