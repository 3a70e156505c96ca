"""The span of time of a live import, from `--month`, `--from`, `--to` and `--since`."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from replaydiff.importers.base import LiveImporter, Query, RecordError
from replaydiff.importers.fields import parse_time
from replaydiff.importers.ingest import query_filters
from replaydiff.replay import clock
from replaydiff.replay.errors import InputError
from replaydiff.replay.store.marks import last_read
from replaydiff.replay.store.where import month_range

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LAST = "last"
OVERLAP = timedelta(hours=1)
"""`--since last` goes back by this: servers show traces some minutes late, and long ones end late."""


def span(
    con: DuckDBPyConnection, importer: LiveImporter, given: dict[str, str | None], filters: dict[str, Any]
) -> Query:
    """The query that the flags ask for.

    Raises:
        InputError: two of them contradict each other, or one is no time.
    """
    month, since = given["--month"], given["--since"]
    others = [flag for flag in ("--from", "--to", "--since") if given[flag]]
    if month and others:
        raise InputError(f"--month and {others[0]} both say which traces; give one of them")
    if since and given["--from"]:
        raise InputError("--since and --from both say where to begin; give one of them")
    if month:
        first, after = month_range(month)
        return Query(start=first, end=min(after, max(_now(), first)), **filters)
    end = _time("--to", given["--to"]) or _now()
    if since != LAST:
        start = _time("--since", since) or _time("--from", given["--from"])
        if start is None:
            raise InputError(
                f"which traces? `replay import {importer.NAME} --month YYYY-MM`, `--from TIME [--to TIME]`, "
                "or `--since last`"
            )
        if start >= end:
            raise InputError(f"the span is empty: it begins at {start} and ends at {end}")
        return Query(start=start, end=end, **filters)
    query = Query(end=end, **filters)
    last = last_read(con, importer.NAME, importer.origin(query), query_filters(query))
    if last is None:
        raise InputError(
            "nothing was imported completely from there yet, so `--since last` has nothing to go on from; "
            f"begin with `replay import {importer.NAME} --month YYYY-MM` or `--from TIME`"
        )
    return Query(start=last - OVERLAP, end=end, updates=True, **filters)


def live_id(origin: str, given: dict[str, str | None], query: Query) -> str:
    """The same for the same flags at the same place at any time: what finds an interrupted import again."""
    key = msgspec.json.encode([origin, given, query.start, query_filters(query)])
    return hashlib.sha256(key).hexdigest()[:16]


def _now() -> datetime:
    return clock.utc_now().replace(microsecond=0)


def _time(flag: str, value: str | None) -> datetime | None:
    if not value:
        return None
    try:
        return parse_time(value, flag)
    except RecordError as error:
        raise InputError(str(error)) from None
