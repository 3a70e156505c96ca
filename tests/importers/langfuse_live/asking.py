"""`replay import langfuse` against a stand-in, and what came of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from replaydiff.replay.model import Trace
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import iter_traces
from tests.stand_ins.langfuse_read import PUBLIC, SECRET, Langfuse
from tests.stand_ins.processes import replay

OCTOBER = ("--month", "2026-10")


def on(day: int, hour: int = 12, minute: int = 0, *, month: int = 10) -> datetime:
    """A moment of 2026, UTC."""
    return datetime(2026, month, day, hour, minute)


def environment(stand_in: Langfuse, **others: str) -> dict[str, str]:
    """The environment of a command that asks the stand-in."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("LANGFUSE_")}
    keys = {"LANGFUSE_PUBLIC_KEY": PUBLIC, "LANGFUSE_SECRET_KEY": SECRET}
    return {**kept, **keys, "LANGFUSE_BASE_URL": stand_in.url, **others}


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


def command(*args: str) -> list[str]:
    """The words of an import."""
    return ["import", "langfuse", *args]


def ask(folder: Path, stand_in: Langfuse, *args: str, **others: str) -> Done:
    """Import what `args` ask for into the store of `folder`."""
    done = replay(folder, *command(*args), env=environment(stand_in, **others))
    assert "Traceback" not in done.stderr, done.stderr
    assert SECRET not in done.stdout + done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


def stored(folder: Path) -> dict[str, Trace]:
    """The traces in the store."""
    with open_store(folder / ".replay" / "replay.duckdb", read_only=True) as con:
        ids = [row[0] for row in con.execute("SELECT trace_id FROM traces").fetchall()]
        return {trace.trace_id: trace for trace in iter_traces(con, ids)}
