"""The progress bar of an import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from replaydiff.importers.base import InputFile
from replaydiff.importers.base import Told as Words
from replaydiff.importers.ingest import Progress as Told
from replaydiff.replay.commands.options import say
from replaydiff.replay.terminal.plain import one_line

_SECONDS_BETWEEN_LINES = 5


@contextmanager
def bar(files: Sequence[InputFile]) -> Iterator[Told]:
    """A bar over the bytes of all files, with rate, time left, traces and rejects; it goes at the end."""
    columns = (
        TextColumn("importing"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[read]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("import", total=sum(file.size for file in files), read="")

        def told(traces: int, rejected: int) -> None:
            read = f"{traces:,} traces" + (f", {rejected:,} rejected" if rejected else "")
            progress.update(task, completed=sum(file.position for file in files), read=read)

        yield told


@contextmanager
def status(source: str) -> Iterator[Words]:
    """How far a live import has come: one line that changes on a terminal, a line now and then elsewhere."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(f"asking {source}") as shown:
            yield lambda text: shown.update(one_line(text))
        return
    last = monotonic()

    def told(text: str) -> None:
        nonlocal last
        if monotonic() - last >= _SECONDS_BETWEEN_LINES:
            last = monotonic()
            say(one_line(text))

    yield told
