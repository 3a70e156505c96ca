"""Write traces, samples, runs, grades and recorded model calls to files."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from replaydiff.replay.api.channel import Channel, Work
from replaydiff.replay.errors import InputError
from replaydiff.replay.settings import Settings

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from replaydiff.replay.model import Grade
    from replaydiff.replay.store.export import Export, ExportSelection

EXPORTS = {
    "traces": "traces",
    "samples": "sample items",
    "runs": "trials",
    "grades": "grades",
    "model-calls": "requests",
}
"""What can be exported, and the noun for one row of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """What to export."""

    what: str
    """One of `EXPORTS`."""
    parquet: bool = False
    """As Parquet; else JSON Lines."""
    where: str | None = None
    month: str | None = None
    sample: str | None = None
    run: str | None = None


def to_file(store: Path, settings: Settings, request: ExportRequest, target: Path, channel: Channel) -> int:
    """Write an export, whole or not at all; return its number of rows. `.gz` names are compressed.

    Raises:
        InputError: the target is the store itself, or cannot be written.
    """
    from replaydiff.replay.files import check_target, replacing

    check_target(target)
    resolved = target.resolve()
    if resolved in (store.resolve(), store.resolve().with_name(store.name + ".wal")):
        raise InputError(f"{target} is the store itself", hint="name another file with -o")
    suffix = "parquet" if request.parquet else "jsonl"
    with replacing(target, f"{request.what}.{suffix}") as file:
        return _write(store, settings, request, file, channel, zipped=target.name.lower().endswith(".gz"))


def to_lines(store: Path, settings: Settings, request: ExportRequest, out: BinaryIO, channel: Channel) -> int:
    """Write an export as JSON Lines to an open file; return its number of rows."""
    with _opened(store, settings, request, None) as export:
        _write_lines(export, out, channel)
    return export.rows


def _write(
    store: Path, settings: Settings, request: ExportRequest, file: Path, channel: Channel, *, zipped: bool
) -> int:
    from replaydiff.replay.store.export import write_parquet

    with _opened(store, settings, request, file) as export:
        if request.parquet:
            with channel.showing("exporting", EXPORTS[request.what]) as update:
                write_parquet(export, file, lambda count, total: update(Work(count, total)))
        else:
            with file.open("wb") as plain:
                if zipped:
                    # Neither name nor time: the same traces give the same file.
                    with gzip.GzipFile(filename="", mode="wb", fileobj=plain, mtime=0) as packed:
                        _write_lines(export, cast("BinaryIO", packed), channel)
                else:
                    _write_lines(export, plain, channel)
    return export.rows


def _write_lines(export: Export, file: BinaryIO, channel: Channel) -> None:
    from replaydiff.replay.store.export import write_jsonl

    with channel.showing("exporting", EXPORTS[export.kind]) as update:
        write_jsonl(export, file, lambda count, total: update(Work(count, total)))


@contextmanager
def _opened(store: Path, settings: Settings, request: ExportRequest, file: Path | None) -> Iterator[Export]:
    """Select the rows; `file` is where Parquet will go."""
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.export import ExportKind, prepare, select

    with open_store(store, read_only=True, export_to=file if request.parquet else None) as con:
        month = settings.project.month(request.month)
        chosen = select(con, where=request.where, month=month, sample=request.sample, run=request.run)
        computed = _computed_grades(con, settings, chosen) if request.what == ExportKind.GRADES else ()
        yield prepare(con, ExportKind(request.what), chosen, computed)


def _computed_grades(con: DuckDBPyConnection, settings: Settings, chosen: ExportSelection) -> Iterator[Grade]:
    from replaydiff.diff.reading import computed_grades
    from replaydiff.replay.store.export import runs_of

    for run in runs_of(con, chosen):
        yield from computed_grades(con, run, settings)
