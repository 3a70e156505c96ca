"""`replay import`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from replaydiff.replay.errors import ExitCode, InputError
from replaydiff.replay.options import App, command, json_option, print_json, say

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from duckdb import DuckDBPyConnection

    from replaydiff.importers.base import Importer, InputFile
    from replaydiff.importers.ingest import Progress, Report
    from replaydiff.importers.redact.redactor import Redactor

AUTO = "auto"
_NAMED = 5
"""Files of one source that are named one by one."""

_spans = [
    click.option("--month", metavar="YYYY-MM", help="Live: traces that started in this month (UTC)."),
    click.option("--from", "start", metavar="TIME", help="Live: traces that started at or after this (UTC)."),
    click.option("--to", "end", metavar="TIME", help="Live: traces that started before this; default now."),
    click.option(
        "--since",
        metavar="last|TIME",
        help="Live: `last` goes on where the last complete import of the same query ended.",
    ),
]
_filters = [
    click.option("--project", metavar="NAME", help="Live: project or experiment, where the source has them."),
    click.option("--environment", "environments", multiple=True, metavar="NAME", help="Live: only this one."),
    click.option("--release", "releases", multiple=True, metavar="NAME", help="Live: only this one."),
    click.option("--tag", "--tags", "tags", multiple=True, metavar="TAG", help="Live: only with this tag."),
    click.option("--name", "names", multiple=True, metavar="NAME", help="Live: only of this name."),
    click.option("--user", "users", multiple=True, metavar="ID", help="Live: only of this user."),
    click.option(
        "--all-environments",
        is_flag=True,
        help="Evaluations and experiments too; without it they are counted and left out.",
    ),
]


def _live_options(function: Any) -> Any:
    for option in reversed([*_spans, *_filters]):
        function = option(function)
    return function


@command("import")
@click.argument("source", required=False)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@_live_options
@click.option("--strict", is_flag=True, help="Read all first; a record that cannot be taken stops it.")
@click.option("--rejects", is_flag=True, help="List the records that could not be taken, with the reasons.")
@click.option("--retry", is_flag=True, help="Try those again, after an upgrade or a mended setting.")
@json_option
def import_(
    app: App,
    source: str | None,
    paths: tuple[str, ...],
    month: str | None,
    start: str | None,
    end: str | None,
    since: str | None,
    strict: bool,
    rejects: bool,
    retry: bool,
    as_json: bool,
    **filters: Any,
) -> ExitCode:
    """Bring production traces into the store.

    SOURCE is jsonl (this project's own trace format); langfuse, otlp, phoenix, langsmith or mlflow (exports;
    most also over their API); openai or anthropic (logs of their APIs: conversations, request/response pairs,
    batches; the calls of one run are joined); claude-code or codex (session files); or auto to tell by the
    first records. PATH is a file, a folder that is walked for .json, .jsonl, .ndjson, .csv and .parquet, or -
    for standard input. Without PATH the source is asked over its API, with the keys of the environment.

    A record that cannot be taken is rejected and the rest is imported; the exit code is then 3, --rejects
    lists what was wrong, and --retry tries it again. Importing the same again changes nothing; a later state
    of a trace replaces the earlier one.

    \b
    Example:
      replay import auto traces.jsonl
      replay import openai logs/ --json
      replay import langfuse --month 2026-10 --environment production
      replay import --rejects
    """
    spans = {"--month": month, "--from": start, "--to": end, "--since": since}
    given = [flag for flag, value in spans.items() if value] + [
        name for name, value in filters.items() if value
    ]
    if rejects or retry:
        if paths or given or strict or (rejects and retry):
            raise InputError("--rejects and --retry stand alone, or with the name of a source")
        return _show_rejects(app, source, as_json) if rejects else _retry(app, source, as_json)
    if source is None:
        raise InputError(
            "which source? `replay import SOURCE [PATH]`, like `replay import auto traces.jsonl`"
        )
    if paths:
        everything = bool(filters.pop("all_environments"))
        if narrowing := [name for name in given if name != "all_environments"]:
            raise InputError(
                f"{_flag(narrowing[0])} is for a live import; files are imported whole, and `replay sample "
                "--where` chooses among traces"
            )
        return _told(app, as_json, *_from_files(app, source, paths, strict, everything))
    return _told(app, as_json, *_live(app, source, spans, filters, strict))


def _told(app: App, as_json: bool, reports: Sequence[Report], first: bool) -> ExitCode:
    """Say what was done; `first` where the store had no traces before."""
    from replaydiff.replay.commands import import_summary

    redacted = app.settings.import_.redaction is not None
    if as_json:
        print_json(import_summary.document(reports, redacted=redacted))
    else:
        for report in reports:
            import_summary.show(report)
        if first and not redacted and any(report.traces for report in reports):
            import_summary.echo(import_summary.ADVICE)
    return ExitCode.PARTIAL if any(report.rejected for report in reports) else ExitCode.OK


def _show_rejects(app: App, source: str | None, as_json: bool) -> ExitCode:
    from dataclasses import asdict

    from replaydiff.replay.commands import import_summary
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.rejects import list_rejects

    with open_store(app.store_path, read_only=True) as con:
        found = list_rejects(con, source)
    if as_json:
        print_json([{**asdict(reject), "rejected_at": reject.rejected_at.isoformat()} for reject in found])
    elif found:
        import_summary.show_rejects(found)
    else:
        say("no record was rejected" + (f" by {source}" if source else ""))
    return ExitCode.OK


def _retry(app: App, source: str | None, as_json: bool) -> ExitCode:
    from replaydiff.importers.base import importer
    from replaydiff.importers.ingest import ingest_rejects

    with _store(app) as (con, redactor):
        reports = ingest_rejects(con, importer, source, redactor)
    if not reports and not as_json:
        say("there is no rejected record that can be tried again; `replay import --rejects` says why")
    return _told(app, as_json, reports, first=False)


@contextmanager
def _store(app: App) -> Iterator[tuple[DuckDBPyConnection, Redactor | None]]:
    """The store, and what redacts on the way into it, where the settings ask for that."""
    from replaydiff.replay.store.connection import open_store

    section = app.settings.import_.redaction
    with open_store(app.store_path) as con:
        if section is None:
            yield con, None
            return
        from replaydiff.importers.redact.redactor import redactor
        from replaydiff.replay.store.redactions import Tokens

        yield con, redactor(section, app.settings.root, Tokens(con))


def _is_empty(con: DuckDBPyConnection) -> bool:
    from replaydiff.replay.store.traces import count_traces

    return count_traces(con) == 0


def _flag(name: str) -> str:
    special = {"all_environments": "--all-environments", "project": "--project"}
    return name if name.startswith("--") else special.get(name, f"--{name.removesuffix('s')}")


def _from_files(
    app: App, source: str, paths: Sequence[str], strict: bool, all_environments: bool
) -> tuple[list[Report], bool]:
    from replaydiff.importers.base import importer
    from replaydiff.importers.collect import collected
    from replaydiff.importers.detect import detect
    from replaydiff.importers.ingest import check, ingest
    from replaydiff.replay.terminal.plain import one_line

    chosen = None if source == AUTO else importer(source)
    with collected(paths) as files:
        groups: dict[str, tuple[Importer, list[InputFile]]] = {}
        for file in files:
            file.all_environments = all_environments
            reader = chosen or detect(file)
            groups.setdefault(reader.NAME, (reader, []))[1].append(file)
        if chosen is None:
            for reader, own in groups.values():
                _tell(reader, [one_line(file.name) for file in own])
        with _store(app) as (con, redactor), _progress(files) as progress:
            first = _is_empty(con)
            for reader, own in groups.values() if strict else ():
                check(reader.read_files(own), redactor)
            reports = [
                ingest(con, reader, own, progress=progress, redactor=redactor)
                for reader, own in groups.values()
            ]
        return reports, first


def _tell(reader: Importer, names: Sequence[str]) -> None:
    """What files were taken for: each by its name, or a folder of hundreds in one line."""
    for name in names if len(names) <= _NAMED else [f"{len(names)} files, {names[0]} to {names[-1]}"]:
        say(f"{name}: taken for {reader.NAME} ({reader.TELL})")


def _live(
    app: App, source: str, spans: dict[str, str | None], filters: dict[str, Any], strict: bool
) -> tuple[list[Report], bool]:
    from replaydiff.importers.base import importer, live
    from replaydiff.importers.ingest import begun, ingest_live
    from replaydiff.importers.query import live_id, span
    from replaydiff.replay.commands.import_progress import status

    reader = None if source == AUTO else live(importer(source))
    if reader is None:
        raise InputError(
            f"no file to import; name one, a folder, or - for standard input: `replay import {source} FILE`"
        )
    with _store(app) as (con, _):
        first = _is_empty(con)
        query = span(con, reader, spans, filters)
    origin = reader.origin(query)
    folder = app.store_path.parent / "imports" / f"{source}-{live_id(origin, spans, query)}"
    before = begun(folder)
    if before:
        say("an earlier import of the same was interrupted: going on where it stopped")
        query = before
    since = f"{query.start:%Y-%m-%d %H:%M}" if query.start else "the beginning"
    say(f"asking {origin} for traces from {since} to {query.end:%Y-%m-%d %H:%M} UTC")
    with status(source) as told:
        report = ingest_live(lambda: _store(app), reader, query, folder, told, strict=strict)
    return [report], first


def _progress(files: Sequence[InputFile]) -> AbstractContextManager[Progress | None]:
    """A bar with rate and time left on a terminal; elsewhere nothing, since an import takes seconds."""
    import sys

    if not sys.stderr.isatty():
        return nullcontext()
    from replaydiff.replay.commands.import_progress import bar

    return bar(files)
