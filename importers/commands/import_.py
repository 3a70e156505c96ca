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
LIVE = ("langfuse",)
"""Sources that can also be read over their API, in a later version."""


@command("import")
@click.argument("source")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@json_option
def import_(app: App, source: str, paths: tuple[str, ...], as_json: bool) -> ExitCode:
    """Bring production traces into the store.

    SOURCE is jsonl (this project's own trace format), openai (chat JSONL: logs, fine-tuning files, batch
    output), langfuse (exported observations, or downloads of single traces), or auto to tell by the first
    records. PATH is a file, a folder that is walked for .json, .jsonl, .ndjson and .csv (each also .gz), or -
    for standard input.

    A record that cannot be taken is rejected and the rest is imported; the exit code is then 3, and
    `replay traces --rejects` lists what was wrong. Importing a file again changes nothing.

    \b
    Example:
      replay import auto traces.jsonl
      replay import openai logs/ --json
    """
    from importers.base import importer
    from importers.collect import collected
    from importers.detect import detect
    from importers.ingest import ingest
    from replay.store.connection import open_store

    chosen = None if source == AUTO else importer(source)
    if not paths:
        raise InputError(_no_paths(source))
    with collected(paths) as files:
        groups: dict[str, tuple[Importer, list[InputFile]]] = {}
        for file in files:
            reader = chosen or detect(file)
            if chosen is None:
                say(f"{file.name}: taken for {reader.NAME} ({reader.TELL})")
            groups.setdefault(reader.NAME, (reader, []))[1].append(file)
        reports: list[Report] = []
        with open_store(app.store_path) as con, _progress(files) as progress:
            for reader, own in groups.values():
                reports.append(ingest(con, reader, own, progress=progress))
    if as_json:
        print_json(_document(reports))
    else:
        for report in reports:
            _summary(report)
    return ExitCode.PARTIAL if any(report.rejected for report in reports) else ExitCode.OK


def _no_paths(source: str) -> str:
    if source in LIVE:
        return (
            f"live import from {source} is not available in this version; export the observations to a file "
            f"and name it: `replay import {source} observations.jsonl`"
        )
    return f"no file to import; name one, a folder, or - for standard input: `replay import {source} FILE`"


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

    origin = f"{_many(report.files, 'file')} ({report.source})"
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
