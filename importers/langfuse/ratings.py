"""Asking Langfuse for scores: what users said of a trace, what people and judges made of it.

A score has a time of its own, and comes after its trace, often by days: scores are asked for from the start
of the span to this day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta

from replaydiff.importers.base import Query, Told
from replaydiff.importers.http import HttpError, JsonClient, Params
from replaydiff.importers.langfuse.answers import Answers, Others
from replaydiff.importers.langfuse.client import GONE, Page, cursor_page, iso, numbered_page
from replaydiff.importers.langfuse.walk import Span, walk
from replaydiff.replay.model import Json
from replaydiff.replay.store import clock

LIMITS = (100, 20, 5, 1)
_AHEAD = timedelta(days=1)
"""Clocks of those who send scores may be ahead."""
_ENDPOINT = "endpoint of scores"


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


class Ratings:
    """Asks for the scores of a query's traces, and keeps them."""

    def __init__(self, http: JsonClient, answers: Answers, query: Query, span: Span, told: Told) -> None:
        self._http, self._answers, self._query, self._span, self._told = http, answers, query, span, told
        self._read = 0

    def fetch(self) -> None:
        """Ask for scores since the start. Where updates are wanted, traces that got one are wanted whole.

        Raises:
            CredentialsError, HttpError: the server refuses.
        """
        span = Span(start=self._span.start, end=clock.utc_now() + _AHEAD)
        others = Others.WANT if self._query.updates else Others.LEAVE

        def ask(window: Span, after: str | None, limit: int, attempts: int) -> Page:
            times = {"fromTimestamp": iso(window.start), "toTimestamp": iso(window.end)}
            page = self._page(times, after, limit, attempts)
            self._read += len(page.rows)
            self._told(f"{self._read:,} scores, back to {window.start:%Y-%m-%d %H:%M}")
            return page

        def keep(rows: Iterable[Json]) -> None:
            self._answers.keep(rows, self._endpoint().path, others)

        walk(self._answers, "scores", span, LIMITS, ask, keep)

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
                _window: Span, after: str | None, limit: int, attempts: int, of: str = ",".join(trace_ids)
            ) -> Page:
                return self._page({"traceId": of}, after, limit, attempts)

            def finish(done: list[str] = trace_ids) -> None:
                self._answers.rated(done)

            def keep(rows: Iterable[Json]) -> None:
                self._answers.keep(rows, self._endpoint().path)

            walk(
                self._answers,
                "scores of older traces",
                self._span,
                LIMITS,
                ask,
                keep,
                of=",".join(trace_ids),
                whole=True,
                finish=finish,
            )

    def _endpoint(self) -> _Endpoint:
        return _ENDPOINTS[int(self._answers.marked(_ENDPOINT) or 0)]

    def _page(self, asked: Params, after: str | None, limit: int, attempts: int) -> Page:
        while True:
            endpoint = self._endpoint()
            try:
                return endpoint.page(
                    self._http, endpoint.path, {**endpoint.params, **asked}, after, limit, attempts
                )
            except HttpError as error:
                older = _ENDPOINTS.index(endpoint) + 1
                if error.status not in GONE or older == len(_ENDPOINTS):
                    raise
                self._answers.mark(_ENDPOINT, str(older))
