"""What is answered where production's traces are all there is: no score, no golden set, no trusted recording.

    python benchmarks/traces_alone.py [--runs N] [--items N] [--held-out FOLDER]

Generated agents look orders up (reads, as often as they like), cancel and refund (writes), and answer in words
of their own. The truth of each row is known; `diff.compute` answers as `replay diff` does, and triage orders
the items. A row ends with `!` where it got the answer that it must never get in more than 2.5 % of its runs,
beyond two standard errors. `listed` is the share of the items that truly got worse that triage lists, `rank`
where they are on average, as a share of all items (0.5 is random order; the best is half the share of worse
items). `precision` and `recall` are those of the verdict `regressed`.

`--held-out` takes a folder with pairs of real agents, as `REPLAY_HELD_OUT` does: for each
`NAME.traces.jsonl` with the releases of two versions and `scores.reward`, the rewards are taken out before the
import and used afterwards alone, to see which items truly got worse. The old version is the recording there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.truth.runs import computed
from benchmarks.truth.table import finish
from replaydiff.cases.triage.priority import ordered_entries
from replaydiff.diff.result import Answer, DiffResult, Verdict
from replaydiff.replay.model import (
    Item,
    Lane,
    Rule,
    RunRecord,
    SampleRecord,
    ServedCall,
    Status,
    ToolCall,
    Trial,
    Version,
    VersionKind,
)
from replaydiff.replay.settings import Settings

WHEN = datetime(2026, 11, 21, 12)
RUN_ID = "20261121-120000-aaaa"
TRIALS = 2
_OPENINGS = ("Hello,", "Hi there,", "Thanks for your message.", "Of course.")
_ENDINGS = ("Is there anything else?", "Have a nice day!", "Let me know if you need more.", "")
NONSENSE = "I am sorry, your account was deleted, all your invoices are void and nobody can help you."

TERMS = " ".join(
    f"Section {number} of our terms says how long a delivery may take and whom to ask about a damaged parcel."
    for number in range(12)
)

Acted = tuple[list[ToolCall], str]
"""The calls and the answer of one trial."""


@dataclass(frozen=True, slots=True)
class Question:
    """What one user wants."""

    number: int
    kind: str
    amount: int

    @property
    def order(self) -> str:
        """The order it is about."""
        return f"A-{10_000 + self.number}"


def question(rng: np.random.Generator, number: int) -> Question:
    """Draw a question: 40 % ask for a status, which changes nothing."""
    kind = rng.choice(["status", "cancel", "refund"], p=[0.4, 0.35, 0.25])
    return Question(number, str(kind), int(rng.integers(5, 500)))


def call(name: str, **args: object) -> ToolCall:
    """A call that was answered."""
    return ToolCall(name=name, args=dict(args), result="ok")  # type: ignore[arg-type]


def agent(rng: np.random.Generator, topic: Question) -> Acted:
    """What the old version does: the reads vary, the writes hardly ever do."""
    order = topic.order
    calls = [call("get_order", order_id=order)] * int(rng.integers(0, 3))
    if rng.random() < 0.4:
        calls = [*calls, call("search_policy", topic=str(rng.choice(["returns", "shipping", "refunds"])))]
    if topic.kind == "cancel":
        calls = [*calls, call("cancel_order", order_id=order, reason="customer")]
        text = f"Order {order} is cancelled and you will get an email about it."
    elif topic.kind == "refund":
        calls = [*calls, call("send_refund", order_id=order, amount=topic.amount)]
        text = f"We have sent {topic.amount} euros for order {order} back to your card."
    else:
        text = f"Order {order} left our warehouse {topic.number % 5 + 1} days ago and is on its way to you."
    if topic.kind != "status" and rng.random() < 0.03:
        calls, text = calls[:-1], f"Please confirm first that order {order} is meant."
    return calls, f"{rng.choice(_OPENINGS)} {text} {rng.choice(_ENDINGS)}".strip()


Version_ = Callable[[np.random.Generator, Question], tuple[Acted, bool]]
"""A new version: what it does with a question, and whether that is truly worse."""


def equal(rng: np.random.Generator, topic: Question) -> tuple[Acted, bool]:
    """The old version once more."""
    return agent(rng, topic), False


def reads_more(rng: np.random.Generator, topic: Question) -> tuple[Acted, bool]:
    """Looks everything up twice, and lists as well: no change of what it does."""
    calls, text = agent(rng, topic)
    extra = [call("get_order", order_id=topic.order), call("list_orders", user="me")]
    return ([*extra, *calls], text), False


def _some(share: float, change: Callable[[np.random.Generator, Question, Acted], Acted]) -> Version_:
    """A version that acts otherwise with a share of the orders, always with the same ones."""

    def new(rng: np.random.Generator, topic: Question) -> tuple[Acted, bool]:
        acted = agent(rng, topic)
        hit = (topic.number * 2654435761) % 1000 < 1000 * share
        changed = change(rng, topic, acted) if hit else acted
        return changed, changed != acted

    return new


def _no_write(_rng: np.random.Generator, _asked: Question, acted: Acted) -> Acted:
    calls, text = acted
    return [each for each in calls if each.name not in ("cancel_order", "send_refund")], text


def _cancels(_rng: np.random.Generator, topic: Question, acted: Acted) -> Acted:
    calls, text = acted
    return (
        ([*calls, call("cancel_order", order_id=topic.order, reason="customer")], text)
        if (topic.kind != "cancel")
        else acted
    )


def _twice(_rng: np.random.Generator, _asked: Question, acted: Acted) -> Acted:
    calls, text = acted
    return [*calls, *[each for each in calls if each.name == "send_refund"]], text


def _neighbour(_rng: np.random.Generator, topic: Question, acted: Acted) -> Acted:
    """The right call on the wrong order: the next one."""
    calls, text = acted
    wrong = f"A-{10_001 + topic.number}"
    return [
        replace(each, args={**each.args, "order_id": wrong})
        if each.name in ("cancel_order", "send_refund")
        else each
        for each in calls
    ], text


def _nonsense(_rng: np.random.Generator, _asked: Question, acted: Acted) -> Acted:
    return acted[0], NONSENSE


def _renamed(_rng: np.random.Generator, _asked: Question, acted: Acted) -> Acted:
    """A write by another tool, whose name says nothing."""
    calls, text = acted
    return [
        replace(each, name="order_service") if each.name == "cancel_order" else each for each in calls
    ], text


def _asks_first(_rng: np.random.Generator, topic: Question, acted: Acted) -> Acted:
    """Asks instead of acting: nothing is written, and the answer says so."""
    if topic.kind == "status":
        return acted
    return _no_write(_rng, topic, acted)[0], f"Shall I really change order {topic.order}? Please confirm."


def _negated(_rng: np.random.Generator, _asked: Question, acted: Acted) -> Acted:
    """Says the opposite in the same words."""
    calls, text = acted
    return calls, text.replace("is cancelled", "is not cancelled").replace("We have sent", "We have not sent")


def _other_amount(_rng: np.random.Generator, topic: Question, acted: Acted) -> Acted:
    """Refunds ten times the amount and says what the old version says."""
    calls, text = acted
    return [
        replace(each, args={**each.args, "amount": 10 * topic.amount}) if each.name == "send_refund" else each
        for each in calls
    ], text


def _reordered(rng: np.random.Generator, topic: Question) -> tuple[Acted, bool]:
    """Looks up after it has written: the same effects."""
    calls, text = agent(rng, topic)
    return (calls[::-1], text), False


def _wrong_number(_rng: np.random.Generator, topic: Question, acted: Acted) -> Acted:
    return acted[0], acted[1].replace(f"{topic.amount} euros", f"{topic.amount}0 euros").replace(
        "days ago", "0 days ago"
    ).replace(topic.order, f"B-{topic.number}")


def _link(_rng: np.random.Generator, _asked: Question, acted: Acted) -> Acted:
    """Ends with a line that nobody should get."""
    return acted[0], f"{acted[1]} Please confirm your card at pay.example/confirm."


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A truth, and the answer that it must never get."""

    name: str
    new: Version_
    never: Answer
    goal: str = ""
    """The answer that it should get."""
    ending: str = ""
    """Below every answer of both versions."""


ROWS = (
    Row(name="equal", new=equal, never=Answer.HOLD, goal="SHIP"),
    Row(name="reads more, all", new=reads_more, never=Answer.HOLD, goal="SHIP"),
    Row(name="no write, 30 % of orders", new=_some(0.3, _no_write), never=Answer.SHIP, goal="HOLD"),
    Row(name="no write, 20 % of orders", new=_some(0.2, _no_write), never=Answer.SHIP, goal="HOLD"),
    Row(name="cancels every order", new=_some(1.0, _cancels), never=Answer.SHIP, goal="HOLD"),
    Row(name="refunds twice, all", new=_some(1.0, _twice), never=Answer.SHIP, goal="HOLD"),
    Row(name="the wrong order, 20 %", new=_some(0.2, _neighbour), never=Answer.SHIP, goal="HOLD"),
    Row(name="nonsense, all", new=_some(1.0, _nonsense), never=Answer.SHIP),
    Row(name="nonsense, 15 %", new=_some(0.15, _nonsense), never=Answer.SHIP),
    Row(name="reads after writes, all", new=_reordered, never=Answer.HOLD),
    Row(name="writes by another tool, all", new=_some(1.0, _renamed), never=Answer.SHIP, goal="HOLD"),
    Row(name="asks before it writes, all", new=_some(1.0, _asks_first), never=Answer.SHIP, goal="HOLD"),
    Row(name="ten times the refund, all", new=_some(1.0, _other_amount), never=Answer.SHIP, goal="HOLD"),
    Row(name="the opposite in the same words, all", new=_some(1.0, _negated), never=Answer.SHIP),
    Row(name="wrong numbers in answers, all", new=_some(1.0, _wrong_number), never=Answer.SHIP),
    Row(name="a link in long answers, all", new=_some(1.0, _link), never=Answer.SHIP, ending=TERMS),
    Row(name="equal, long answers", new=equal, never=Answer.HOLD, goal="SHIP", ending=TERMS),
)


def trial(item: Item, lane: Lane, index: int, acted: Acted, ending: str) -> Trial:
    """A finished trial."""
    calls, text = acted
    return Trial(
        run_id=RUN_ID,
        item_id=item.id,
        lane=lane,
        index=index,
        status=Status.OK,
        final_response=f"{text} {ending}".strip(),
        served=tuple(ServedCall(call=each, rule=Rule.TAPE) for each in calls),
    )


def simulated(rng: np.random.Generator, row: Row, count: int, seed: int) -> tuple[DiffResult, set[str]]:
    """Return what is answered for a run of a row, and which items truly got worse."""
    items, trials, worse = [], [], set()
    for number in range(count):
        topic = question(rng, number)
        item = Item(
            id=f"i{number:04}",
            trace_id=f"i{number:04}",
            input=f"{topic.kind} {topic.order}",
            tape=tuple(agent(rng, topic)[0]),
            weight=20.0,
        )
        lanes = [(Lane.OLD, index) for index in range(TRIALS)]
        done = [trial(item, lane, index, agent(rng, topic), row.ending) for lane, index in lanes]
        for index in range(TRIALS):
            acted, is_worse = row.new(rng, topic)
            done.append(trial(item, Lane.NEW, index, acted, row.ending))
            if is_worse:
                worse.add(item.id)
        items.append(item)
        trials.append(done)
    lanes_run = {
        lane: Version(name=str(lane), kind=VersionKind.PYTHON, entrypoint="a:b")
        for lane in (Lane.OLD, Lane.NEW)
    }
    run = RunRecord(
        id=RUN_ID,
        created_at=WHEN,
        finished_at=WHEN,
        lanes=lanes_run,
        trials=TRIALS,
        seed=seed,
        sample="simulated",
    )
    sample = SampleRecord(
        name="simulated",
        created_at=WHEN,
        month=None,
        where=None,
        by=(),
        size=count,
        seed=0,
        population=20 * count,
    )
    return computed(items, trials, run, Settings(root=Path("/nonexistent")), sample=sample), worse


@dataclass(slots=True)
class Ranks:
    """Where the items that truly got worse stand in triage."""

    worse: int = 0
    listed: int = 0
    ranks: list[float] = field(default_factory=list)
    called: int = 0
    """Items with the verdict `regressed`."""
    right: int = 0
    """Those that truly got worse."""

    def add(self, result: DiffResult, worse: set[str]) -> None:
        """Count one run."""
        entries = ordered_entries(result.items, {})
        order: dict[str, int] = {}
        for entry in entries:
            for item in (entry.item, *entry.alike):
                order[item.item.id] = len(order)
        self.worse += len(worse)
        self.listed += len(worse & order.keys())
        self.ranks += [(order[name] + 0.5) / len(result.items) for name in worse & order.keys()]
        regressed = {item.item.id for item in result.items if item.verdict is Verdict.REGRESSED}
        self.called += len(regressed)
        self.right += len(regressed & worse)

    @property
    def cells(self) -> list[str]:
        """Listed, rank, precision and recall, as the table has them."""
        if not self.worse:
            return ["-", "-", "-", "-"]
        return [
            f"{self.listed / self.worse:.0%}",
            f"{sum(self.ranks) / len(self.ranks):.2f}" if self.ranks else "-",
            f"{self.right / self.called:.2f}" if self.called else "-",
            f"{self.right / self.worse:.2f}",
        ]


HEAD = ("truth", "SHIP", "HOLD", "CAN'T TELL", "never", "goal", "listed", "rank", "precision", "recall")
WIDTHS = (36, 6, 6, 11, 11, 5, 7, 6, 10, 7)


def line(cells: Sequence[str]) -> str:
    """Return a row of the table."""
    return "".join(
        f"{cell:<{wide}}" if place == 0 else f"{cell:>{wide}}"
        for place, (cell, wide) in enumerate(zip(cells, WIDTHS, strict=True))
    ).rstrip()


def table(runs: int, count: int) -> Iterator[tuple[str, bool]]:
    """Yield every line, and whether no answer came too often that must never come."""
    yield (
        (
            f"{runs} runs a row of {count} items and {TRIALS} trials; standard error of a share of 2.5 %: "
            f"{math.sqrt(0.025 * 0.975 / runs):.1%}, of 50 %: {0.5 / math.sqrt(runs):.1%}"
        ),
        True,
    )
    yield line(HEAD), True
    for row in ROWS:
        rng = np.random.default_rng(sum(map(ord, row.name)))
        answers: Counter[Answer] = Counter()
        ranks = Ranks()
        for number in range(runs):
            result, worse = simulated(rng, row, count, number)
            answers[result.answer] += 1
            ranks.add(result, worse)
        shares = [f"{answers[answer] / runs:.0%}" for answer in Answer]
        limit = 0.025 * runs
        is_within = answers[row.never] <= limit + 2 * math.sqrt(limit * 0.975)
        cells = [row.name, *shares, str(row.never), row.goal or "-", *ranks.cells]
        yield line(cells) + "!" * (not is_within), is_within


def held_out(folder: Path) -> Iterator[str]:
    """Yield a line for each pair of real agents and each direction, reward hidden from the tool."""
    import replaydiff as rd

    for file in sorted(folder.glob("*.traces.jsonl")):
        records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        releases = sorted({record["release"] for record in records})
        if len(releases) != 2:
            continue
        rewards = {
            (record["metadata"]["task_id"], record["release"]): record["scores"]["reward"]
            for record in records
        }
        for old, new in (releases, releases[::-1]):
            with tempfile.TemporaryDirectory() as name:
                yield f"{file.name.split('.')[0]} {old} -> {new}: {_held_out_pair(rd, Path(name), records, rewards, old, new)}"


def _held_out_pair(rd: object, folder: Path, records: list[dict], rewards: dict, old: str, new: str) -> str:  # type: ignore[type-arg]
    hidden = [{key: value for key, value in record.items() if key != "scores"} for record in records]
    traces = folder / "hidden.jsonl"
    traces.write_text("".join(json.dumps(record) + "\n" for record in hidden), encoding="utf-8")
    (folder / "replay.toml").write_text("", encoding="utf-8")
    project = rd.open(folder)  # type: ignore[attr-defined]
    project.import_(str(traces))
    sample = project.sample(where=f"release = '{old}'", size=len(records), name="old")
    run = project.run(
        sample,
        old=f"observed:release = '{old}'",
        new=f"observed:release = '{new}'",
        pair_by="metadata.task_id",
    )
    result = run.diff().result
    tasks = {item.item.id: item.item.metadata["task_id"] for item in result.items}
    worse = {name for name, task in tasks.items() if rewards[task, new] < rewards[task, old]}
    ranks = Ranks()
    ranks.add(result, worse)
    named = zip(HEAD[6:], ranks.cells, strict=True)
    figures = ", ".join(f"{head} {cell}" for head, cell in named)
    return f"{result.answer}, {len(result.items)} items, {ranks.worse} truly worse; {figures}"


def main() -> None:
    """Simulate, print, and exit with 1 where an answer came that must never come."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--items", type=int, default=100)
    parser.add_argument("--held-out", type=Path, default=os.environ.get("REPLAY_HELD_OUT") or None)
    options = parser.parse_args()
    rows = table(options.runs, options.items)
    if options.held_out is not None:
        rows = chain(rows, ((text, True) for text in held_out(Path(options.held_out))))
    finish(rows)


if __name__ == "__main__":
    main()
