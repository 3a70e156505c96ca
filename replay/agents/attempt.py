"""One try at a trial, as it is seen from here: its tool calls are answered, its end is judged."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from replay.agents.base import Outcome
from replay.agents.reading import merge_reported, read_cost, read_usage
from replay.model import Item, JsonObject, ServedCall, Status, ToolCall
from replay.tape import Tape

AFTER_MISS_S = 5.0
"""Seconds that an agent has to end once its trial was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for every trial of a version."""

    timeout_s: float
    on_miss: Literal["stop", "error"]
    ignore_args: Collection[str]
    ignore_by_tool: Mapping[str, Collection[str]]
    patched: bool
    """The version has patch points."""


class Attempt:
    """Fits `replay.agents.worker.Trial`. Where a miss stops the trial, nothing that follows it counts."""

    deadline: asyncio.Timeout
    """Ends the waiting for it."""

    def __init__(self, item: Item, rules: Rules) -> None:
        self.began = False
        """The worker has begun to run it."""
        self.stopped: str | None = None
        """Why the trial was stopped at a tool call; None while it was not."""
        self._item, self._rules = item, rules
        self._tape = Tape(item.tape, rules.ignore_args, rules.ignore_by_tool)
        self._served: list[ServedCall] = []
        self._started_at = now()

    def begin(self) -> None:
        """Its turn has come: from now on its own time runs."""
        self.began = True
        self._started_at = now()
        self._end_at(asyncio.get_running_loop().time() + self._rules.timeout_s)

    def answer(self, call: JsonObject) -> JsonObject:
        """Answer a tool call from the tape, and keep it with how it was answered."""
        if self.stopped is not None:
            return {"stop": self.stopped}
        asked: Any = call
        name, args, index = asked["name"], asked["args"], len(self._served)
        answer = self._tape.answer(name, args)
        recorded = answer.recorded
        if recorded is not None:
            made = ToolCall(name=name, args=args, index=index, result=recorded.result, error=recorded.error)
            self._served.append(ServedCall(call=made, rule=answer.rule, from_trace_id=self._item.trace_id))
            return {"result": recorded.result} if recorded.error is None else {"error": recorded.error}
        error = None if self._rules.on_miss == "stop" else f"{name}: no recorded answer for these arguments"
        made = ToolCall(name=name, args=args, index=index, error=error, answered=False)
        self._served.append(ServedCall(call=made, rule=answer.rule, note=answer.note))
        if error is not None:
            return {"error": error}
        self.stopped = answer.note or "the tape has no answer"
        sooner = asyncio.get_running_loop().time() + AFTER_MISS_S
        current = self.deadline.when()
        self._end_at(sooner if current is None else min(sooner, current))
        return {"stop": self.stopped}

    def ended(self, message: Any, printed: str | None) -> Outcome:
        """The worker has replied."""
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
            return self._diverged(message["ms"])
        answer = message["answer"]
        return Outcome(
            status=Status.OK,
            final_response=answer["text"],
            served=merge_reported(self._served, answer["tool_calls"], patched=self._rules.patched),
            usage=read_usage(answer["usage"]),
            cost_usd=read_cost(answer["cost_usd"]),
            latency_ms=message["ms"],
            started_at=self._started_at,
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
        """It ended without an answer. One that was stopped before is `diverged`, however it ended then."""
        if self.stopped is not None:
            return self._diverged(latency_ms)
        return Outcome(
            status=status,
            reason=reason,
            served=tuple(self._served),
            latency_ms=latency_ms,
            started_at=self._started_at,
            stderr=printed,
            retry_after_s=retry_after_s,
        )

    def _diverged(self, latency_ms: float | None) -> Outcome:
        return Outcome(
            status=Status.DIVERGED,
            reason=self.stopped,
            served=tuple(self._served),
            latency_ms=latency_ms,
            started_at=self._started_at,
        )

    def _end_at(self, time: float) -> None:
        # Nobody waits any more where the time was up before its turn came.
        if not self.deadline.expired():
            self.deadline.reschedule(time)


def now() -> datetime:
    """Naive UTC."""
    return datetime.now(UTC).replace(tzinfo=None)
