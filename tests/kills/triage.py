"""A person's triage at a terminal, ended at random moments: no decision is lost or made twice.

    .venv/bin/python -m tests.kills.triage [KILLS] [--seed 7]

Eight items regressed. A person promotes every other one and dismisses the rest, key by key on a pseudo-terminal;
the session is ended KILLS (50) times by `kill -9` and as often by SIGTERM, and begun again until nothing is
left to decide. What was decided when the next entry came must be in the store, and in the end each item has one
decision and each promoted one a case, as after an undisturbed session. Prints a row of a Markdown table each.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import random
import re
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from replaydiff.replay.model import ToolCall
from replaydiff.replay.store.connection import open_store
from tests.diff import build
from tests.kills.ends import Outcome
from tests.stand_ins.processes import PATIENCE_S, Process

TOPICS = ("parcel", "refund", "voucher", "address", "invoice", "delivery", "password", "warranty")
"""What the items are about: each calls a tool of its own, so that no two are alike."""
ANSWERS = (
    ("why does it need no case", "nobody asked\r"),
    ("Enter: recording", "\r"),
    ("must the response show", "\r"),
    ("must it show", "\r"),
    ("[q] to the items", "q"),
)
"""What a question is answered with; `[q]uit`, the question of an entry, is answered by its item."""
_SHOWN = re.compile(r"\d of \d +regressed +(t\d\d)\b")
"""The head of an entry: all that were shown before it are decided."""


def project(folder: Path) -> None:
    """Make a project with a run in which every item regressed in a way of its own."""
    (folder / ".replay").mkdir(parents=True)
    items, done = [], []
    for number, topic in enumerate(TOPICS):
        call = ToolCall(name=f"find_{topic}", args={topic: str(number)}, result="found")
        item = build.item(f"t{number:02}", input=f"{topic} {topic} {number}", tape=(call,))
        items.append(item)
        for index in range(3):
            done += [
                build.trial(item, lane, index, calls=(call,) if lane == "old" else ())
                for lane in ("old", "new")
            ]
    path = build.store(folder / ".replay", items, done, golden_path=None)
    path.rename(folder / ".replay" / "replay.duckdb")
    (folder / "replay.toml").touch()


def decisions(folder: Path) -> list[tuple[str, str]]:
    """Return the decisions in a store: item and action."""
    with open_store(folder / ".replay" / "replay.duckdb") as con:
        found: list[tuple[str, str]] = con.execute(
            "SELECT item_id, action FROM decisions ORDER BY ALL"
        ).fetchall()
    return found


def cases(folder: Path) -> list[str]:
    """Return the ids of the traces that were made cases."""
    golden = folder / "cases" / "golden.jsonl"
    lines = golden.read_text().splitlines() if golden.exists() else []
    return sorted(json.loads(line)["metadata"]["trace_id"] for line in lines)


def session(folder: Path, after: float | None, number: signal.Signals) -> tuple[int, str]:
    """Sit down to triage, and be ended after some seconds; return the exit code and what was seen."""
    own, theirs = pty.openpty()
    variables = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "60"}
    process = Process(folder, "replay", ("triage",), variables, (theirs, theirs, theirs), session=True)
    os.close(theirs)
    until = None if after is None else time.monotonic() + after
    seen, position, give_up = "", 0, time.monotonic() + PATIENCE_S
    try:
        while True:
            assert time.monotonic() < give_up, seen[-2000:]
            if until is not None and time.monotonic() >= until:
                process.send_signal(number)
                until = None
            if not select.select([own], [], [], 0.01)[0]:
                continue
            try:
                more = os.read(own, 65536)
            except OSError:
                break
            seen += more.decode(errors="replace").replace("\r", "")
            for length, keys in _answers(seen[position:]):
                position += length
                with suppress(OSError):
                    os.write(own, keys.encode())
    finally:
        os.close(own)
        process.wait()
    assert process.returncode is not None
    return process.returncode, seen


def _answers(text: str) -> Iterator[tuple[int, str]]:
    """Yield what is typed at the last question on the screen, and how much of the screen it answers."""
    questions = [(text.rfind(question), question, keys) for question, keys in ANSWERS]
    questions.append((text.rfind("[q]uit"), "[q]uit", ""))
    place, question, keys = max(questions)
    if place < 0:
        return
    if question == "[q]uit":
        item = re.findall(r"\bt(\d\d)\b", text[:place])
        keys = "p" if item and int(item[0]) % 2 == 0 else "d"
    yield place + len(question), keys


def disturbed(number: signal.Signals, kills: int, home: Path, chance: random.Random) -> Outcome:
    """End sessions until there were `kills` ends."""
    project(home / "undisturbed")
    begun = time.monotonic()
    code, seen = session(home / "undisturbed", None, number)
    seconds = time.monotonic() - begun
    assert code == 0, seen
    wanted = decisions(home / "undisturbed"), cases(home / "undisturbed")
    assert len(wanted[0]) == len(TOPICS), (wanted, seen)
    assert len(wanted[1]) == len(TOPICS) // 2, (wanted, seen)
    outcome = Outcome()
    while outcome.ends < kills:
        folder = home / f"round-{outcome.finished}"
        project(folder)
        confirmed: set[str] = set()
        is_whole = True
        while True:
            begun = time.monotonic()
            code, seen = session(
                folder, chance.uniform(0.0, seconds) if outcome.ends < kills else None, number
            )
            confirmed |= {*_SHOWN.findall(seen)[:-1]}
            there = decisions(folder)
            outcome.lost += len(confirmed - {item for item, _ in there})
            if code == 0:
                # The first session of all takes longest; a moment after the end would end nothing.
                seconds = min(seconds, time.monotonic() - begun) if is_whole else seconds
                break
            is_whole = False
            outcome.add_end(code, seen, number)
        outcome.finished += 1
        outcome.different += (there, cases(folder)) != wanted
        if (there, cases(folder)) != wanted:
            print(there, cases(folder), wanted, file=sys.stderr)
        shutil.rmtree(folder)
    return outcome


def main() -> int:
    """End sessions in both ways; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=50)
    parser.add_argument("--seed", type=int, default=7)
    wanted = parser.parse_args()
    chance, clean = random.Random(wanted.seed), True
    print("| ended by | ends | sessions | lost | different |\n|---|--:|--:|--:|--:|")
    for number in (signal.SIGKILL, signal.SIGTERM):
        with tempfile.TemporaryDirectory() as home:
            outcome = disturbed(number, wanted.kills, Path(home), chance)
        name = "`kill -9`" if number == signal.SIGKILL else "SIGTERM"
        sessions = outcome.ends + outcome.finished
        print(f"| {name} | {outcome.ends} | {sessions} | {outcome.lost} | {outcome.different} |", flush=True)
        for text in outcome.other_codes:
            print(f"unexpected exit {text}", file=sys.stderr)
        clean = clean and not (outcome.lost or outcome.different or outcome.other_codes)
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
