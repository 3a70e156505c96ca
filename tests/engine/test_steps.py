"""Step mode: recorded decisions, asked again as they stood."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.engine.steps import decisions
from replaydiff.replay.model import Lane, Message, Mode, Rule, Status, Step, StepKind, ToolCall, Trace
from tests.commands.conftest import Replay
from tests.engine.project import Project, order
from tests.stand_ins.messages_api import Fault, StandIn

SYSTEM = Message(role="system", text="You help with orders. Always look up an order first before you answer.")
ASKED = Message(role="user", text="Where is my order 12345?")
STATUS = '{"order_id": "12345", "status": "shipped"}'
LOOK = ToolCall(name="get_order_status", args={"order_id": "12345"}, call_id="c1", result=STATUS)
LOOKED = Message(role="assistant", tool_calls=(ToolCall(name=LOOK.name, args=LOOK.args, call_id="c1"),))
RESULT = Message(role="tool", text=STATUS, tool_call_id="c1", name="get_order_status")
SAID = Message(role="assistant", text="It is shipped.")
TOOL: Any = {"name": "get_order_status", "description": "", "input_schema": {"type": "object"}}


def trace(number: int = 0, **fields: Any) -> Trace:
    return order(
        number,
        **{
            "input": ASKED.text,
            "messages": (SYSTEM, ASKED, LOOKED, RESULT, SAID),
            "tool_calls": (LOOK,),
            "final_response": SAID.text,
            "model": "claude-haiku-4-5",
            "metadata": {"tools": [TOOL]},
            **fields,
        },
    )


def llm(index: int, messages: tuple[Message, ...], output: Any, **fields: Any) -> Step:
    return Step(index=index, kind=StepKind.LLM, name="chat", messages=messages, output=output, **fields)


def test_the_decisions_of_a_conversation_are_its_assistants_turns() -> None:
    first, second = decisions(trace())
    assert (first.messages, first.text) == ((SYSTEM, ASKED), None)
    assert [(call.name, call.result) for call in first.calls] == [("get_order_status", STATUS)]
    assert (second.messages, second.text, second.calls) == (
        (SYSTEM, ASKED, LOOKED, RESULT),
        "It is shipped.",
        (),
    )


def test_an_answer_that_is_recorded_elsewhere_is_a_decision_too() -> None:
    assert [one.text for one in decisions(trace(messages=(SYSTEM, ASKED, LOOKED, RESULT)))] == [
        None,
        "It is shipped.",
    ]
    assert decisions(trace(messages=())) == []
    assert decisions(trace(messages=(SAID, ASKED), final_response=None)) == []


def test_the_steps_of_a_trace_go_before_its_conversation() -> None:
    asked = {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "function": {"name": "get_order_status", "arguments": "{}"}}],
    }
    steps = (
        llm(0, (ASKED,), asked, model="claude-opus-5-5"),
        Step(index=1, kind=StepKind.TOOL, name="get_order_status", output="shipped"),
        llm(2, (ASKED, LOOKED, RESULT), "It is shipped."),
        llm(3, (), "nothing is known of what it was given"),
        llm(4, (ASKED,), None),
    )
    first, second = decisions(trace(steps=steps))
    assert (first.model, first.messages) == ("claude-opus-5-5", (ASKED,))
    assert [call.name for call in first.calls] == ["get_order_status"]
    assert (second.text, second.model) == ("It is shipped.", None)


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with StandIn(remember=True) as running:
        yield running


@pytest.fixture
def project(replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: StandIn) -> Project:
    project = Project(tmp_path / "shop")
    project.settings(
        f'[agent]\nentrypoint = "no.code:here"\nenv = {{ ANTHROPIC_BASE_URL = "{stand_in.url}" }}\n'
    )
    project.traces([trace(0), trace(1, session_id="s-1")])
    monkeypatch.chdir(project.folder)
    assert replay("sample", "--month", "2026-10", "--name", "october").code == 0
    return project


def test_two_models_are_asked_for_the_next_action_without_agent_code(
    replay: Replay, project: Project, stand_in: StandIn
) -> None:
    versions = ("--old", "messages", "--new", "model=claude-opus-5-5")
    done = replay("run", "--mode", "step", *versions, "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    run = project.run()
    assert (run.mode, document["mode"]) == (Mode.STEP, "step")
    trials = project.trials()
    assert sorted({trial.item_id for trial in trials}) == ["order-0#1", "order-0#2", "order-1#1", "order-1#2"]
    assert len(trials) == 8
    assert {trial.status for trial in trials} == {Status.OK}
    looked = [trial for trial in trials if trial.item_id == "order-0#1" and trial.served]
    assert all(trial.served[0].rule is Rule.TAPE for trial in looked)
    answered = [trial for trial in trials if trial.item_id.endswith("#2")]
    assert all(not trial.served and "shipped" in (trial.final_response or "") for trial in answered)
    assert len(stand_in.received) == 8
    assert {received.body["model"] for received in stand_in.received} == {
        "claude-haiku-4-5",
        "claude-opus-5-5",
    }


def test_what_was_recorded_is_a_lane_and_where_they_part_is_said(
    replay: Replay, tmp_path: Path, project: Project
) -> None:
    faults = [Fault(text="I do not look anything up.")] * 4
    with StandIn(faults=faults) as other:
        project.settings(f'[agent]\nenv = {{ ANTHROPIC_BASE_URL = "{other.url}" }}\n')
        done = replay("run", "--mode", "step", "--old", "observed", "--new", "model=claude-haiku-4-5")
    assert done.code == 0, done.err
    said = 'diverges at decision 1 of order-0: new answers; old get_order_status(order_id="12345")'
    assert said in done.out
    assert "decision 2" not in done.out
    recorded = {trial.item_id: trial for trial in project.trials() if trial.lane == Lane.OLD}
    assert [served.call.name for served in recorded["order-0#1"].served] == ["get_order_status"]
    assert recorded["order-0#1"].final_response is None
    assert (recorded["order-0#2"].served, recorded["order-0#2"].final_response) == ((), "It is shipped.")
    assert replay("diff", "--json").code == 0


def _recorded_without_look_up(replay: Replay, project: Project, number: int = 12) -> None:
    """Trusted recordings of an answer, where today even the model that was recorded calls a tool."""
    project.settings((project.folder / "replay.toml").read_text() + "\n[match]\ntrust = true\n")
    answered = [
        trace(n, messages=(SYSTEM, replace(ASKED, text=f"{ASKED.text} ({n})"), SAID), tool_calls=())
        for n in range(10, 10 + number)
    ]
    project.traces(answered)
    where = ("--where", "trace_id IN (" + ", ".join(f"'{one.trace_id}'" for one in answered) + ")")
    assert replay("sample", "--month", "2026-10", "--name", "moved", *where).code == 0


@pytest.mark.slow
def test_beside_a_recording_its_model_is_called_again_and_is_what_new_is_compared_with(
    replay: Replay, project: Project, stand_in: StandIn
) -> None:
    _recorded_without_look_up(replay, project)
    versions = ("--old", "observed", "--new", "model=claude-haiku-4-5", "--sample", "moved")
    done = replay("run", "--mode", "step", *versions, "--aa", "--trials", "2")
    assert done.code == 0, done.err
    assert "diverges" not in done.out
    assert {str(lane): one.name for lane, one in project.run().lanes.items()} == {
        "old": "messages", "old2": "observed", "new": "model=claude-haiku-4-5",
    }  # fmt: skip
    assert len(stand_in.received) == 12 * 2 * 2
    document = json.loads(replay("diff", "--json").out)
    assert document["answer"] != "HOLD"
    assert document["reason"].endswith("; old is the control: the recorded model, called again")
    assert (document["metrics"]["tool_calls"]["old"], document["metrics"]["tool_calls"]["new"]) == (0.0, 0.0)
    assert sorted(document["lanes"]) == ["new", "old"]
    assert document["items"]["compared"] == 12


def test_a_recording_without_a_control_holds_nothing(replay: Replay, project: Project) -> None:
    _recorded_without_look_up(replay, project)
    versions = ("--old", "observed", "--new", "model=claude-haiku-4-5", "--sample", "moved")
    assert replay("run", "--mode", "step", *versions, "--no-aa", "--trials", "2").code == 0
    document = json.loads(replay("diff", "--json").out)
    assert document["metrics"]["tool_calls"]["delta"] == -1.0
    assert document["answer"] == "CAN'T TELL"
    assert document["reason"].endswith(
        "old is a recording, which always agrees with itself, and this run has no control lane"
    )
    assert "--mode step --sample moved --old observed --new model=claude-haiku-4-5" in document["next"]
    assert document["next"].endswith("--aa")


def test_several_models_are_ranked_by_their_next_actions(replay: Replay, project: Project) -> None:
    news = ("--new", "model=claude-opus-5-5", "--new", "model=claude-haiku-4-5")
    ran = replay("run", "--sample", "october", "--mode", "step", "--old", "observed", *news)
    assert ran.code == 0, ran.err
    done = replay("diff", "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert sorted(one["lane"] for one in document["ranking"]) == ["new", "new2"]
    assert {trial.lane for trial in project.trials()} == {Lane.OLD, Lane.NEW, Lane("new", 2)}
    assert document["items"]["compared"] == 4


def test_a_run_of_steps_is_resumed_as_one(replay: Replay, project: Project, stand_in: StandIn) -> None:
    asked = ("--mode", "step", "--new", "model=claude-haiku-4-5", "--budget", "0")
    replay("run", *asked)
    assert project.trials() == []
    assert replay("run", "--resume", "--budget", "1").code == 0
    assert len(project.trials()) == 4
    assert len(stand_in.received) == 4


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--new", "."), "is code that takes more steps, and step mode asks a model"),
        (("--new", "observed:true"), "is other traces than the items' own"),
        (("--new", "messages", "--cases"), "--mode step repeats recorded decisions, and a case has none"),
    ],
)
@pytest.mark.slow
def test_what_has_no_steps_is_refused(
    replay: Replay, project: Project, args: tuple[str, ...], said: str
) -> None:
    project.settings('[agent]\nentrypoint = "no.code:here"\ntools = []\n')
    done = replay("run", "--mode", "step", *args)
    assert (done.code, project.runs()) == (2, [])
    assert said in done.err


@pytest.mark.slow
def test_traces_without_decisions_are_left_out(replay: Replay, tmp_path: Path, project: Project) -> None:
    project.traces([order(5, messages=()), trace(6)])
    assert replay("sample", "--month", "2026-10", "--name", "more").code == 0
    done = replay("run", "--mode", "step", "--new", "model=claude-haiku-4-5", "--sample", "more")
    assert "note: 1 traces contain no model decision and are left out" in done.err
    assert len(project.trials()) == 6
