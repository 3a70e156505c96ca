"""`replay import`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from replay.errors import ExitCode, InputError
from replay.options import App, command, json_option, print_json, say

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from importers.base import Importer, InputFile
    from importers.ingest import Progress, Report

AUTO = "auto"


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
        help="Take evaluations and experiments too; without it they are counted and left out.",
    ),
]


def _live_options(function: Any) -> Any:
    for option in reversed([*_spans, *_filters]):
        function = option(function)
    return function


@command("import")
@click.argument("source")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@_live_options
@json_option
def import_(
    app: App,
    source: str,
    paths: tuple[str, ...],
    month: str | None,
    start: str | None,
    end: str | None,
    since: str | None,
    as_json: bool,
    **filters: Any,
) -> ExitCode:
    """Bring production traces into the store.

    SOURCE is jsonl (this project's own trace format), openai (chat JSONL: logs, fine-tuning files, batch
    output), langfuse (exported observations, or downloads of single traces), or auto to tell by the first
    records. PATH is a file, a folder that is walked for .json, .jsonl, .ndjson, .csv and .parquet, or -
    for standard input. Without PATH the source is asked over its API, with the keys of the environment.

    A record that cannot be taken is rejected and the rest is imported; the exit code is then 3, and
    `replay traces --rejects` lists what was wrong. Importing again changes nothing.

    \b
    Example:
      replay import auto traces.jsonl
      replay import openai logs/ --json
      replay import langfuse --month 2026-10 --environment production
    """
    spans = {"--month": month, "--from": start, "--to": end, "--since": since}
    given = [flag for flag, value in spans.items() if value] + [
        name for name, value in filters.items() if value
    ]
    if paths:
        if given and given != ["all_environments"]:
            raise InputError(
                f"{_flag(given[0])} is for a live import; files are imported whole, and `replay sample "
                "--where` chooses among traces"
            )
        reports = _from_files(app, source, paths)
    else:
        reports = [_live(app, source, spans, filters)]
    if as_json:
        print_json(_document(reports))
    else:
        for report in reports:
            _summary(report)
    return ExitCode.PARTIAL if any(report.rejected for report in reports) else ExitCode.OK


def _flag(name: str) -> str:
    special = {"all_environments": "--all-environments", "project": "--project"}
    return name if name.startswith("--") else special.get(name, f"--{name.removesuffix('s')}")


def _from_files(app: App, source: str, paths: Sequence[str]) -> list[Report]:
    from importers.base import importer
    from importers.collect import collected
    from importers.detect import detect
    from importers.ingest import ingest
    from replay.store.connection import open_store
    from replay.terminal.plain import one_line

    chosen = None if source == AUTO else importer(source)
    with collected(paths) as files:
        groups: dict[str, tuple[Importer, list[InputFile]]] = {}
        for file in files:
            reader = chosen or detect(file)
            if chosen is None:
                say(f"{one_line(file.name)}: taken for {reader.NAME} ({reader.TELL})")
            groups.setdefault(reader.NAME, (reader, []))[1].append(file)
        with open_store(app.store_path) as con, _progress(files) as progress:
            return [ingest(con, reader, own, progress=progress) for reader, own in groups.values()]


def _live(app: App, source: str, spans: dict[str, str | None], filters: dict[str, Any]) -> Report:
    from importers.base import importer, live
    from importers.commands.progress import status
    from importers.commands.span import live_id, span
    from importers.ingest import begun, ingest_live
    from replay.store.connection import open_store

    reader = None if source == AUTO else live(importer(source))
    if reader is None:
        raise InputError(
            f"no file to import; name one, a folder, or - for standard input: `replay import {source} FILE`"
        )
    with open_store(app.store_path) as con:
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
            return ingest_live(con, reader, query, folder, told)


def _progress(files: Sequence[InputFile]) -> AbstractContextManager[Progress | None]:
    """A bar with rate and time left on a terminal; elsewhere nothing, since an import takes seconds."""
    import sys

    if not sys.stderr.isatty():
        return nullcontext()
    from importers.commands.progress import bar

    return bar(files)


def _document(reports: Sequence[Report]) -> dict[str, Any]:
    skipped: dict[str, int] = {}
    notes: dict[str, int] = {}
    for report in reports:
        skipped.update(report.skipped)
        notes.update(report.notes)
    return {
        "source": ",".join(report.source for report in reports),
        "files": sum(report.files for report in reports),
        "traces": {
            "new": sum(report.new for report in reports),
            "updated": sum(report.updated for report in reports),
            "unchanged": sum(report.unchanged for report in reports),
        },
        "tool_calls": sum(report.tool_calls for report in reports),
        "rejected": sum(report.rejected for report in reports),
        "skipped": sum(skipped.values()),
        "duplicates": sum(report.duplicates for report in reports),
        "skipped_because": skipped,
        "notes": notes,
    }


def _summary(report: Report) -> None:
    from replay.terminal.plain import one_line

    origin = f"{_many(report.files, 'file')} ({report.source})" if report.files else report.source
    fate = f"{report.new:,} new, {report.updated:,} updated, {report.unchanged:,} unchanged"
    click.echo(
        f"{_many(report.traces, 'trace')} from {origin}: {fate}; {_many(report.tool_calls, 'tool call')}"
    )
    if report.duplicates:
        click.echo(f"{_many(report.duplicates, 'record')} replaced by a later one of the same id")
    for reason, number in report.skipped.items():
        click.echo(f"{_many(number, 'record')} left out: {one_line(reason)}")
    for text, number in report.notes.items():
        click.echo(f"{_many(number, 'record')}: {one_line(text)}")
    first = report.first_reject
    if first is not None:
        click.echo(
            f"{_many(report.rejected, 'record')} rejected, the first at {one_line(first.file)}:{first.line}: "
            f"{one_line(first.reason)}; see `replay traces --rejects`"
        )


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
