"""Answers on conversations whose turns hang together: an equal version, and two that lose.

    python benchmarks/conversations_aa.py [--quick] [--runs N] [--only ROW]

A store holds 2,100 generated conversations of a tool-calling agent, one trace for each turn. In each run 100 of
them are drawn by `unit="conversation"`, the trials of two lanes are written as a run, and `diff.compute` answers
from the store. The turns of a conversation share its pass rate (three fifths always pass, the mean is 85 %), the
luck of a trial (correlation 0.5), and whether the new version fails on it: then all of its turns fail. A score is
the share of turns that did what they should; one that did not leaves its tool call out.

`singly`: 100 turns of some 67 sessions are drawn (`unit="trace"`). `by user`: the conversations of each of 50 users
share rate and failure, and two of each are drawn; their sessions are known, so that nothing links them: the limit
of that row is what missing user ids cost (`hard_worlds.py`).

`loss` is that of the mean score over all that could come. At 0.05, the tolerance, and above, SHIP is wrong; of an
equal version HOLD is. `±` is the standard error of the simulation; a row ends with `!`, and the command with 1,
where the wrong answer comes in more than 2.5 % of the runs, beyond two standard errors. A loss of 0.10 is
simulated a fifth as often, and the rows after `8 turns` a third as often.
"""

from __future__ import annotations

import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import replaydiff as rd
from benchmarks.hard_worlds import UNLINKED
from benchmarks.truth.agents import outcomes
from benchmarks.truth.runs import RUN_ID
from benchmarks.truth.table import Options, error, finish, options
from benchmarks.truth.worlds import mixed
from replaydiff.diff.compute import compute
from replaydiff.diff.result import Answer
from replaydiff.replay.engine.items import SampleSource
from replaydiff.replay.model import (
    Item,
    Lane,
    Rule,
    RunRecord,
    ServedCall,
    Status,
    ToolCall,
    Trace,
    Trial,
    Turn,
    Version,
    VersionKind,
)
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.runs import create_run, delete_run
from replaydiff.replay.store.traces import write_traces
from replaydiff.replay.store.trials import write_trials

DRAWN, TRIALS, RATE, NOMINAL, TOLERANCE = 100, 2, 0.85, 0.025, 0.05
BEGAN = datetime(2026, 10, 1)
LANES = (Lane.OLD, Lane.NEW)
LOSSES = {0.0: Answer.HOLD, TOLERANCE: Answer.SHIP, 0.10: Answer.SHIP}
"""Loss → the answer that is wrong then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a store holds, and how it is drawn."""

    name: str
    turns: int
    conversations: int = 2100
    users: int = 0
    """How many users the conversations are of; 0 where each is of a user of its own."""
    unit: str = "conversation"
    wrong: float = NOMINAL
    """The most that the wrong answer may come."""
    slow: bool = False
    """A third of the runs."""


ROWS = (
    Row(name="3 turns", turns=3),
    Row(name="8 turns", turns=8),
    Row(name="20 turns", turns=20, slow=True),
    Row(name="20 turns, singly", turns=20, conversations=105, unit="trace", slow=True),
    Row(name="3 turns, by user", turns=3, users=50, wrong=UNLINKED, slow=True),
)


def recorded(rng: np.random.Generator, row: Row) -> Iterator[Trace]:
    """Yield the turns of every conversation: three fifths look something up, the others write."""
    for number in range(row.conversations):
        for turn in range(row.turns):
            tool = str(rng.choice(["get_order", "cancel_order", "send_refund"], p=[0.6, 0.2, 0.2]))
            order = f"A-{100 * number + turn}"
            began = BEGAN + timedelta(minutes=40 * number + turn)
            yield Trace(
                trace_id=f"t{number}-{turn}",
                source="generated",
                started_at=began,
                ended_at=began + timedelta(seconds=20),
                session_id=f"s{number}",
                user_id=f"u{number % row.users}" if row.users else None,
                input=f"Please {tool.replace('_', ' ')} {order}",
                final_response=f"{order} is done.",
                tool_calls=(ToolCall(name=tool, args={"order_id": order}, result="ok"),),
                metadata={"conversation": number},
            )


def trials_of(item: Item, lane: Lane, passed: np.ndarray) -> Iterator[Trial]:
    """Yield an item's trials in a lane; `passed` is turns × trials."""
    for index, right in enumerate(passed.T == 1):
        done = list(zip(item.tape, right, strict=True))
        texts = [f"{call.args['order_id']} is done." if good else "I cannot do that." for call, good in done]
        turns = (
            Turn(number=number, calls=int(good), response=text)
            for number, (good, text) in enumerate(zip(right, texts, strict=True), 1)
        )
        yield Trial(
            run_id=RUN_ID,
            item_id=item.id,
            lane=lane,
            index=index,
            status=Status.OK,
            final_response=texts[-1],
            served=tuple(ServedCall(call=call, rule=Rule.TAPE) for call, good in done if good),
            turns=tuple(turns) if len(done) > 1 else (),
            scores={"passed": float(right.mean())},
        )


def answered(project: rd.Project, row: Row, rng: np.random.Generator, loss: float, seed: int) -> Answer:
    """Return the answer for one sample, and one draw of pass rates, failures and luck."""
    drawn = project.sample(name=f"{loss} {seed}", size=DRAWN, seed=seed, unit=row.unit)
    sharing = row.users or row.conversations
    old = mixed(rng, sharing, RATE)
    new = np.where(rng.random(sharing) < loss / RATE, 0.0, old)
    run = RunRecord(
        id=RUN_ID,
        created_at=BEGAN,
        finished_at=BEGAN,
        lanes={lane: Version(name=str(lane), kind=VersionKind.PYTHON, entrypoint="a:b") for lane in LANES},
        trials=TRIALS,
        seed=seed,
        sample=drawn.name,
    )
    with open_store(project.store.path) as con:
        source = SampleSource(drawn.name, drawn.items)
        items = [*source.read(con, source.ids())]
        create_run(con, run, items)
        turns = [len(item.tape) for item in items]
        group = [int(item.metadata["conversation"]) % sharing for item in items]  # type: ignore[arg-type]
        trials: list[Trial] = []
        for lane, rates in zip(LANES, (old, new), strict=True):
            passed = outcomes(rng, np.repeat(rates[group], turns), TRIALS, np.repeat(range(DRAWN), turns))
            for item, of_item in zip(items, np.split(passed, np.cumsum(turns)[:-1]), strict=True):
                trials += trials_of(item, lane, of_item)
        write_trials(con, trials)
        answer = compute(con, RUN_ID, project.settings).answer
        delete_run(con, RUN_ID)
    return answer


def measured(row: Row, runs: int) -> Iterator[tuple[str, bool]]:
    """Yield the line of each loss, and whether its wrong answer is rare enough."""
    rng = np.random.default_rng(zlib.crc32(row.name.encode()))
    runs = max(1, runs // 3) if row.slow else runs
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "replay.toml").write_text("")
        project = rd.open(folder)
        with open_store(project.store.path) as con:
            write_traces(con, recorded(rng, row))
        for loss, wrong in LOSSES.items():
            count = max(1, runs // 5) if loss > TOLERANCE else runs
            answers = Counter(answered(project, row, rng, loss, seed) for seed in range(count))
            shares = {answer: answers[answer] / count for answer in Answer}
            is_within = shares[wrong] <= row.wrong + 2 * error(row.wrong, count)
            cells = "".join(f"{share:8.1%} ±{error(share, count):5.1%}" for share in shares.values())
            yield f"{row.name:22}{loss:6.2f}{count:6}{cells}  {wrong}{'' if is_within else ' !'}", is_within


def table(options: Options) -> Iterator[tuple[str, bool]]:
    """Yield every line, and whether it is within its limit."""
    yield (
        f"{'conversations':22}{'loss':>6}{'runs':>6}"
        + "".join(f"{answer:>15}" for answer in Answer)
        + "  wrong",
        True,
    )
    for row in ROWS:
        if options.only in row.name:
            yield from measured(row, options.runs)


if __name__ == "__main__":
    finish(table(options("Answers on conversations whose turns hang together.", runs=100, quick=10)))
