"""`replay export`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click

from replaydiff.replay.api.inspecting import EXPORTS, ExportRequest
from replaydiff.replay.commands.options import App, command, say
from replaydiff.replay.errors import InputError

_EPILOG = """\b
Examples:
  replay export traces --sample monthly -o monthly.jsonl
  replay export traces --month 2026-10 --where "tools = 'cancel_order'" -o october.parquet
  replay export grades --run 20261120-2213 -o grades.parquet
  replay export runs | jq -r .status | sort | uniq -c
"""
_PARQUET = (".parquet", ".pq")


@command("export", epilog=_EPILOG)
@click.argument("what", type=click.Choice(list(EXPORTS)))
@click.option(
    "-o", "--output", metavar="FILE", default="-", help="Write here; without it, or with `-`, stdout."
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["jsonl", "parquet"]),
    help="Default: by the file's suffix, else jsonl. `.jsonl.gz` is compressed.",
)
@click.option("--where", metavar="COND", help="Only traces that match, or rows whose trace matches.")
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
    gets the very same traces. Samples have one row per item, with stratum and weight; runs one row per
    trial; grades one row per grade, stored or computed; model-calls one row per request that the gateway
    recorded (`replay run --record`), with its answer. Parquet opens in pandas, Polars
    and DuckDB; messages, metadata and the like are JSON text in it. Times are UTC.

    The file is there whole or not at all, and the store is only read.
    """
    request = ExportRequest(
        what=what,
        parquet=(format_ or ("parquet" if output.lower().endswith(_PARQUET) else "jsonl")) == "parquet",
        where=where,
        month=month,
        sample=sample,
        run=run_id,
    )
    rows = _to_stdout(app, request) if output == "-" else app.project.export(request, output)
    unit = EXPORTS[what] if rows != 1 else EXPORTS[what].removesuffix("s")
    say(f"{rows:,} {unit} written to {'stdout' if output == '-' else output}")


def _to_stdout(app: App, request: ExportRequest) -> int:
    if not request.parquet:
        rows = app.project.export(request, sys.stdout.buffer)
    elif sys.stdout.isatty():
        raise InputError("Parquet cannot go to a terminal", hint=f"name a file: -o {request.what}.parquet")
    else:
        with tempfile.TemporaryDirectory(prefix="replay-export-") as folder:
            file = Path(folder) / "rows.parquet"
            rows = app.project.export(request, file)
            with file.open("rb") as source:
                shutil.copyfileobj(source, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    return rows
