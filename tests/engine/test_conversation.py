"""A trace of several turns: the user's are frozen, what the version says and does between them is its own."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.agents import Outcome
from replaydiff.replay.model import Item, Lane, Message, Status, ToolCall, Trace, Turn
from replaydiff.replay.sampling import draw
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.samples import write_sample
from replaydiff.replay.turns import user_turns
from tests.commands.conftest import Replay
from tests.engine.project import WHEN, Project, order

SHOP = '''
import json

def call(name, args) -> str:
    return "THE REAL TOOL RAN"

def run_agent(messages, careful=True):
    """Looks up what it is asked about; cancels where it is told to, and if careful, looks it up again."""
    text = messages[-1]["content"]
    if "cancel" in text:
        if careful:
            call("get_order", {"id": 7})
        return "done: " + call("cancel_order", {"id": 7})
    if "thanks" in text:
        return json.dumps(messages)
    return "status: " + call("get_order", {"id": 7})
'''
SETTINGS = '[agent]\nentrypoint = "app.agent:run_agent"\ntools = ["app.agent:call"]\n[versions.hasty]\n'
LOOK = ToolCall(name="get_order", args={"id": 7}, call_id="c1", result="open", index=0)
AGAIN = ToolCall(name="get_order", args={"id": 7}, call_id="c2", result="still open", index=1)
CANCEL = ToolCall(name="cancel_order", args={"id": 7}, call_id="c3", result="cancelled", index=2)
TALK = (
    Message(role="user", text="hello"),
    Message(role="assistant", text="hello, what can I do?"),
    Message(role="user", text="where is order 7?"),
    Message(role="assistant", tool_calls=(LOOK,)),
    Message(role="tool", text="open", tool_call_id="c1"),
    Message(role="assistant", text="It is open."),
    Message(role="user", text="please"),
    Message(role="user", text="cancel it"),
    Message(role="assistant", tool_calls=(AGAIN, CANCEL)),
    Message(role="tool", text="still open", tool_call_id="c2"),
    Message(role="tool", text="cancelled", tool_call_id="c3"),
    Message(role="assistant", text="It is cancelled."),
    Message(role="user", text="thanks"),
    Message(role="assistant", text="You are welcome."),
)


def talk(**fields: Any) -> Trace:
    return Trace(
        **{
            "trace_id": "talk",
            "source": "jsonl",
            "started_at": WHEN,
            "input": "thanks",
            "messages": TALK,
            "final_response": "You are welcome.",
            "tool_calls": (LOOK, AGAIN, CANCEL),
            **fields,
        }
    )


@pytest.fixture
def project(replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = Project(tmp_path / "shop")
    project.settings(SETTINGS + "args = { careful = false }\n")
    project.write("v1", SHOP)
    monkeypatch.chdir(project.folder)
    return project


def sampled(project: Project, trace: Trace) -> None:
    project.traces([trace])
    with open_store(project.store) as con:
        drawn = draw(con, name="talks", size=1, seed=0)
        write_sample(con, drawn.sample, drawn.items)


def test_each_turn_with_recorded_calls_is_replayed_with_what_the_version_said_before(
    replay: Replay, project: Project
) -> None:
    sampled(project, talk())
    assert replay("run", "--new", ".").code == 0
    [trial] = project.trials()
    assert trial.status is Status.OK
    assert [(one.call.name, one.call.result, one.call.index) for one in trial.served] == [
        ("get_order", "open", 0),
        ("get_order", "still open", 1),
        ("cancel_order", "cancelled", 2),
    ]
    assert trial.turns == (
        Turn(number=2, calls=1, response="status: open"),
        Turn(number=3, calls=2, response="done: cancelled"),
        Turn(number=4, calls=0, response=trial.final_response),
    )
    given = json.loads(trial.final_response or "")
    assert [(one["role"], one["content"]) for one in given] == [
        ("user", "hello"),
        ("assistant", "hello, what can I do?"),
        ("user", "where is order 7?"),
        ("assistant", ""),
        ("tool", "open"),
        ("assistant", "status: open"),
        ("user", "please"),
        ("user", "cancel it"),
        ("assistant", ""),
        ("tool", "still open"),
        ("tool", "cancelled"),
        ("assistant", "done: cancelled"),
        ("user", "thanks"),
    ]
    asked = [call["id"] for one in given for call in one.get("tool_calls", ())]
    assert asked == [one["tool_call_id"] for one in given if one["role"] == "tool"]
    shown = replay("show", "talk", "--run", project.run().id).out
    assert "user 3     cancel it" in shown
    assert shown.index("status: open") < shown.index("cancel it") < shown.index("done: cancelled")


@pytest.mark.parametrize("old", [".", "observed"])
@pytest.mark.slow
def test_the_report_says_from_which_turn_the_lanes_part(replay: Replay, project: Project, old: str) -> None:
    sampled(project, talk())
    assert replay("run", "--old", old, "--new", "hasty").code == 0
    document = json.loads(replay("diff", "--json").out)
    [case] = document["cases"]
    assert case["divergence"] == {
        "turn": 3,
        "of": 4,
        "actions": {
            "old": "get_order(id=7), cancel_order(id=7)",
            "new": "cancel_order(id=7)",
        },
    }
    assert case["metrics"]["tool_calls"]["reason"].endswith("; the lanes differ from user turn 3 of 4 on")


def test_lanes_that_do_the_same_do_not_part(replay: Replay, project: Project) -> None:
    sampled(project, talk())
    replay("run", "--old", ".", "--new", ".", "--aa")
    assert json.loads(replay("diff", "--json").out)["cases"][0]["divergence"] is None


def test_a_trial_ends_at_the_turn_that_does_not_end_well(replay: Replay, project: Project) -> None:
    project.write("v2", SHOP.replace('"cancel_order", {"id": 7}', '"cancel_order", {"id": 8}'))
    sampled(project, talk())
    replay("run", "--new", ".")
    [trial] = project.trials()
    assert trial.status is Status.DIVERGED
    assert (trial.reason or "").startswith("at the user's turn 3: cancel_order(id=8): never recorded")
    assert [turn.number for turn in trial.turns] == [2, 3]


def test_a_trace_that_only_carries_the_history_of_others_is_replayed_from_its_own_turn(
    replay: Replay, project: Project
) -> None:
    sampled(project, talk(messages=TALK[:8], input="cancel it", tool_calls=(AGAIN, CANCEL)))
    replay("run", "--new", ".")
    [trial] = project.trials()
    assert (trial.status, trial.final_response, trial.turns) == (Status.OK, "done: cancelled", ())


@pytest.mark.parametrize(
    ("tape", "numbers"),
    [
        ((LOOK, AGAIN, CANCEL), [2, 3, 4]),
        ((AGAIN, CANCEL), [3, 4]),
        ((CANCEL,), [3, 4]),
        ((), [4]),
        ((ToolCall(name="get_order", args={"id": 7}, call_id="other"),), [4]),
    ],
)
def test_turns_whose_calls_were_recorded_are_replayed(tape: tuple[ToolCall, ...], numbers: list[int]) -> None:
    turns = user_turns(TALK[:13], tape)
    assert [turn.number for turn in turns] == numbers
    assert sum(turn.calls for turn in turns) == len(tape)
    assert turns[-1].end == 12


class Scripted:
    """An agent that ends its turns so, one after the other."""

    def __init__(self, *outcomes: Outcome) -> None:
        self._outcomes = list(outcomes)

    async def run(self, item: Item, index: int, line: object = None) -> Outcome:
        return self._outcomes.pop(0)


THREADED = """
TURNS = {}

def call(name, args):
    raise RuntimeError("THE REAL TOOL RAN")

def reply(session_id, message):
    turns = TURNS.setdefault(session_id, [])
    turns.append(message)
    if "where" in message:
        call("get_order", {"id": 7})
    return f"{len(TURNS)} thread: " + " / ".join(turns)

class Agent:
    def __init__(self):
        self.turns = []

    def run(self, text):
        self.turns.append(text)
        return " / ".join(self.turns)
"""


@pytest.mark.parametrize(("entrypoint", "expected"), [("reply", "1 thread: "), ("Agent", "")])
def test_an_agent_that_keeps_the_conversation_has_a_process_for_each_trial(
    replay: Replay, project: Project, entrypoint: str, expected: str
) -> None:
    project.write("v2", THREADED)
    project.settings(SETTINGS.replace("run_agent", entrypoint))
    sampled(project, talk(metadata={"first_turn": 1}))
    assert replay("run", "--new", ".", "--trials", "2", "--set", "run.on_miss=error").code == 0
    for trial in project.trials():
        assert trial.final_response == f"{expected}hello / where is order 7? / cancel it / thanks"
        assert len(trial.turns) == 4


def test_with_history_each_turn_comes_after_what_was_recorded(replay: Replay, project: Project) -> None:
    sampled(project, talk())
    assert replay("run", "--old", "observed", "--new", ".", "--set", "user.turns=history").code == 0
    shown = " ".join(replay("diff", "--verbose").out.split())
    assert "each turn of the user after the recorded history" in shown
    [trial] = [trial for trial in project.trials() if trial.lane == Lane.NEW]
    assert [turn.response for turn in trial.turns[:2]] == ["status: open", "done: cancelled"]
    given = json.loads(trial.final_response or "")
    assert [one["content"] for one in given if one["role"] == "assistant" and one["content"]] == [
        "hello, what can I do?",
        "It is open.",
        "It is cancelled.",
    ]


def test_history_needs_an_agent_that_takes_it(replay: Replay, project: Project) -> None:
    project.write("v2", THREADED)
    project.settings(SETTINGS.replace("run_agent", "reply"))
    sampled(project, talk())
    result = replay("run", "--new", ".", "--set", "user.turns=history")
    assert result.code == 2
    assert 'turns = "history" needs an agent that takes the whole conversation' in result.err


ASKING = """
import json

def call(name, args):
    raise RuntimeError("THE REAL TOOL RAN")

def run_agent(messages, hasty=True):
    text = messages[-1]["content"]
    if "where" in text:
        return "It is " + call("get_order", {"id": 7}) + (". Cancelled." if hasty else ". Shall I cancel it?")
    return "Bye."
"""


def asking() -> Trace:
    """Production asked before it cancelled, and the user replied to that."""
    said = (
        Message(role="user", text="where is order 7?"),
        Message(role="assistant", tool_calls=(LOOK,)),
        Message(role="tool", text="open", tool_call_id="c1"),
        Message(role="assistant", text="It is open. Would you like me to cancel it?"),
        Message(role="user", text="Yes, please."),
        Message(role="assistant", tool_calls=(CANCEL,)),
        Message(role="tool", text="cancelled", tool_call_id="c3"),
        Message(role="assistant", text="Done."),
    )
    calls = (LOOK, CANCEL)
    return talk(messages=said, input="Yes, please.", final_response="Done.", tool_calls=calls)


def test_a_turn_that_replies_to_what_was_not_asked_ends_the_trial_and_is_named(
    replay: Replay, project: Project
) -> None:
    project.write("v2", ASKING)
    sampled(project, asking())
    project.settings(SETTINGS.replace("[versions.hasty]", "[versions.slow]\nargs = { hasty = false }"))
    assert replay("run", "--old", "slow", "--new", ".", "--trials", "1", "--no-aa").code == 0
    old, new = sorted(project.trials(), key=lambda trial: str(trial.lane), reverse=True)
    assert [len(old.turns), len(new.turns)] == [2, 1]
    assert old.misfit is None
    assert new.misfit == "after turn 1: the user answers a question that was not asked (for a confirmation)"
    assert new.status is Status.OK
    document = json.loads(replay("diff", "--json").out)
    [case] = document["cases"]
    [slow], [hasty] = (case["lanes"][lane]["trials"] for lane in ("old", "new"))
    assert hasty["misfit"] == new.misfit
    assert hasty["grades"]["tool_calls"]["score"] == 1, hasty
    assert slow["grades"]["tool_calls"]["reason"].endswith("(user's turn 2)")
    assert [text for text in document["warnings"] if "no longer fits" in text]
    shown = replay("show", "talk", "--run", document["run"]["id"]).out
    assert f"ended {new.misfit}" in " ".join(shown.split())


def test_a_session_is_shown_sampled_and_promoted_as_a_conversation(replay: Replay, project: Project) -> None:
    first, second = (
        talk(
            trace_id=name,
            session_id="s",
            messages=(),
            input=text,
            tool_calls=calls,
            started_at=at,
            final_response=answer,
        )
        for name, text, calls, at, answer in (
            ("one", "where is order 7?", (LOOK,), WHEN, "It is open."),
            ("two", "cancel it", (CANCEL,), WHEN + timedelta(minutes=1), "Cancelled."),
        )
    )
    project.traces([second, first])
    shown = replay("show", "s").out
    assert shown.index("where is order 7?") < shown.index("→ get_order") < shown.index("cancel it")
    drawn = replay("sample", "--name", "talks")
    assert "drawing conversations: 2 traces of sessions join to 1 of several turns" in drawn.err
    assert "talks: 1 of 1 conversations" in drawn.out
    assert replay("run", "--new", "hasty", "--trials", "1").code == 0
    [trial] = project.trials()
    assert (trial.item_id, [turn.calls for turn in trial.turns]) == ("one", [1, 1])
    assert replay("promote", "one").code == 0
    [case] = [json.loads(line) for line in (project.folder / "cases/golden.jsonl").read_text().splitlines()]
    assert case["metadata"]["first_turn"] == 1
    checked = replay("check", "--new", "hasty")
    assert checked.code == 0, checked.out + checked.err
    assert [len(trial.turns) for trial in project.trials()][-1] == 2


def test_a_session_of_two_users_is_left_apart_with_a_sentence(replay: Replay, project: Project) -> None:
    project.traces(
        [
            order(number, session_id="s", user_id=user, started_at=WHEN + timedelta(minutes=number))
            for number, user in enumerate(("ann", "bob"))
        ]
    )
    drawn = replay("sample", "--name", "apart")
    assert (
        "sessions that have traces of several users: 1 (like 's'); their traces are not joined" in drawn.err
    )
    assert "apart: 2 of 2 traces" in drawn.out
