"""A quick agent's trials wait in its worker, with their recordings: each counts as if it were sent alone."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.agents import Outcome
from replaydiff.replay.agents.python import PythonAgent
from replaydiff.replay.model import Item, Rule, Status, ToolCall
from replaydiff.replay.tape import UNAMBIGUOUS_BYTES, Tape
from tests.agents.running import agent, recorded, run

AGENT = """
import json, os, subprocess, sys, time

def call(name, args) -> object:
    raise AssertionError("a real tool ran")

def run(text):
    seen = []
    for name, args in json.loads(text):
        try:
            seen.append(call(name, args))
        except RuntimeError as error:
            seen.append("no")
    return json.dumps(seen)

async def run_async(text):
    return run(text)

def calling(text):
    what, number = text.split()
    for place in range(int(number)):
        call("f", {"n": place, "of": "x" * 50})
    if what == "exit":
        os._exit(3)
    if what == "hang":
        time.sleep(60)
    if what == "deep":
        answer = []
        for _ in range(100_000):
            answer = [answer]
        return {"final_response": "", "tool_calls": [{"name": "g", "args": {"n": answer}}]}
    return "done"

async def calling_async(text):
    return calling(text)

def counted(text):
    with open("begun", "a") as file:
        file.write(text + "\\n")
    if text.startswith("exit"):
        os._exit(3)
    if text.startswith("raise"):
        raise ValueError(text)
    return str(os.getpid())

def printing(text):
    print("text", text)
    if text.startswith("raise"):
        raise ValueError(text)
    return text
"""
VALUES: list[Any] = [
    1,
    1.0,
    True,
    "1",
    None,
    {"b": [1, 1.0], "a": "é"},
    {"a": "é", "b": [1, 1]},
    [],
    "\ud800",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "quick.py").write_text(AGENT)
    return tmp_path


def random_items(number: int) -> list[Item]:
    """Items with recordings of calls that are nearly or wholly equal, and calls of which some are recorded."""
    chance = random.Random(5)
    items = []
    for place in range(number):
        tape = tuple(
            recorded(chance.choice("fg"), f"{place} {at}", n=chance.choice(VALUES[:-1]))
            if chance.random() < 0.8
            else recorded(chance.choice("fg"), error="no", n=1)
            for at in range(chance.randrange(6))
        )
        steps = [(chance.choice("fg"), {"n": chance.choice(VALUES)}) for _ in range(4)]
        steps += [(call.name, call.args) for call in tape if chance.random() < 0.7]
        chance.shuffle(steps)
        items.append(Item(id=str(place), input=json.dumps(steps), tape=tape))
    return items


def answers(item: Item, ignored: tuple[str, ...] = ()) -> list[tuple[Rule, Any]]:
    """What the tape answers, call by call."""
    tape = Tape(item.tape, ignored)
    found = [tape.answer(name, json.loads(json.dumps(args))) for name, args in json.loads(item.input)]
    return [(one.rule, one.recorded.result if one.recorded else None) for one in found]


@pytest.mark.parametrize("entrypoint", ["run", "run_async"])
@pytest.mark.parametrize("ignored", [(), ("n",)])
def test_a_worker_answers_as_the_tape_does(folder: Path, entrypoint: str, ignored: tuple[str, ...]) -> None:
    items = random_items(120)
    outcomes = run(
        f"quick:{entrypoint}", *items, folder=folder, tools=("quick:call",), on_miss="error",
        concurrency=40, ignore_args=ignored,
    )  # fmt: skip
    for item, outcome in zip(items, outcomes, strict=True):
        assert outcome.status is Status.OK, outcome.reason
        made = [(served.rule, served.call.result) for served in outcome.served]
        assert made == answers(item, ignored)
        told = json.loads(outcome.final_response or "")
        expected = [served.call.result if not served.call.error else "no" for served in outcome.served]
        assert told == expected
        assert [served.call.index for served in outcome.served] == list(range(len(told)))


def test_a_miss_after_answers_stops_the_trial(folder: Path) -> None:
    item = Item(
        id="x",
        input=json.dumps([("f", {"n": 1}), ("f", {"n": 2}), ("f", {"n": 3})]),
        tape=(recorded("f", "one", n=1), recorded("f", "three", n=3)),
    )
    [outcome] = run("quick:run", item, folder=folder, tools=("quick:call",))
    assert outcome.status is Status.DIVERGED
    assert [(served.call.args, served.rule) for served in outcome.served] == [
        ({"n": 1}, Rule.TAPE),
        ({"n": 2}, Rule.MISS),
    ]


def test_long_recordings_stay_here(folder: Path) -> None:
    long = "x" * (UNAMBIGUOUS_BYTES // 2)
    tape = (
        recorded("f", long, n=1), recorded("f", "short", n=1), recorded("f", long, n=1), recorded("g", "end"),
    )  # fmt: skip
    assert [call.result for call in Tape(tape).unambiguous()] == ["end", long, "short"]
    steps = [("f", {"n": 1})] * 3 + [("g", {})]
    item = Item(id="x", input=json.dumps(steps), tape=tape)
    [outcome] = run("quick:run", item, folder=folder, tools=("quick:call",))
    assert json.loads(outcome.final_response or "") == [long, "short", long, "end"]


def calls_item(what: str, number: int) -> Item:
    tape = tuple(recorded("f", place, n=place, of="x" * 50) for place in range(number))
    return Item(id=what, input=f"{what} {number}", tape=tape)


@pytest.mark.parametrize("entrypoint", ["calling", "calling_async"])
@pytest.mark.parametrize(
    ("what", "status"),
    [("exit", Status.CRASHED), ("hang", Status.TIMEOUT), ("deep", Status.AGENT_ERROR)],
)
def test_calls_are_known_of_a_trial_that_never_reported_them(
    folder: Path, entrypoint: str, what: str, status: Status
) -> None:
    [outcome] = run(
        f"quick:{entrypoint}", calls_item(what, 3), folder=folder, tools=("quick:call",), timeout_s=3.0
    )
    assert outcome.status is status
    made = [(served.rule, served.call.args["n"]) for served in outcome.served if served.call.name == "f"]
    assert made == [(Rule.TAPE, 0), (Rule.TAPE, 1), (Rule.TAPE, 2)]


def test_a_long_log_of_calls_keeps_those_of_the_running_trial(folder: Path) -> None:
    items = [calls_item("end", 200) for _ in range(90)] + [calls_item("hang", 200)]
    *others, last = run(
        "quick:calling", *items, folder=folder, tools=("quick:call",), concurrency=1, timeout_s=5.0
    )
    assert {outcome.status for outcome in others} == {Status.OK}
    assert {len(outcome.served) for outcome in others} == {200}
    assert last.status is Status.TIMEOUT
    assert [served.call.args["n"] for served in last.served] == list(range(200))


def begun(folder: Path) -> Counter[str]:
    return Counter((folder / "begun").read_text().splitlines())


def outcomes_of(folder: Path, *inputs: str, **options: Any) -> list[Outcome]:
    return run("quick:counted", *inputs, folder=folder, tools=(), **options)


def test_an_agent_that_ends_its_process_takes_no_trial_with_it(folder: Path) -> None:
    texts = [f"{number}" for number in range(150)]
    texts[100] = "exit"
    outcomes = outcomes_of(folder, *texts, concurrency=60)
    statuses = Counter(outcome.status for outcome in outcomes)
    assert statuses == {Status.OK: 149, Status.CRASHED: 1}
    assert outcomes[100].status is Status.CRASHED
    counts = begun(folder)
    # In the shared process, and once more in one of its own.
    assert counts.pop("exit") == 2
    assert set(counts.values()) == {1}


def test_what_waits_behind_a_failure_is_begun_once(folder: Path) -> None:
    texts = [f"raise {number}" if number % 40 == 39 else f"{number}" for number in range(200)]
    outcomes = outcomes_of(folder, *texts, concurrency=60)
    assert Counter(outcome.status for outcome in outcomes) == {Status.OK: 195, Status.AGENT_ERROR: 5}
    counts = begun(folder)
    assert {counts.pop(text) for text in texts if text.startswith("raise")} == {2}
    assert set(counts.values()) == {1}


def test_what_an_agent_prints_stays_with_its_trial(folder: Path) -> None:
    texts = [f"raise {number}" if number == 99 else f"{number}" for number in range(120)]
    outcomes = run("quick:printing", *texts, folder=folder, tools=(), concurrency=60)
    assert outcomes[99].stderr == "text raise 99"


def test_recordings_that_two_calls_share_are_not_given_away() -> None:
    one, two = recorded("f", 1, n=1), recorded("f", 2, n=1.0)
    alike = [recorded("g", 1, n=1), recorded("g", 2, n=1)]
    unanswered = ToolCall(name="h", args={}, answered=False)
    assert Tape([one, *alike, two, unanswered]).unambiguous() == alike
    tape = Tape([one, *alike])
    tape.answer("g", {"n": 1})
    assert tape.unambiguous() == [alike[1], one]


def test_trials_of_a_group_that_is_cancelled_are_reported_once(folder: Path) -> None:
    found: list[tuple[int, object]] = []

    async def cancel_a_group(after_s: float) -> str | None:
        running = agent("quick:counted", folder=folder, tools=(), concurrency=40)
        assert isinstance(running, PythonAgent)
        await running.start()
        items = [Item(id=str(number), input=str(number)) for number in range(40)]
        for item in items:
            await running.run(item, 0)
        group = asyncio.create_task(running.run_together(items, found.extend))
        await asyncio.sleep(after_s)
        group.cancel()
        await asyncio.gather(group, return_exceptions=True)
        outcome = await running.run(items[0], 0)
        await running.close()
        return outcome.final_response

    for after_s in (0.0, 0.001, 0.004):
        found.clear()
        assert asyncio.run(cancel_a_group(after_s))
        places = [place for place, _ in found]
        assert len(places) == len(set(places))
        assert all(isinstance(outcome, Outcome) and outcome.status is Status.OK for _, outcome in found)
