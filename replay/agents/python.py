"""A Python agent: its entrypoint runs in worker processes, its tools are answered from the tape here.

What happened to a trial is decided on this side, so a worker that hangs or dies cannot hide it: tool calls
are counted as they are answered, and a miss makes the trial `diverged` whatever the agent does next.

An async agent runs many trials in one process, and one of them can take the others down with it. Whose fault
that was cannot be told, so all that were running are run again, each alone in a process of its own; what
happens there is that trial's own doing.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from replay.agents.base import Outcome
from replay.agents.pool import Pool
from replay.agents.process import Launch
from replay.agents.reading import as_chat, merge_reported, read_cost, read_usage
from replay.agents.worker import Worker, WorkerDied
from replay.errors import VersionError
from replay.model import Item, JsonObject, ServedCall, Status, ToolCall, Version
from replay.settings import Tool
from replay.tape import Tape

AFTER_MISS_S = 5.0
"""Seconds that an agent has to end once its trial was stopped."""
AFTER_CANCEL_S = 2.0
"""Seconds that an async agent has to give up a trial before its process is ended."""
ALONE_LIMIT = 4
"""The most processes for trials that are run again alone."""


class PythonAgent:
    """The adapter of `VersionKind.PYTHON`."""

    def __init__(
        self,
        version: Version,
        *,
        timeout_s: float,
        concurrency: int,
        on_miss: Literal["stop", "error"],
        ignore_args: Collection[str],
        tools: Mapping[str, Tool],
    ) -> None:
        self._version = version
        self._concurrency = concurrency
        self.timeout_s, self.on_miss, self.ignore_args = timeout_s, on_miss, ignore_args
        self.ignore_by_tool = {name: tool.ignore_args for name, tool in tools.items() if tool.ignore_args}
        self._launch = Launch(
            python=_absolute(version.python) if version.python else sys.executable,
            folder=version.path or str(Path.cwd()),
            environment=version.env,
            order={
                "entrypoint": version.entrypoint or "",
                "factory": version.factory,
                "tools": list(version.tools),
                "args": version.args,
            },
        )
        self._numbers = itertools.count()
        self._shared: Pool | None = None
        self._alone: Pool | None = None
        self._takes = "text"
        self._packages: dict[str, str] = {}

    async def start(self) -> None:
        """Start the first worker, which imports the agent."""
        began = time.monotonic()
        try:
            first = await Worker.start(self._launch, report_packages=True)
        except VersionError as error:
            raise VersionError(f"version {self._version.name!r} does not start: {error}") from None
        self._takes, self._packages = first.takes, first.versions
        start_s = time.monotonic() - began
        if first.mode == "async":
            self._shared = Pool(self._new_worker, seats=self._concurrency, limit=1, start_s=start_s)
            self._alone = Pool(self._new_worker, seats=1, limit=ALONE_LIMIT, start_s=start_s)
        else:
            self._shared = Pool(self._new_worker, seats=1, limit=self._concurrency, start_s=start_s)
        self._shared.add(first)

    def describe(self) -> dict[str, str]:
        """Interpreter and package versions, as the first worker reported them."""
        return dict(self._packages)

    async def close(self) -> None:
        """End all workers."""
        for pool in (self._shared, self._alone):
            if pool is not None:
                await pool.close()

    async def run(self, item: Item, index: int) -> Outcome:  # noqa: ARG002
        """Run the item once. `index` makes no difference to a Python agent."""
        pool = self._shared
        try:
            while pool is not None:
                async with pool.seat() as worker:
                    outcome = await self._attempt(item, worker)
                if isinstance(outcome, Outcome):
                    return outcome
                if outcome is _Lost.SUSPECT and self._alone is not None:
                    pool = self._alone
        except VersionError as error:
            reason = f"no worker could be started: {error}"
            return Outcome(status=Status.INFRA_ERROR, reason=reason, started_at=_now())
        raise RuntimeError("the agent was not started")

    async def _new_worker(self) -> Worker:
        return await Worker.start(self._launch)

    async def _attempt(self, item: Item, worker: Worker) -> Outcome | _Lost:
        """One try at one worker, or why it says nothing about this trial."""
        number = next(self._numbers)
        attempt = _Attempt(self, item)
        request: JsonObject = (
            {"messages": as_chat(item)} if self._takes == "messages" else {"input": item.input}
        )
        try:
            # Until its turn comes, each trial before it in the same process may take its full time.
            async with asyncio.timeout(self.timeout_s * (worker.in_flight + 1)) as attempt.deadline:
                message: Any = await worker.begin(number, request, attempt)
        except TimeoutError:
            if not await self._give_up(worker, number) and not attempt.stopped:
                return _Lost.SUSPECT if attempt.began else _Lost.BYSTANDER
            reason = f"no answer within {self.timeout_s:g} seconds"
            return attempt.outcome(Status.TIMEOUT, reason, stderr=await worker.printed())
        except WorkerDied as died:
            if not died.alone and not attempt.stopped:
                return _Lost.SUSPECT if died.began else _Lost.BYSTANDER
            return attempt.outcome(
                Status.CRASHED, f"the agent's process ended: {died}", stderr=await worker.printed()
            )
        except asyncio.CancelledError:
            await self._abandon(worker, number)
            raise
        failed = message.get("failed")
        if failed is None:
            return attempt.answered(message, patched=bool(self._version.tools))
        return attempt.outcome(
            Status(failed["status"]),
            failed["reason"],
            stderr=await worker.printed(),
            latency_ms=message["ms"],
            retry_after_s=failed["retry_after_s"],
        )

    async def _give_up(self, worker: Worker, number: int) -> bool:
        """End a trial that took too long. True where it is certain that it was its own fault."""
        if worker.mode == "async":
            try:
                async with asyncio.timeout(AFTER_CANCEL_S):
                    await worker.cancel(number)
                return True
            except TimeoutError:
                pass
            except WorkerDied as died:
                return died.alone
        # Trials caught in the same hang come here too, once the first of them is ending the process.
        alone = worker.alive and worker.in_flight == 1
        worker.forget(number)
        await worker.kill()
        return alone

    async def _abandon(self, worker: Worker, number: int) -> None:
        """End a trial that nobody wants any more, without waiting longer than a moment."""
        if worker.mode == "async" and worker.alive:
            worker.cancel(number)
            worker.forget(number)
        else:
            worker.forget(number)
            await worker.kill()


class _Lost(Enum):
    """Why an attempt says nothing about its trial."""

    SUSPECT = "its process was lost while it and others were running"
    BYSTANDER = "its process was lost before its turn"


class _Attempt:
    """One try at a trial: answers its tool calls, and says in the end what it came to."""

    def __init__(self, agent: PythonAgent, item: Item) -> None:
        self.deadline: asyncio.Timeout
        self.began = False
        self.stopped: str | None = None
        """Why the trial was stopped at a tool call; None while it was not."""
        self._agent, self._item = agent, item
        self._tape = Tape(item.tape, agent.ignore_args, agent.ignore_by_tool)
        self._served: list[ServedCall] = []
        self._started_at = _now()

    def begin(self) -> None:
        """Its turn has come: from now on its own time runs."""
        self.began = True
        self._started_at = _now()
        self._end_within(self._agent.timeout_s)

    def answer(self, call: JsonObject) -> JsonObject:
        """Answer a tool call from the tape, and keep it with how it was answered."""
        if self.stopped is not None:
            return {"stop": self.stopped}
        asked: Any = call
        name, args = asked["name"], asked["args"]
        made = ToolCall(name=name, args=args, index=len(self._served))
        answer = self._tape.answer(name, args)
        recorded = answer.recorded
        if recorded is not None:
            made = replace(made, result=recorded.result, error=recorded.error)
            self._served.append(ServedCall(call=made, rule=answer.rule, from_trace_id=self._item.trace_id))
            return {"result": recorded.result} if recorded.error is None else {"error": recorded.error}
        if self._agent.on_miss == "error":
            error = f"{name}: no recorded answer for these arguments"
            made = replace(made, error=error, answered=False)
            self._served.append(ServedCall(call=made, rule=answer.rule, note=answer.note))
            return {"error": error}
        self._served.append(
            ServedCall(call=replace(made, answered=False), rule=answer.rule, note=answer.note)
        )
        self.stopped = answer.note or "the tape has no answer"
        self._end_within(AFTER_MISS_S)
        return {"stop": self.stopped}

    def answered(self, message: Any, *, patched: bool) -> Outcome:
        """The agent returned an answer."""
        answer = message["answer"]
        served = merge_reported(self._served, answer["tool_calls"], patched=patched)
        return self.outcome(
            Status.OK,
            None,
            final_response=answer["text"],
            served=served,
            usage=read_usage(answer["usage"]),
            cost_usd=read_cost(answer["cost_usd"]),
            latency_ms=message["ms"],
        )

    def outcome(self, status: Status, reason: str | None, **more: Any) -> Outcome:
        """What the attempt came to: `status`, unless it was stopped at a tool call before."""
        if self.stopped is not None:
            kept = {name: more[name] for name in ("latency_ms", "usage", "cost_usd") if name in more}
            return Outcome(
                status=Status.DIVERGED,
                reason=self.stopped,
                served=tuple(self._served),
                started_at=self._started_at,
                **kept,
            )
        return Outcome(
            status=status,
            reason=reason,
            started_at=self._started_at,
            **{"served": tuple(self._served), **more},
        )

    def _end_within(self, seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        current = self.deadline.when()
        self.deadline.reschedule(end if current is None or not self.stopped else min(end, current))


def _absolute(python: str) -> str:
    """A path seen from here, since the worker starts in another folder; a bare name stays one."""
    # Not resolved: the link of a virtual environment is what makes its interpreter its own.
    return str(Path.cwd() / python) if "/" in python else python


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
