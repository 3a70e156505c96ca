"""The state of the tape reaches whatever else answers: a corpus, a simulator, a tool that runs, an adapter."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from replaydiff.replay.agents import Outcome, Rules
from replaydiff.replay.agents.attempt import ReplayedTrial
from replaydiff.replay.agents.base import CorpusRecording
from replaydiff.replay.facts import RecordedFacts
from replaydiff.replay.model import Item, Json, JsonObject, MissReason, Rule, ServedCall, Status, ToolCall
from replaydiff.replay.settings import ToolSection
from replaydiff.replay.tape import State
from tests.agents.running import recorded

ACTIVE = recorded("get_order", "active", order_id="7001")
CANCEL = recorded("cancel", "ok", order_id="7001")
READ = ToolSection(effect="read")


@dataclass
class Listening:
    """Fits `Corpus` and `Simulator`: answers nothing or anything, and keeps what it was asked with."""

    writes: list[list[str]] = field(default_factory=list)
    states: list[list[str]] = field(default_factory=list)

    def find(
        self, item: Item, name: str, args: JsonObject, writes: Sequence[ToolCall]
    ) -> CorpusRecording | None:
        self.writes.append([write.name for write in writes])
        return None

    async def play(
        self, item: Item, name: str, args: JsonObject, state: State, before: Sequence[ServedCall]
    ) -> Json:
        self.states.append([key[0] for key in state])
        return "simulated"


def replayed(rules: Rules, tape: tuple[ToolCall, ...], *asked: tuple[str, str]) -> Outcome:
    """Return the outcome of an adapter's trial that makes these calls."""

    async def calls() -> Outcome:
        async with ReplayedTrial(Item(id="i", input="?", tape=tape), rules) as trial:

            async def run() -> str:
                return "ran"

            results: list[Any] = [
                await trial.call_tool(name, {"order_id": order}, run) for name, order in asked
            ]
            trial.respond(" | ".join(map(str, results)))
        return trial.outcome

    return asyncio.run(calls())


ASKED = (("cancel", "7001"), ("get_order", "7001"))


def test_an_adapter_gets_no_answer_from_another_state() -> None:
    outcome = replayed(Rules(timeout_s=5), (ACTIVE, CANCEL), *ASKED)
    assert (outcome.status, outcome.served[-1].miss) == (Status.DIVERGED, MissReason.STALE)
    whole = replayed(
        Rules(timeout_s=5), (ACTIVE, CANCEL, recorded("get_order", "gone", order_id="7001")), *ASKED
    )
    assert whole.final_response == "ok | gone"


def test_other_traces_and_a_simulator_know_what_was_written() -> None:
    listening = Listening()
    rules = Rules(timeout_s=5, tools={"get_order": READ}, corpus=listening, simulator=listening)
    outcome = replayed(rules, (ACTIVE, CANCEL), *ASKED, ("get_order", "8002"))
    assert outcome.final_response == "ok | simulated | simulated"
    assert (listening.writes, listening.states) == ([["cancel"], ["cancel"]], [["cancel"], []])
    assert [served.miss for served in outcome.served] == [None, MissReason.STALE, MissReason.NEVER_RECORDED]


def test_a_tool_that_recordings_show_to_write_is_not_simulated_and_does_not_run() -> None:
    facts = RecordedFacts(effects={"triage": "write"})
    rules = Rules(timeout_s=5, simulator=Listening(), live=("triage",), facts=facts)
    outcome = replayed(rules, (), ("triage", "1"))
    assert [served.rule for served in outcome.served] == [Rule.MISS]


def test_what_a_tool_wrote_that_ran_is_a_state_that_no_recording_has() -> None:
    rules = Rules(timeout_s=5, live=("annotate",))
    outcome = replayed(rules, (ACTIVE,), ("annotate", "7001"), ("get_order", "7001"))
    assert [served.rule for served in outcome.served] == [Rule.LIVE, Rule.MISS]
    assert outcome.served[-1].miss is MissReason.STALE
