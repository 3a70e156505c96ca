"""Time limits of many trials, kept by one timer.

A timer for each trial, as `asyncio.timeout` starts one, and the future around its reply that this needs took
longer than sending the trial. So the limits are only numbers, which are looked at every so often.
"""

from __future__ import annotations

import asyncio
import math
from typing import Protocol

from replaydiff.replay.agents.reply import TrialReply
from replaydiff.replay.event_loop import Pauses
from replaydiff.replay.model import JsonObject

LOOK_S = 0.05
"""Seconds between two looks: so much later a trial may be ended."""


class TimeLimit(Protocol):
    """When a trial is ended; `asyncio.Timeout` fits."""

    def when(self) -> float | None:
        """Return the time of the event loop at which it is ended; None for never."""

    def expired(self) -> bool:
        """Return whether it was ended."""

    def reschedule(self, when: float) -> None:
        """End it at another time."""


class Deadline:
    """How long a reply is awaited. Fits `TimeLimit`."""

    __slots__ = ("_has_expired", "_when", "reply")

    def __init__(self, when: float, reply: TrialReply) -> None:
        """Set a limit.

        Args:
            when: a time of the event loop, infinite for never.
            reply: gets a TimeoutError at that time.
        """
        self._when, self._has_expired = when, False
        self.reply = reply

    def when(self) -> float:
        """Return the time at which the waiting ends."""
        return self._when

    def expired(self) -> bool:
        """Return whether the time was up before the reply was there."""
        return self._has_expired

    def reschedule(self, when: float) -> None:
        """End the waiting at another time."""
        self._when = when

    def look(self, now: float) -> None:
        """End the waiting if its time is up and no reply is there."""
        if self._when <= now and not self.reply.done():
            self._has_expired = True
            self.reply.set_exception(TimeoutError())


class Deadlines:
    """The deadlines of one agent. Time for which this process itself did not run does not count."""

    def __init__(self) -> None:
        self._pauses = Pauses()
        self._paused_s = 0.0
        self._open: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look at the clock from now on, in the running event loop."""
        self._pauses.start()

    def stop(self) -> None:
        """Look no more."""
        self._pauses.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def open(self, deadline: Deadline) -> None:
        """Keep a deadline from now on."""
        self._open.add(deadline)
        if self._timer is None:
            self._paused_s = self._pauses.seconds()
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def close(self, deadline: Deadline) -> None:
        """Keep a deadline no more."""
        self._open.discard(deadline)

    async def reply(self, deadline: Deadline) -> JsonObject:
        """Wait for the reply of a deadline.

        Raises:
            TimeoutError: there is none in time.
        """
        self.open(deadline)
        try:
            return await deadline.reply
        finally:
            self.close(deadline)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        paused_s = self._pauses.seconds()
        late_s, self._paused_s = paused_s - self._paused_s, paused_s
        now = loop.time()
        for deadline in self._open:
            if late_s:
                deadline.reschedule(deadline.when() + late_s)
            deadline.look(now)
        self._timer = loop.call_later(LOOK_S, self._look) if self._open else None


def after(seconds: float | None, reply: TrialReply) -> Deadline:
    """Return a deadline of a reply so many seconds from now; None for never."""
    when = math.inf if seconds is None else reply.get_loop().time() + seconds
    return Deadline(when, reply)
