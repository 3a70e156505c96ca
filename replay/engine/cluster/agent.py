"""A version whose trials are replayed on a cluster, seen from the driver."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from replaydiff.replay.agents import Outcome, Rules
from replaydiff.replay.agents.attempt import cancelled
from replaydiff.replay.clock import utc_now
from replaydiff.replay.engine.cluster.hosts import Host, HostLostError, Hosts
from replaydiff.replay.engine.cluster.node import AgentFacts, FailedAnswer, ToolQuestion
from replaydiff.replay.llm.base import ModelFailure
from replaydiff.replay.model import Item, Status

if TYPE_CHECKING:
    from replaydiff.replay.gateway.recording import Line

TURNS = 3
"""How many hosts a trial may lose before it counts as crashed."""
_numbers = itertools.count()


class RemoteAgent:
    """Fits `replay.agents.base.Agent`; all agents of a run share the hosts."""

    tools: tuple[str, ...] = ()
    """The tools whose calls are answered, known once it has started."""
    patched: tuple[str, ...] = ()
    """What is patched, as in `app:TOOLS['cancel'].runner`."""
    takes_messages = takes_thread = False
    """It gets the whole conversation, or keeps it under the id that it gets."""
    _packages: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        plan: int,
        rules: Rules,
        open_hosts: Callable[[], Awaitable[dict[int, AgentFacts]]],
        hosts: Callable[[], Hosts | None],
    ) -> None:
        """Start nothing yet.

        Args:
            plan: number of the version's plan.
            rules: with the driver's corpus and simulator.
            open_hosts: starts the hosts, once for all agents, and returns what the agents report.
            hosts: returns the hosts once they are started.
        """
        self._plan, self._rules = plan, rules
        self._open, self._hosts = open_hosts, hosts
        self._background: set[asyncio.Task[None]] = set()
        self._conversations: dict[str, Host] = {}
        """Conversation → the host that its next turn runs on, with the files of the turns before."""
        self._with_files: set[str] = set()
        """Conversations in which a turn wrote files."""

    async def start(self) -> None:
        """Wait until a host has started the version.

        Raises:
            VersionError: it does not start there.
            UnavailableError: there is no host.
        """
        facts = (await self._open())[self._plan]
        self.tools, self.patched, self._packages = facts.tools, facts.patched, facts.packages
        self.takes_messages, self.takes_thread = facts.takes_messages, facts.takes_thread

    def describe(self) -> dict[str, str]:
        """Return interpreter and package versions, as the nodes report them."""
        return dict(self._packages)

    async def close(self) -> None:
        """End the hosts, and so the trials of all versions: they are closed together."""
        hosts = self._hosts()
        if hosts is not None:
            await hosts.close()

    async def run(self, item: Item, index: int, line: Line | None = None) -> Outcome:  # noqa: ARG002
        """Run the item once on a host with a free place; again elsewhere if that host is lost.

        The turns of a conversation run on one host. If it is lost with the files that a turn wrote, the
        trial has crashed.

        Args:
            item: it is sent with its tape.
            index: number of the trial within its lane.
            line: never given: recording is refused at the start.

        Raises:
            ReplayError: no host can be had.
        """
        hosts = self._hosts()
        if hosts is None:
            return cancelled()
        why = ""
        for _ in range(TURNS):
            host = self._conversations.pop(item.conversation, None) or await hosts.take()
            try:
                outcome = await self._run_on(host, item, index)
                if item.conversation:
                    self._conversations[item.conversation] = host
                    if outcome.files:
                        self._with_files.add(item.conversation)
                return outcome
            except HostLostError as lost:
                why = str(lost)
                if item.conversation in self._with_files:
                    reason = f"its node was lost with the files that an earlier turn wrote ({why})"
                    return Outcome(status=Status.CRASHED, reason=reason, started_at=utc_now())
            finally:
                if item.conversation not in self._conversations:
                    hosts.give_back(host)
        reason = f"its node was lost each of {TURNS} times that it ran ({why})"
        return Outcome(status=Status.CRASHED, reason=reason, started_at=utc_now())

    async def end_conversation(self, conversation: str) -> None:
        """Remove the folder of a conversation that has ended, and free its place."""
        self._with_files.discard(conversation)
        host, hosts = self._conversations.pop(conversation, None), self._hosts()
        if host is not None and hosts is not None:
            with contextlib.suppress(HostLostError):
                await host.call("end_conversation", self._plan, conversation)
            hosts.give_back(host)

    async def _run_on(self, host: Host, item: Item, index: int) -> Outcome:
        trial = next(_numbers)
        try:
            event: ToolQuestion | Outcome = await host.call("run", trial, self._plan, item, index)
            while isinstance(event, ToolQuestion):
                answer = await self._answer(item, event)
                event = await host.call("answer", trial, event.number, answer)
            return event
        except HostLostError:
            raise
        except BaseException:
            self._cancel(host, trial)
            raise

    async def _answer(self, item: Item, question: ToolQuestion) -> Any:
        rules = self._rules
        if question.kind == "corpus":
            if rules.corpus is None:
                return None
            recording = rules.corpus.find(item, question.name, question.args, question.writes)
            return await recording if isinstance(recording, Awaitable) else recording
        if rules.simulator is None:
            return FailedAnswer("nothing simulates tools", passing=False)
        try:
            return await rules.simulator.play(
                item, question.name, question.args, question.state, question.before
            )
        except ModelFailure as failure:
            return FailedAnswer(str(failure), passing=failure.passing)

    def _cancel(self, host: Host, trial: int) -> None:
        """Have a trial ended that nobody waits for."""

        async def cancel() -> None:
            with contextlib.suppress(HostLostError):
                await host.call("cancel", trial)

        task = asyncio.get_running_loop().create_task(cancel())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
