"""The walk over pages of Langfuse: what a server may answer between the first page and the last."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime

import pytest

from replaydiff.importers.convert import Spool
from replaydiff.importers.http import HttpError
from replaydiff.importers.sources.langfuse.pages import Page, TimeRange, fetch_pages
from replaydiff.replay.model import Json

OCTOBER = TimeRange(start=datetime(2026, 10, 1), end=datetime(2026, 11, 1))


def fetched(pages: dict[str | None, Page]) -> list[Json]:
    rows: list[Json] = []

    def ask(_window: TimeRange, after: str | None, _limit: int, _attempts: int) -> Page:
        return pages[after]

    with closing(Spool()) as spool:
        fetch_pages(spool, "rows", OCTOBER, (10, 1), ask, rows.extend, whole=True)
    return rows


def test_empty_pages_with_a_cursor_are_passed_over() -> None:
    pages = {None: Page([], "a"), "a": Page([], "b"), "b": Page(["row"], "c"), "c": Page([], None)}
    assert fetched(pages) == ["row"]


def test_empty_pages_without_end_are_refused() -> None:
    pages = {None: Page([], "0"), **{str(number): Page([], str(number + 1)) for number in range(1000)}}
    with pytest.raises(HttpError, match="again and again"):
        fetched(pages)


def test_a_page_that_comes_twice_is_refused() -> None:
    pages: dict[str | None, Page] = {None: Page(["row"], "a"), "a": Page(["row"], "b")}
    with pytest.raises(HttpError, match="again and again"):
        fetched(pages)
