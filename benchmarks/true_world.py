"""How many tool calls the tape answers in another order of calls, and how many of the answers are false.

    python benchmarks/true_world.py                                  # generated worlds, some seconds
    TRUE_WORLD_DATA=FOLDER python benchmarks/true_world.py           # and recorded trajectories

Generated: a recording of random calls in a world with orders, users, a catalogue and notes, and trials that make
other calls in another order. Each trial runs beside its own world, which knows the true result.

Recorded: every `*.traces.jsonl` of the folder (docs/trace-jsonl.md). Of two traces with equal `metadata.task_id` the
one is the tape and the other makes its calls, up to the first miss; the truth is what it really got. What the
tape knows about tools is learnt from the traces of the tape's release alone.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations
from pathlib import Path

from replaydiff.importers.base import find_importer
from replaydiff.importers.collect import collected
from replaydiff.importers.ingest import ingest
from replaydiff.replay.agents.base import Rules
from replaydiff.replay.engine.agents import with_recordings_of
from replaydiff.replay.model import MissReason, ToolCall, Trace
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import iter_traces, write_traces
from replaydiff.replay.tape import Tape, TapeRules
from tests.tape.test_model_world import READS, RULES, WRITES, World, record

DATA = "TRUE_WORLD_DATA"
GENERATED = 4_000


def replayed(recording: Sequence[ToolCall], calls: Iterable[ToolCall], rules: TapeRules) -> Counter[str]:
    """Return the counts of one trial, up to its first miss.

    Args:
        recording: the tape.
        calls: what the trial asks, each with its true result.
        rules: what is known about the tools.
    """
    tape, counts = Tape(recording, rules), Counter({"replays": 1})
    for call in calls:
        answer = tape.answer(call.name, call.args)
        if answer.recorded is None:
            counts["stale" if answer.reason is MissReason.STALE else "missed"] += 1
            return counts
        counts["answered"] += 1
        counts["false"] += (answer.recorded.result, answer.recorded.error) != (call.result, call.error)
    counts["undiverged"] += 1
    return counts


def generated(number: int) -> Counter[str]:
    """Return the counts over random worlds."""
    chance, counts = random.Random(7), Counter[str]()
    for _ in range(number):
        few = chance.sample([*READS, *WRITES], 5)
        terse = chance.random() < 0.5
        recording = record(chance.choices(few, k=6), terse=terse)
        world = World(terse)
        calls = (
            ToolCall(name=name, args=args, result=world.call(name, args))
            for name, args in chance.choices(few, k=6)
        )
        counts += replayed(recording, calls, RULES)
    return counts


def recorded(file: Path) -> Counter[str]:
    """Return the counts over the pairs of traces of a file."""
    with tempfile.TemporaryDirectory() as folder:
        with open_store(Path(folder) / "all.duckdb") as con, collected([str(file)]) as files:
            ingest(con, find_importer("jsonl"), files)
            ids = [trace_id for (trace_id,) in con.execute("SELECT trace_id FROM traces").fetchall()]
            traces = [*iter_traces(con, ids)]
        rules = {}
        for release in {trace.release for trace in traces}:
            with open_store(Path(folder) / f"{len(rules)}.duckdb") as con:
                write_traces(con, [trace for trace in traces if trace.release == release])
                rules[release] = with_recordings_of(Rules(timeout_s=1), con).tape
    counts = Counter[str]()
    for tape, trial in pairs(traces):
        counts += replayed(tape.tool_calls, trial.tool_calls, rules[tape.release])
    return counts


def pairs(traces: Sequence[Trace]) -> Iterator[tuple[Trace, Trace]]:
    """Yield the ordered pairs of traces of one task."""
    by_task: dict[str, list[Trace]] = {}
    for trace in traces:
        by_task.setdefault(json.dumps(trace.metadata.get("task_id")), []).append(trace)
    for same_task in by_task.values():
        yield from permutations(same_task, 2)


def main() -> int:
    """Print a row for each set; return 1 if an answer was false."""
    rows = {"generated": generated(GENERATED)}
    folder = os.environ.get(DATA)
    for file in sorted(Path(folder).glob("*.traces.jsonl")) if folder else ():
        rows[file.name.removesuffix(".traces.jsonl")] = recorded(file)
    names = ("replays", "answered", "false", "stale", "missed", "undiverged")
    print(f"{'':24}" + "".join(f"{name:>12}" for name in names))
    for title, counts in rows.items():
        print(f"{title[:24]:24}" + "".join(f"{counts[name]:>12,}" for name in names))
    return int(any(counts["false"] for counts in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
