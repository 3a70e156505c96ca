"""Asking a Langfuse that stores observations alone (version 4, and Langfuse Cloud): v2 observations.

There are no trace records here. Observations are walked through by the time they started, and what a span of
time cuts is asked for whole by trace id: traces with rows just outside the span, with a parent that is not in
it, or with something that ended after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import partial

import msgspec

from replaydiff.importers.base import Query, Told
from replaydiff.importers.http import HttpError, JsonClient
from replaydiff.importers.langfuse.answers import Answers, Others
from replaydiff.importers.langfuse.client import Page, cursor_page, iso
from replaydiff.importers.langfuse.ratings import Ratings
from replaydiff.importers.langfuse.rows import table
from replaydiff.importers.langfuse.walk import Span, walk
from replaydiff.replay.model import Json
from replaydiff.replay.store import clock

OBSERVATIONS = "/v2/observations"
FIELDS = "core,basic,time,io,metadata,model,usage,metrics,trace_context"
LIMITS = (1000, 200, 50, 10, 1)
EDGE = timedelta(hours=1)
"""How far outside of the span rows are looked at (their ids alone) to find the traces that it cuts."""
NEAR = timedelta(days=1)
"""A missing parent of a trace that is first seen this near to the start may stand before it."""
CUT_CHARACTERS = 200
"""Longer values of metadata are cut by the server, unless their keys are named."""
_MOST_EXPANDED = 40
_EXPANDED, _REFUSED = "expanded metadata", "refused"
_NOISE = ("scope.", "resourceAttributes.", "attributes.")

Asked = dict[str, str | list[str]]


class Events:
    """Asks for what a query wants, and keeps it."""

    def __init__(self, http: JsonClient, answers: Answers, query: Query, span: Span, told: Told) -> None:
        self._http, self._answers, self._query, self._span, self._told = http, answers, query, span, told
        self._ratings = Ratings(http, answers, query, span, told)
        self._read = 0

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
            walk(self._answers, "observations", self._span, LIMITS, self._full_page, self._keep)
            self._edges()
        self._whole_traces()
        self._ratings.fetch()
        self._whole_traces()
        self._ratings.fetch_older()

    def _edges(self) -> None:
        """Find the traces that the ends of the span cut."""
        start, end = self._span.start, self._span.end
        self._trace_ids("before the span", Span(start=start - EDGE, end=start), Others.LEAVE)
        self._trace_ids("after the span", Span(start=end, end=max(min(end + EDGE, clock.utc_now()), end)))
        self._answers.once("cut", partial(self._answers.want_cut, start, end, NEAR))

    def _trace_ids(self, name: str, span: Span, others: Others = Others.LEAVE, **asked: str) -> None:
        """Want the traces whole that have rows in a span; those of which nothing is here as `others` says."""

        def ask(window: Span, after: str | None, limit: int, attempts: int) -> Page:
            params = {"fields": "core", **self._of(window), **asked}
            return cursor_page(self._http, OBSERVATIONS, params, after, limit, attempts)

        def keep(rows: Iterable[Json]) -> None:
            found = {row.get("traceId") for row in rows if isinstance(row, dict)}
            self._answers.want((key for key in found if isinstance(key, str)), others)

        walk(self._answers, name, span, LIMITS, ask, keep)

    def _whole_traces(self) -> None:
        left = self._answers.wanted_left()
        while (trace_id := self._answers.wanted()) is not None:
            self._told(f"{left:,} traces to complete")
            left -= 1
            walk(
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

    def _of(self, window: Span) -> Asked:
        asked: Asked = {"fromStartTime": iso(window.start), "toStartTime": iso(window.end)}
        if self._query.environments:
            asked["environment"] = list(self._query.environments)
        return asked

    def _keep(self, rows: Iterable[Json]) -> None:
        self._answers.keep(rows, OBSERVATIONS)

    def _full_page(self, window: Span, after: str | None, limit: int, attempts: int) -> Page:
        page = self._page(self._of(window), after, limit, attempts)
        self._read += len(page.rows)
        self._told(f"{self._read:,} observations, back to {window.start:%Y-%m-%d %H:%M}")
        return page

    def _trace_page(self, trace_id: str, _window: Span, after: str | None, limit: int, attempts: int) -> Page:
        return self._page({"traceId": trace_id}, after, limit, attempts)

    def _page(self, asked: Asked, after: str | None, limit: int, attempts: int) -> Page:
        """A page with all fields; once more where metadata was cut, with the keys of the cut values named."""
        text = self._answers.marked(_EXPANDED) or "[]"
        known: list[str] = [] if text == _REFUSED else msgspec.json.decode(text, type=list[str])
        params: Asked = {"fields": FIELDS, **asked, **({"expandMetadata": ",".join(known)} if known else {})}
        page = cursor_page(self._http, OBSERVATIONS, params, after, limit, attempts)
        keys = [] if text == _REFUSED else [*known, *sorted(_cut_keys(page.rows) - set(known))]
        if len(keys) == len(known) or len(keys) > _MOST_EXPANDED:
            return page
        try:
            params["expandMetadata"] = ",".join(keys)
            page = cursor_page(self._http, OBSERVATIONS, params, after, limit, attempts)
        except HttpError as error:
            if error.heavy or error.status is None:
                raise
            self._answers.mark(_EXPANDED, _REFUSED)
        else:
            self._answers.mark(_EXPANDED, msgspec.json.encode(keys).decode())
        return page


def reaching_back(query: Query, span: Span) -> Span:
    """Where to look for chosen traces: further back, where those that ran into the span are wanted, too."""
    return Span(start=span.start - NEAR, end=span.end) if query.updates else span


def _cut_keys(rows: Iterable[Json]) -> set[str]:
    """Keys of cut metadata of roots, which is what a trace takes over."""
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
