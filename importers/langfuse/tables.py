"""Asking an older Langfuse (self-hosted, versions 2 and 3): tables of traces, observations and scores.

Traces are walked through by their time, which is what a span of time means here. Their observations come from
the table of observations, many traces a page; the ones that a trace lists and that did not come are asked for
by trace. Where filters leave few traces, all observations are.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from urllib.parse import quote

from replaydiff.importers.base import Query, Told
from replaydiff.importers.http import HttpError, JsonClient
from replaydiff.importers.langfuse.answers import Answers, Others
from replaydiff.importers.langfuse.client import GONE, Page, iso, numbered_page
from replaydiff.importers.langfuse.events import EDGE, Asked, reaching_back
from replaydiff.importers.langfuse.ratings import Ratings
from replaydiff.importers.langfuse.rows import rows
from replaydiff.importers.langfuse.walk import Span, walk
from replaydiff.replay.model import Json

TRACES, OBSERVATIONS = "/traces", "/observations"
LIMITS = (100, 20, 5, 1)


class Tables:
    """Asks for what a query wants, and keeps it."""

    def __init__(self, http: JsonClient, answers: Answers, query: Query, span: Span, told: Told) -> None:
        self._http, self._answers, self._query, self._span, self._told = http, answers, query, span, told
        self._ratings = Ratings(http, answers, query, span, told)
        self._read = 0

    def fetch(self) -> None:
        """Ask for everything that was not answered yet.

        Raises:
            CredentialsError, HttpError: the server refuses.
        """
        query, span = self._query, self._span
        filtered = query.environments or query.releases or query.tags or query.names or query.users
        chosen = reaching_back(query, span) if filtered else span
        walk(self._answers, "traces", chosen, LIMITS, self._traces, partial(self._answers.keep, where=TRACES))
        if filtered:
            self._answers.once("filtered", self._answers.want_all)
        else:
            others = Others.WANT if query.updates else Others.LEAVE
            wider = Span(start=span.start, end=span.end + EDGE)
            walk(
                self._answers,
                "observations",
                wider,
                LIMITS,
                self._observations,
                partial(self._answers.keep, where=OBSERVATIONS, others=others),
            )
            self._answers.once("listed", self._answers.want_listed)
        self._whole_traces()
        self._ratings.fetch()
        self._whole_traces()

    def _traces(self, window: Span, after: str | None, limit: int, attempts: int) -> Page:
        asked: Asked = {
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
                asked[key] = list(values)
        for key, values in (
            ("release", self._query.releases),
            ("name", self._query.names),
            ("userId", self._query.users),
        ):
            # These take one value; of several, the right ones are chosen from all that come.
            if len(values) == 1:
                asked[key] = values[0]
        page = numbered_page(self._http, TRACES, asked, after, limit, attempts)
        self._say(page, "traces", window)
        return page

    def _observations(self, window: Span, after: str | None, limit: int, attempts: int) -> Page:
        asked: Asked = {"fromStartTime": iso(window.start), "toStartTime": iso(window.end)}
        page = numbered_page(self._http, OBSERVATIONS, asked, after, limit, attempts)
        self._say(page, "rows", window)
        return page

    def _say(self, page: Page, what: str, window: Span) -> None:
        self._read += len(page.rows)
        self._told(f"{self._read:,} {what}, back to {window.start:%Y-%m-%d %H:%M}")

    def _whole_traces(self) -> None:
        left = self._answers.wanted_left()
        while (trace_id := self._answers.wanted()) is not None:
            self._told(f"{left:,} traces to complete")
            left -= 1
            if self._answers.has_trace(trace_id):
                walk(
                    self._answers,
                    "trace",
                    self._span,
                    LIMITS,
                    partial(self._observations_of, trace_id),
                    partial(self._answers.keep, where=OBSERVATIONS),
                    of=trace_id,
                    whole=True,
                    finish=partial(self._answers.got, trace_id),
                )
            else:
                self._answers.keep(self._trace(trace_id), TRACES)
                self._answers.got(trace_id)
                self._answers.commit()

    def _observations_of(
        self, trace_id: str, _window: Span, after: str | None, limit: int, attempts: int
    ) -> Page:
        return numbered_page(self._http, OBSERVATIONS, {"traceId": trace_id}, after, limit, attempts)

    def _trace(self, trace_id: str) -> Iterable[Json]:
        """A trace with all that belongs to it; nothing where it was deleted meanwhile."""
        try:
            return list(rows(self._http.get(f"{TRACES}/{quote(trace_id, safe='')}")))
        except HttpError as error:
            if error.status in GONE:
                return []
            raise
