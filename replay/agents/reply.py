"""The reply to a trial, or to several, as the task that sent them awaits it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from replaydiff.replay.model import JsonObject


class TrialReply:
    """A future that wakes its only waiter within the call that sets the result.

    `asyncio.Future` wakes it in the next round of the event loop: a look at every socket for each trial. This
    is the interface by which a task awaits any future that is not asyncio's own (`asyncio.isfuture`).
    """

    __slots__ = ("_asyncio_future_blocking", "_context", "_error", "_loop", "_message", "_wake")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Wait for nothing yet.

        Args:
            loop: the event loop of the waiter; None for the running one, which is a system call to find out.
        """
        self._asyncio_future_blocking = False
        self._loop = loop or asyncio.get_running_loop()
        self._message: JsonObject | None = None
        self._error: BaseException | None = None
        self._wake: Callable[[TrialReply], object] | None = None
        self._context: contextvars.Context | None = None

    def __await__(self) -> Generator[TrialReply, None, JsonObject]:
        """Wait for the message.

        Raises:
            TimeoutError, WorkerDied: what was set in its place.
        """
        if not self.done():
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    @property
    def message(self) -> JsonObject | None:
        """The message, if there is one."""
        return self._message

    def done(self) -> bool:
        """Return whether there is a message or an error."""
        return self._message is not None or self._error is not None

    def set_result(self, message: JsonObject) -> None:
        """Set the message and have the waiter go on before this returns.

        To be called from a callback of the event loop, not from a task: one task cannot run within another.
        """
        self._message = message
        if self._wake is not None and self._context is not None:
            self._context.run(self._wake, self)

    def set_exception(self, error: BaseException) -> None:
        """Set an error; the waiter gets it in the next round of the event loop."""
        self._error = error
        if self._wake is not None:
            self._loop.call_soon(self._wake, self, context=self._context)

    def result(self) -> JsonObject:
        """Return the message.

        Raises:
            TimeoutError, WorkerDied: what was set in its place.
            InvalidStateError: there is neither.
        """
        if self._error is not None:
            raise self._error
        if self._message is None:
            raise asyncio.InvalidStateError("there is no reply yet")
        return self._message

    def cancel(self, msg: Any = None) -> bool:
        """Wake the waiter with CancelledError; return whether there was no result yet."""
        if self.done():
            return False
        self.set_exception(asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg))
        return True

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the waiter."""
        return self._loop

    def add_done_callback(
        self, wake: Callable[[TrialReply], object], *, context: contextvars.Context | None = None
    ) -> None:
        """Take what wakes the waiter; a task calls this where it awaits."""
        self._wake, self._context = wake, context or contextvars.copy_context()


T = TypeVar("T")


class Replies(Generic[T]):
    """The replies to several trials, and what was made of them, which one task awaits."""

    def __init__(self) -> None:
        """Wait for nothing yet; must be called in a running event loop."""
        self.loop = asyncio.get_running_loop()
        """The event loop of the waiter."""
        self._arrived: list[tuple[int, T | None]] = []
        self._waiting: asyncio.Future[None] | None = None

    def add(self, number: int, result: T | None = None) -> None:
        """Add the number of a trial that has a reply, with what was made of it if that is known."""
        self._arrived.append((number, result))
        if self._waiting is not None and not self._waiting.done():
            # The waiter goes on in the next round of the event loop: with all replies that came with this.
            self._waiting.set_result(None)

    def arrived(self) -> list[tuple[int, T | None]]:
        """Return what was added since the last call."""
        arrived, self._arrived = self._arrived, []
        return arrived

    async def next(self) -> list[tuple[int, T | None]]:
        """Return what was added since the last call, once there is something."""
        if not self._arrived:
            self._waiting = self.loop.create_future()
            await self._waiting
        return self.arrived()


class GroupReply(TrialReply):
    """A reply that is awaited together with others."""

    __slots__ = ("_number", "_replies")

    def __init__(self, replies: Replies[Any], number: int) -> None:
        """Wait for nothing yet.

        Args:
            replies: gets the number once there is a message or an error.
            number: the number of the trial.
        """
        super().__init__(replies.loop)
        self._replies, self._number = replies, number

    def set_result(self, message: JsonObject) -> None:
        """Set the message."""
        self._message = message
        self._replies.add(self._number)

    def set_exception(self, error: BaseException) -> None:
        """Set an error."""
        self._error = error
        self._replies.add(self._number)
