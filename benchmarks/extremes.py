"""Extreme sizes: a trace of 5,000 tool calls, an input of 5 MB, 1,000 runs in a store, and 10,000 items × 10 trials.

    .venv/bin/python benchmarks/extremes.py

Prints for each command its exit code, the processor time of it and its workers, and the most memory that
any process has held so far.
"""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from replaydiff.replay.model import (
    Item,
    Lane,
    Rule,
    RunRecord,
    ServedCall,
    Status,
    ToolCall,
    Trial,
    Version,
    VersionKind,
)
from replaydiff.replay.store.connection import open_store, transaction
from replaydiff.replay.store.runs import create_run
from replaydiff.replay.store.trials import write_trials

CALLS, LETTERS, RUNS, ITEMS = 5_000, 5_000_000, 1_000, 10
MANY_ITEMS, TRIALS = 10_000, 10
AGENT = f"""
def look_up(n):
    raise RuntimeError("the real tool ran")

def run(text):
    if text != "long":
        return f"{{len(text)}} letters"
    for n in range({CALLS}):
        look_up(n=n)
    return "done"
"""
SETTINGS = """
[agent]
entrypoint = "agent:run"
tools = ["agent:look_up"]
[run]
trials = 1
aa = false
"""


def replay(folder: Path, *words: str) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "replaydiff", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{' '.join(words):<40} exit {done.returncode}, {seconds:.1f} s, {after.ru_maxrss // 1024} MB",
        done.stderr.strip() if done.returncode else "",
        flush=True,
    )


def large_traces(folder: Path) -> None:
    (folder / "agent.py").write_text(AGENT)
    (folder / "replay.toml").write_text(SETTINGS)
    calls = [{"name": "look_up", "args": {"n": n}, "result": f"result {n}"} for n in range(CALLS)]
    long = {"trace_id": "long", "input": "long", "final_response": "done", "tool_calls": calls}
    big = {"trace_id": "big", "input": "x" * LETTERS, "final_response": f"{LETTERS} letters"}
    lines = [json.dumps({"started_at": "2026-10-01T00:00:00Z", **trace}) for trace in (long, big)]
    (folder / "traces.jsonl").write_text("\n".join(lines))
    replay(folder, "import", "jsonl", "traces.jsonl")
    replay(folder, "sample", "--size", "2", "--name", "both")
    replay(folder, "run", "--old", "observed", "--new", ".")
    replay(folder, "diff")
    replay(folder, "report", "--format", "html", "-o", "report.html")
    replay(folder, "show", "long")
    replay(folder, "show", "big")


def many_runs(folder: Path) -> None:
    (folder / "replay.toml").touch()
    call = ToolCall(name="look_up", args={"n": 1}, result="found")
    items = [Item(id=f"t{n}", trace_id=f"t{n}", input=f"question {n}", tape=(call,)) for n in range(ITEMS)]
    lanes = {lane: Version(name=str(lane), kind=VersionKind.PYTHON) for lane in (Lane.OLD, Lane.NEW)}
    first = RunRecord(id="first", created_at=datetime(2026, 11, 1), lanes=lanes, trials=1, seed=0)
    done = [
        Trial(
            run_id="first",
            item_id=item.id,
            lane=lane,
            index=0,
            status=Status.OK,
            final_response="done",
            served=(ServedCall(call=call, rule=Rule.TAPE),),
        )
        for item in items
        for lane in lanes
    ]
    with open_store(folder / ".replay" / "replay.duckdb") as con, transaction(con):
        for number in range(RUNS):
            run = replace(first, id=f"run-{number:04}", created_at=first.created_at + timedelta(hours=number))
            create_run(con, run, items)
            write_trials(con, [replace(trial, run_id=run.id) for trial in done])
        con.execute("UPDATE runs SET finished_at = created_at")
    for words in (("diff",), ("trend",), ("triage",), ("store", "info"), ("store", "compact")):
        replay(folder, *words)


def many_trials(folder: Path) -> None:
    (folder / "replay.toml").touch()
    call = ToolCall(name="look_up", args={"n": 1}, result="found")
    items = [
        Item(id=f"t{n}", trace_id=f"t{n}", input=f"question {n}", tape=(call,)) for n in range(MANY_ITEMS)
    ]
    lanes = {lane: Version(name=str(lane), kind=VersionKind.PYTHON) for lane in (Lane.OLD, Lane.NEW)}
    run = RunRecord(id="many-trials", created_at=datetime(2026, 11, 1), lanes=lanes, trials=TRIALS, seed=0)
    chance = random.Random(0)
    with open_store(folder / ".replay" / "replay.duckdb") as con, transaction(con):
        create_run(con, run, items)
        for start in range(0, MANY_ITEMS, 500):
            trials = [
                Trial(
                    run_id=run.id,
                    item_id=item.id,
                    lane=lane,
                    index=index,
                    status=Status.OK,
                    final_response=f"done {chance.random():.2f}",
                    served=(ServedCall(call=call, rule=Rule.TAPE),) * (chance.random() < 0.95),
                )
                for item in items[start : start + 500]
                for lane in lanes
                for index in range(TRIALS)
            ]
            write_trials(con, trials)
        con.execute("UPDATE runs SET finished_at = created_at")
    html = ("report", "--format", "html", "-o", "report.html")
    for words in (("diff",), html, ("triage",), ("trend",)):
        replay(folder, *words)


def main() -> None:
    os.environ["REPLAY_TRUST"] = "1"
    for part in (large_traces, many_runs, many_trials):
        with tempfile.TemporaryDirectory() as home:
            print(f"{part.__name__.replace('_', ' ')}:")
            part(Path(home))


if __name__ == "__main__":
    main()
