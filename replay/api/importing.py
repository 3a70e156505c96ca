"""Import traces from files or over a source's API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from replaydiff.replay.api.channel import Channel
from replaydiff.replay.errors import InputError
from replaydiff.replay.settings import Settings

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from replaydiff.importers.base import Importer, InputFile
    from replaydiff.importers.ingest import Progress, Report
    from replaydiff.importers.redact.redactor import Redactor

AUTO = "auto"
_NAMED = 5
"""Files of one source that are named one by one."""


class LiveOptions(TypedDict, total=False):
    """Which traces to fetch from a source's API."""

    month: str | None
    """`YYYY-MM` (UTC)."""
    start: str | None
    """Traces that started at or after this time (UTC)."""
    end: str | None
    """Traces that started before this time; default now."""
    since: str | None
    """`last`: from the end of the last complete import of the same query."""
    project: str | None
    environments: Sequence[str]
    releases: Sequence[str]
    tags: Sequence[str]
    names: Sequence[str]
    users: Sequence[str]
    all_environments: bool
    """Evaluations and experiments too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    """How an import shows its progress."""

    files: Callable[[Sequence[InputFile]], AbstractContextManager[Progress | None]] = lambda _: nullcontext()
    source: Callable[[str], AbstractContextManager[Callable[[str], None]]] = lambda _: nullcontext(
        lambda _: None
    )


@contextmanager
def store_with_redaction(
    store: Path, settings: Settings
) -> Iterator[tuple[DuckDBPyConnection, Redactor | None]]:
    """Open the store for writing, with what redacts on the way into it where the settings require it."""
    from replaydiff.replay.store.connection import open_store

    section = settings.import_.redaction
    with open_store(store) as con:
        if section is None:
            yield con, None
            return
        from replaydiff.importers.redact.redactor import redactor
        from replaydiff.replay.store.redactions import Tokens

        yield con, redactor(section, settings.root, Tokens(con))


def import_files(
    store: Path,
    settings: Settings,
    source: str,
    paths: Sequence[str],
    channel: Channel,
    display: Display,
    *,
    strict: bool,
    all_environments: bool,
) -> tuple[list[Report], bool]:
    """Import files and folders; return a report for each source, and whether the store was empty before.

    Raises:
        ReplayError: a file cannot be read, or (`strict`) a record cannot be imported.
    """
    from replaydiff.importers.base import importer
    from replaydiff.importers.collect import collected
    from replaydiff.importers.detect import detect
    from replaydiff.importers.ingest import check, ingest

    chosen = None if source == AUTO else importer(source)
    with collected(paths) as files:
        groups: dict[str, tuple[Importer, list[InputFile]]] = {}
        for file in files:
            file.all_environments = all_environments
            reader = chosen or detect(file)
            groups.setdefault(reader.NAME, (reader, []))[1].append(file)
        if chosen is None:
            for reader, own in groups.values():
                _report_detected(reader, own, channel)
        with store_with_redaction(store, settings) as (con, redactor), display.files(files) as progress:
            first = _is_empty(con)
            for reader, own in groups.values() if strict else ():
                check(reader.read_files(own), redactor)
            reports = [
                ingest(con, reader, own, progress=progress, redactor=redactor)
                for reader, own in groups.values()
            ]
        return reports, first


def _report_detected(reader: Importer, files: Sequence[InputFile], channel: Channel) -> None:
    """Report which format files were detected as: each by its name, or a folder of hundreds in one line."""
    from replaydiff.replay.terminal.plain import one_line

    names = [one_line(file.name) for file in files]
    for name in names if len(names) <= _NAMED else [f"{len(names)} files, {names[0]} to {names[-1]}"]:
        channel.message(f"{name}: detected as {reader.NAME} ({reader.TELL})")


def _is_empty(con: DuckDBPyConnection) -> bool:
    from replaydiff.replay.store.traces import count_traces

    return count_traces(con) == 0


def import_live(
    store: Path,
    settings: Settings,
    source: str,
    options: LiveOptions,
    channel: Channel,
    display: Display,
    *,
    strict: bool,
) -> tuple[list[Report], bool]:
    """Import from a source's API; return its report, and whether the store was empty before.

    Raises:
        ReplayError: the source has no API, no span is named, or the API refuses.
    """
    from replaydiff.importers.base import importer, live
    from replaydiff.importers.ingest import begun, ingest_live
    from replaydiff.importers.query import live_id, span

    reader = None if source == AUTO else live(importer(source))
    if reader is None:
        raise InputError(
            f"no file to import; name one, a folder, or - for standard input: `replay import {source} FILE`"
        )
    spans = {
        "--month": options.get("month"),
        "--from": options.get("start"),
        "--to": options.get("end"),
        "--since": options.get("since"),
    }
    filters: dict[str, Any] = {
        "project": options.get("project"),
        "environments": tuple(options.get("environments", ())),
        "releases": tuple(options.get("releases", ())),
        "tags": tuple(options.get("tags", ())),
        "names": tuple(options.get("names", ())),
        "users": tuple(options.get("users", ())),
        "all_environments": options.get("all_environments", False),
    }
    with store_with_redaction(store, settings) as (con, _):
        first = _is_empty(con)
        query = span(con, reader, spans, filters)
    origin = reader.origin(query)
    folder = store.parent / "imports" / f"{source}-{live_id(origin, spans, query)}"
    before = begun(folder)
    if before:
        channel.message("an earlier import of the same query was interrupted: continuing where it stopped")
        query = before
    since = f"{query.start:%Y-%m-%d %H:%M}" if query.start else "the beginning"
    channel.message(f"fetching traces from {origin}, {since} to {query.end:%Y-%m-%d %H:%M} UTC")
    with display.source(source) as status:
        report = ingest_live(
            lambda: store_with_redaction(store, settings), reader, query, folder, status, strict=strict
        )
    return [report], first


def retry(store: Path, settings: Settings, source: str | None) -> list[Report]:
    """Import rejected records again, after an upgrade or a corrected setting."""
    from replaydiff.importers.base import importer
    from replaydiff.importers.ingest import ingest_rejects

    with store_with_redaction(store, settings) as (con, redactor):
        return ingest_rejects(con, importer, source, redactor)
