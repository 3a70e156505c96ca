"""One try at a trial, as it is seen from here: its tool calls are answered, its end is judged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from replaydiff.replay.agents.base import Outcome
from replaydiff.replay.agents.reading import merge_reported, read_cost, read_usage
from replaydiff.replay.agents.rules import Rules, Simulator
from replaydiff.replay.clock import utc_now
from replaydiff.replay.llm.base import ModelFailure
from replaydiff.replay.messages import canonical_args
from replaydiff.replay.model import Item, JsonObject, Rule, ServedCall, Status, ToolCall
from replaydiff.replay.tape import Tape

AFTER_MISS_S = 5.0
"""Seconds that an agent has to end once its trial was stopped."""


class Attempt:
    """Fits `replay.agents.worker.Trial`. Where a miss stops the trial, nothing that follows it counts."""

    deadline: asyncio.Timeout
    """Ends the waiting for it."""

    def __init__(self, item: Item, rules: Rules) -> None:
        self.began = False
        """It has begun to run."""
        self.stopped: str | None = None
        """Why the trial was stopped at a tool call; None while it was not."""
        self._stopped_as = Status.DIVERGED
        self._item, self._rules = item, rules
        self._tape = Tape(item.tape, rules.ignore_args, rules.ignore_by_tool)
        for served in item.before:
            if served.rule is Rule.TAPE:
                self._tape.answer(served.call.name, served.call.args)
        self._served: list[ServedCall] = []
        self._simulation_usd = 0.0
        self._started_at = utc_now()

    def begin(self) -> None:
        """Its turn has come: from now on its own time runs."""
        self.began = True
        self._started_at = utc_now()
        self._end_at(asyncio.get_running_loop().time() + self._rules.timeout_s)

    def answer(self, call: JsonObject) -> JsonObject | Awaitable[JsonObject]:
        """Answer a tool call by the first rule that applies, and keep it with that rule."""
        if self.stopped is not None:
            return {"stop": self.stopped}
        asked: Any = call
        name, args, rules = asked["name"], asked["args"], self._rules
        answer = self._tape.answer(name, args)
        if answer.recorded is not None:
            return self._serve(name, args, answer.recorded, answer.rule, self._item.trace_id)
        effect = rules.effects.get(name)
        if effect == "read" and rules.corpus is not None:
            found = rules.corpus.find(self._item, name, args, rules.ignored(name))
            if found is not None:
                return self._serve(name, args, found.recorded, Rule.CORPUS, found.trace_id)
        if effect != "write" and name in rules.live:
            self._keep(name, args, Rule.LIVE, answered=False)
            return {"live": len(self._served) - 1}
        if effect != "write" and rules.simulator is not None:
            return self._simulate(rules.simulator, name, args)
        return self._miss(name, args, answer.note or "the tape has no answer")

    def note(self, name: str, args: JsonObject) -> None:
        """Keep a call that is not answered, since the next action is all that is wanted (step mode)."""
        answer = self._tape.answer(name, args)
        recorded = answer.recorded
        self._keep(
            name,
            args,
            answer.rule,
            result=recorded.result if recorded else None,
            error=recorded.error if recorded else None,
            answered=recorded is not None,
            from_trace_id=self._item.trace_id if recorded else None,
            note=answer.note,
        )

    def ran(self, told: JsonObject) -> None:
        """A tool that was let run has given this."""
        message: Any = told
        place, error = message["ran"], message.get("error")
        served = self._served[place]
        call = replace(served.call, result=message.get("result"), error=error, answered=True)
        self._served[place] = replace(served, call=call)

    def ended(self, message: Any, printed: str | None) -> Outcome:
        """The agent has replied."""
        outcome = self._ended(message, printed)
        answered = {served.call.name for served in self._served}
        unpatched = tuple(sign for sign in message.get("unpatched", {}).items() if sign[0] not in answered)
        return replace(outcome, unpatched=unpatched) if unpatched else outcome

    def _ended(self, message: Any, printed: str | None) -> Outcome:
        failed = message.get("failed")
        if failed is not None:
            return self.failed(
                Status(failed["status"]),
                failed["reason"],
                printed,
                latency_ms=message["ms"],
                retry_after_s=failed["retry_after_s"],
            )
        if self.stopped is not None:
            return self._ended_early(message["ms"])
        answer = message["answer"]
        return self._outcome(
            Status.OK,
            final_response=answer["text"],
            served=merge_reported(self._served, answer["tool_calls"], patched=self._rules.patched),
            usage=read_usage(answer["usage"]),
            cost_usd=read_cost(answer["cost_usd"]),
            latency_ms=message["ms"],
        )

    def failed(
        self,
        status: Status,
        reason: str,
        printed: str | None,
        *,
        latency_ms: float | None = None,
        retry_after_s: float | None = None,
    ) -> Outcome:
        """It ended without an answer. One that was stopped before is what it was stopped as."""
        if self.stopped is not None:
            return self._ended_early(latency_ms)
        return self._outcome(
            status, reason=reason, latency_ms=latency_ms, stderr=printed, retry_after_s=retry_after_s
        )

    def _serve(
        self, name: str, args: JsonObject, recorded: ToolCall, rule: Rule, trace_id: str | None
    ) -> JsonObject:
        self._keep(name, args, rule, result=recorded.result, error=recorded.error, from_trace_id=trace_id)
        return {"result": recorded.result} if recorded.error is None else {"error": recorded.error}

    async def _simulate(self, simulator: Simulator, name: str, args: JsonObject) -> JsonObject:
        ignored = self._rules.ignored(name)
        same = canonical_args(args, ignored)
        nth = sum(
            served.rule is Rule.SIMULATED
            and served.call.name == name
            and canonical_args(served.call.args, ignored) == same
            for served in (*self._item.before, *self._served)
        )
        before = (*self._item.before, *self._served)
        # Kept before it is answered, so that calls made at the same time stand in the order of asking.
        place = len(self._served)
        self._keep(name, args, Rule.SIMULATED, answered=False)
        try:
            played = await simulator.play(self._item, name, args, nth, before)
        except ModelFailure as failure:
            return self._stop(f"{name} could not be simulated: {failure}", Status.INFRA_ERROR)
        self._simulation_usd += played.cost_usd
        self.ran({"ran": place, "result": played.result})
        return {"result": played.result}

    def _miss(self, name: str, args: JsonObject, note: str) -> JsonObject:
        if self._rules.on_miss == "error":
            error = f"{name}: no recorded answer for these arguments"
            self._keep(name, args, Rule.MISS, error=error, answered=False, note=note)
            return {"error": error}
        self._keep(name, args, Rule.MISS, answered=False, note=note)
        return self._stop(note, Status.DIVERGED)

    def _stop(self, why: str, status: Status) -> JsonObject:
        self.stopped, self._stopped_as = why, status
        sooner = asyncio.get_running_loop().time() + AFTER_MISS_S
        current = self.deadline.when()
        self._end_at(sooner if current is None else min(sooner, current))
        return {"stop": why}

    def _keep(
        self,
        name: str,
        args: JsonObject,
        rule: Rule,
        *,
        result: Any = None,
        error: str | None = None,
        answered: bool = True,
        from_trace_id: str | None = None,
        note: str | None = None,
    ) -> None:
        index = len(self._served)
        made = ToolCall(name=name, args=args, index=index, result=result, error=error, answered=answered)
        self._served.append(ServedCall(call=made, rule=rule, from_trace_id=from_trace_id, note=note))

    def _ended_early(self, latency_ms: float | None) -> Outcome:
        return self._outcome(self._stopped_as, reason=self.stopped, latency_ms=latency_ms)

    def _outcome(self, status: Status, **fields: Any) -> Outcome:
        return Outcome(
            status=status,
            started_at=self._started_at,
            simulation_usd=self._simulation_usd,
            **{"served": tuple(self._served), **fields},
        )

    def _end_at(self, time: float) -> None:
        # Nobody waits any more where the time was up before its turn came.
        if not self.deadline.expired():
            self.deadline.reschedule(time)


def cancelled() -> Outcome:
    """A trial whose agent was closed under it."""
    return Outcome(status=Status.CANCELLED, reason="it was stopped before it ended", started_at=utc_now())
