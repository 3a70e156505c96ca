"""What an import did, for people and as JSON."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from replaydiff.importers.content import TURNED_ON_BY
from replaydiff.importers.ingest import Report, place
from replaydiff.replay.model import TraceState
from replaydiff.replay.terminal.plain import one_line

if TYPE_CHECKING:
    from replaydiff.replay.store.rejects import StoredReject

_LISTED = 50
ADVICE = (
    "texts are stored as they were recorded, personal data too; [import.redact] in replay.toml replaces it "
    "(`replay doctor` says whether it is on)"
)


def show(report: Report) -> None:
    """Print what a person should know, the most telling first."""
    for line in _lines(report):
        echo(line)


def _lines(report: Report) -> Iterator[str]:
    origin = f"{_many(report.files, 'file')} ({report.source})" if report.files else report.source
    fate = f"{report.new:,} new, {report.updated:,} updated, {report.unchanged:,} unchanged"
    yield f"{_many(report.traces, 'trace')} from {origin}: {fate}; {_many(report.tool_calls, 'tool call')}"
    if report.duplicates:
        yield f"{_many(report.duplicates, 'record')} replaced by a later one of the same id"
    if report.older:
        yield f"{_many(report.older, 'trace')} left as stored: what came was an earlier state"
    without, open_ = report.states[TraceState.NO_CONTENT], report.states[TraceState.INCOMPLETE]
    if without:
        setting = TURNED_ON_BY.get(report.source)
        advice = f"; content is recorded with {setting}" if setting else ""
        yield f"{_many(without, 'trace')} without content, which no sample takes{advice}"
    if open_:
        yield (
            f"{_many(open_, 'trace')} had not ended, which no sample takes; "
            "import again once they have, and they are updated"
        )
    for text, number in report.notes.items():
        yield f"{_many(number, 'record')}: {one_line(text)}"
    for reason, number in report.skipped.items():
        yield f"{_many(number, 'record')} left out: {one_line(reason)}"
    first = report.first_reject
    if first is not None:
        yield (
            f"{_many(report.rejected, 'record')} rejected, the first at {one_line(place(first))}: "
            f"{one_line(first.reason)}; see `replay import --rejects`"
        )


def show_rejects(rejects: Sequence[StoredReject]) -> None:
    """Print where each stands, why it was rejected, and how it begins."""
    for reject in rejects[:_LISTED]:
        echo(f"{one_line(place(reject))} ({reject.source}): {one_line(reject.reason)}")
        if reject.excerpt:
            click.echo(f"  {textwrap.shorten(one_line(reject.excerpt), _width() - 2, placeholder=' …')}")
    if len(rejects) > _LISTED:
        echo(f"and {len(rejects) - _LISTED:,} more; `replay import --rejects --json` lists all")
    again = sum(reject.alone for reject in rejects)
    parts = sorted({(reject.source, reject.file) for reject in rejects if not reject.alone})
    if again:
        echo(f"`replay import --retry` tries {again:,} of them again")
    if parts:
        source, file = parts[0]
        echo(
            f"{len(rejects) - again:,} are parts of traces, or too long to be kept: import their files "
            f"again, all together, like `replay import {source} {one_line(file)}`"
        )


def echo(line: str) -> None:
    """Print a line; on a terminal it is broken between words, with what follows indented."""
    if sys.stdout.isatty():
        line = textwrap.fill(line, _width(), subsequent_indent="  ", break_on_hyphens=False)
    click.echo(line)


def _width() -> int:
    return max(shutil.get_terminal_size().columns, 40)


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
