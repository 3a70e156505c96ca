"""`replay export`."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import click

from replaydiff.replay.errors import InputError
from replaydiff.replay.options import App, command, say

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from replaydiff.replay.model import Grade
    from replaydiff.replay.store.export import Export, Told, Wanted

_EPILOG = """\b
Examples:
  replay export traces --sample monthly -o monthly.jsonl
  replay export traces --month 2026-10 --where "tools = 'cancel_order'" -o october.parquet
  replay export grades --run 20261120-2213 -o grades.parquet
  replay export runs | jq -r .status | sort | uniq -c
"""
_PARQUET = (".parquet", ".pq")
_UNITS = {
    "traces": "traces",
    "samples": "sample items",
    "runs": "trials",
    "grades": "grades",
    "model-calls": "requests",
}


@command("export", epilog=_EPILOG)
@click.argument("what", type=click.Choice(["traces", "samples", "runs", "grades", "model-calls"]))
@click.option(
    "-o", "--output", metavar="FILE", default="-", help="Write here; without it, or with `-`, stdout."
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["jsonl", "parquet"]),
    help="Default: what the name of the file says, else jsonl. `.jsonl.gz` is compressed.",
)
@click.option("--where", metavar="COND", help="Only traces that fit, or rows whose trace fits.")
@click.option("--month", metavar="YYYY-MM", help="Only traces that started in this month (UTC).")
@click.option("--sample", metavar="NAME", help="Only this sample: its traces, items, runs or grades.")
@click.option("--run", "run_id", metavar="RUN", help="Only this run: its traces, sample, trials or grades.")
def export(
    app: App,
    what: str,
    output: str,
    format_: str | None,
    where: str | None,
    month: str | None,
    sample: str | None,
    run_id: str | None,
) -> None:
    """Write traces, samples, runs, grades or recorded model calls to a file.

    Traces are whole, and as JSON Lines in the format that `replay import jsonl` reads: a colleague's store
    gets the very same traces. Samples are one row an item, with stratum and weight; runs one row a trial;
    grades one row a grade, both the stored ones and those that are computed; model-calls one row a request
    that the gateway recorded (`replay run --record`), with its answer. Parquet opens in pandas, Polars
    and DuckDB; messages, metadata and the like are JSON text in it. Times are UTC.

    The file is there whole or not at all, and the store is only read.
    """
    from replaydiff.replay.files import replacing

    asked = _Asked(
        what=what,
        format_=format_ or ("parquet" if output.lower().endswith(_PARQUET) else "jsonl"),
        where=where,
        month=month,
        sample=sample,
        run=run_id,
    )
    if output == "-":
        rows = _to_stdout(app, asked)
    else:
        target = Path(output)
        _spare_the_store(target, app.store_path)
        with replacing(target, f"{what}.{asked.format_}") as file:
            rows = _to_file(app, asked, file, zipped=output.lower().endswith(".gz"))
    unit = _UNITS[what] if rows != 1 else _UNITS[what].removesuffix("s")
    say(f"{rows:,} {unit} written to {'stdout' if output == '-' else output}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What a person typed."""

    what: str
    format_: str
    where: str | None
    month: str | None
    sample: str | None
    run: str | None


@contextmanager
def _opened(app: App, asked: _Asked, file: Path | None) -> Iterator[Export]:
    """The chosen rows; the store is closed with the context. `file` is where Parquet will go."""
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.export import Kind, prepare, wanted

    export_to = file if asked.format_ == "parquet" else None
    with open_store(app.store_path, read_only=True, export_to=export_to) as con:
        chosen = wanted(con, where=asked.where, month=asked.month, sample=asked.sample, run=asked.run)
        computed = _computed(app, con, chosen) if asked.what == Kind.GRADES else ()
        yield prepare(con, Kind(asked.what), chosen, computed)


def _computed(app: App, con: DuckDBPyConnection, chosen: Wanted) -> Iterator[Grade]:
    from replaydiff.diff.reading import computed_grades
    from replaydiff.replay.store.export import runs_of

    for run in runs_of(con, chosen):
        yield from computed_grades(con, run, app.settings)


def _to_stdout(app: App, asked: _Asked) -> int:
    if asked.format_ == "jsonl":
        with _opened(app, asked, None) as found:
            _write_lines(found, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return found.rows
    if sys.stdout.isatty():
        raise InputError(f"Parquet is nothing for a terminal; name a file: -o {asked.what}.parquet")
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory(prefix="replay-export-") as folder:
        file = Path(folder) / "rows.parquet"
        rows = _to_file(app, asked, file, zipped=False)
        with file.open("rb") as source:
            shutil.copyfileobj(source, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    return rows


def _to_file(app: App, asked: _Asked, file: Path, *, zipped: bool) -> int:
    from replaydiff.replay.store.export import write_parquet

    with _opened(app, asked, file) as found:
        if asked.format_ == "parquet":
            with _progress(found) as told:
                write_parquet(found, file, told)
        else:
            with file.open("wb") as plain:
                if zipped:
                    # Neither name nor time: the same traces give the same file.
                    with gzip.GzipFile(filename="", mode="wb", fileobj=plain, mtime=0) as packed:
                        _write_lines(found, cast("BinaryIO", packed))
                else:
                    _write_lines(found, plain)
    return found.rows


def _write_lines(found: Export, file: BinaryIO) -> None:
    from replaydiff.replay.store.export import write_jsonl

    with _progress(found) as told:
        write_jsonl(found, file, told)


@dataclass(slots=True)
class _Done:
    done: int = 0
    total: int = 0
    spent_usd: float = 0.0


@contextmanager
def _progress(found: Export) -> Iterator[Told]:
    from replaydiff.replay.terminal.progress import progress

    with progress("exporting", _UNITS[found.kind]) as tell:
        yield lambda done, total: tell(_Done(done, total))


def _spare_the_store(target: Path, store: Path) -> None:
    """Refuse to put an export in the place of the store it is read from.

    Raises:
        InputError: the target is the store, or its write-ahead log.
    """
    here = target.resolve()
    if here in (store.resolve(), store.resolve().with_name(store.name + ".wal")):
        raise InputError(f"{target} is the store itself; name another file with -o")
