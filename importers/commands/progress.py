"""The progress bar of an import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from importers.base import InputFile
from importers.ingest import Progress as Told


@contextmanager
def bar(files: Sequence[InputFile]) -> Iterator[Told]:
    """A bar over the bytes of all files, with rate, time left and traces so far; it goes when all is done."""
    columns = (
        TextColumn("importing"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[traces]:,} traces"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("import", total=sum(file.size for file in files), traces=0)

        def told(traces: int) -> None:
            progress.update(task, completed=sum(file.position for file in files), traces=traces)

        yield told
