"""A walk back through time, page by page, that goes on where it was interrupted.

A long span is asked for in windows, the newest first: a server answers a day sooner than a year, and gives up
on neither. Windows grow where there is little and shrink where there is much. Where an answer takes too long
or breaks off, pages get smaller, then windows; after some pages that went well they grow again.

Each page is kept together with the place after it, in one transaction: what was answered whole is not asked
for again, whenever the import was stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from replaydiff.importers.http import ATTEMPTS, HttpError
from replaydiff.importers.langfuse.client import Page
from replaydiff.importers.spool import Spool
from replaydiff.replay.model import Json

FIRST_WINDOW, LONGEST_WINDOW = timedelta(days=1), timedelta(days=366)
SHORTEST_WINDOW = timedelta(minutes=1)
MANY_PAGES = 20
"""A window with more pages than this is halved next time."""
EARLY = 3
"""How often a heavy question is asked before a smaller one is."""
PATIENCE = 8
"""Pages that must go well before a larger one is tried again; twice as many after each failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From `start` on, before `end`; naive UTC."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How far a walk has come."""

    of: str
    """What is walked through: another walk of the same name begins anew."""
    end: datetime
    """Everything from here on was answered; the window that is being asked for ends here."""
    window: timedelta
    limit: int
    """Rows a page."""
    after: str | None = None
    """Where in the window the next page begins."""
    pages: int = 0
    """Pages of this window so far."""
    good: int = 0
    """Pages that went well since the last change of `limit`."""
    patience: int = PATIENCE
    again: bool = False
    """The window was begun anew, since the server knew its own cursor no longer."""
    done: bool = False


Ask = Callable[[Span, str | None, int, int], Page]
"""Asks for one page: a window, where in it, rows, how often a heavy question is asked."""
Keep = Callable[[Iterable[Json]], None]
"""Puts rows into the spool."""


def walk(
    spool: Spool,
    name: str,
    span: Span,
    limits: Sequence[int],
    ask: Ask,
    keep: Keep,
    *,
    of: str = "",
    whole: bool = False,
    finish: Callable[[], None] = lambda: None,
) -> None:
    """Ask for everything in `span` that was not answered yet.

    Args:
        spool: where the place is marked.
        name: of the mark.
        span: what to walk through.
        limits: rows a page, from the most to the fewest; each is a multiple of the next.
        ask: asks for a page.
        keep: keeps its rows.
        of: tells walks of one name from each other.
        whole: the span is one window.
        finish: called before the last page is committed.

    Raises:
        CredentialsError, HttpError: the server refuses even the smallest question.
    """
    place = _marked(spool, name, of)
    if place is None:
        length = span.end - span.start
        length = length if whole else min(FIRST_WINDOW, length)
        place = Place(of=of, end=span.end, window=length, limit=limits[0])
    while not place.done:
        window = Span(start=max(span.start, place.end - place.window), end=place.end)
        smallest = place.limit == limits[-1] and (whole or place.window <= SHORTEST_WINDOW)
        try:
            page = ask(window, place.after, place.limit, ATTEMPTS if smallest else EARLY)
        except HttpError as error:
            smaller = _smaller(place, error, limits, whole)
            if smaller is None:
                raise
            place = smaller
        else:
            keep(page.rows)
            place = _next(place, page, window, span, limits, whole)
            if place.done:
                finish()
        spool.mark(f"walk {name}", msgspec.json.encode(place).decode())
        spool.commit()


def _marked(spool: Spool, name: str, of: str) -> Place | None:
    text = spool.marked(f"walk {name}")
    place = msgspec.json.decode(text, type=Place) if text is not None else None
    return place if place is not None and place.of == of else None


def _smaller(place: Place, error: HttpError, limits: Sequence[int], whole: bool) -> Place | None:
    """What to ask for instead; None where nothing smaller is left."""
    if error.status == 400 and place.after is not None and not place.again:
        return replace(place, after=None, again=True)
    if not error.heavy:
        return None
    fewer = next((limit for limit in limits if limit < place.limit), None)
    if fewer is not None:
        return replace(place, limit=fewer, good=0, patience=place.patience * 2)
    if whole or place.after is not None or place.window <= SHORTEST_WINDOW:
        return None
    return replace(place, window=max(place.window / 8, SHORTEST_WINDOW))


def _next(place: Place, page: Page, window: Span, span: Span, limits: Sequence[int], whole: bool) -> Place:
    limit, good = _limit(place, page, limits)
    place = replace(place, limit=limit, good=good, pages=place.pages + 1)
    if page.after is not None:
        return replace(place, after=page.after)
    length = place.window
    if place.pages == 1 and len(page.rows) < limit // 4:
        length = min(length * 4, LONGEST_WINDOW)
    elif place.pages > MANY_PAGES:
        length = max(length / 2, SHORTEST_WINDOW)
    return replace(
        place,
        end=window.start,
        window=length,
        after=None,
        pages=0,
        again=False,
        done=whole or window.start <= span.start,
    )


def _limit(place: Place, page: Page, limits: Sequence[int]) -> tuple[int, int]:
    """Rows of the next page, and how many pages went well with so many."""
    more = next((limit for limit in reversed(limits) if limit > place.limit), None)
    if more is None or place.good + 1 < place.patience:
        return place.limit, place.good + 1
    # Where pages are numbered, a larger one begins at a multiple of its own size alone.
    numbered = page.after is not None and page.after.isdigit()
    if numbered and int(page.after or 0) % more:
        return place.limit, place.good + 1
    return more, 0
