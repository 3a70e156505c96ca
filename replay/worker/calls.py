"""The tools channel: a tool call goes out, its answer comes in, from any thread or coroutine of the agent."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import replies

LARGEST_LINE = 64 * 1024 * 1024
"""Bytes of the longest message; a longer answer is the agent's error."""

TRIAL: contextvars.ContextVar[int | None] = contextvars.ContextVar("replay_trial", default=None)
"""The trial that the running code belongs to."""

_RUNNING: contextvars.ContextVar[frozenset[int]] = contextvars.ContextVar("replay_live", default=frozenset())
"""Keys of the tools that are running, since they may: what they call of themselves runs as well."""

REFUSED: dict[int, str] = {}
"""Trial → why it counts for nothing, whatever the agent did with the refusal."""

# Made once: `json.dumps` with a default makes one for every message.
_encode = json.JSONEncoder(default=replies.plain).encode


class Stopped(BaseException):
    """The trial ends at this tool call. No `except Exception` of an agent catches it."""


def encode(message: Any) -> bytes:
    """Return one line of JSON. What is no JSON value is written as `replies.plain` sees it."""
    try:
        text = _encode(message)
    except TypeError:
        text = _encode(replies.with_text_keys(message))
    return text.encode() + b"\n"


def is_running(key: int | None = None) -> bool:
    """Return whether the running code belongs to a tool that may run: this one, or any."""
    return bool(_RUNNING.get()) if key is None else key in _RUNNING.get()


@dataclasses.dataclass
class PatchedCall:
    """A tool call, and what is made of its answer."""

    name: str
    args: dict[str, Any]
    key: int
    """The tool's: while it runs, what it calls of itself runs as well."""
    convert: Callable[[Any], Any] = lambda answer: answer
    """Makes of a recorded result what the replaced function gives; of a generator, a list of its items."""
    fail: Callable[[str], BaseException] = RuntimeError
    """Makes of a recorded error what the replaced function raises."""
    failed: Callable[[str], Any] | None = None
    """Makes of a recorded error what the replaced function gives, where it raises none."""
    runs: bool = False
    """It changes the agent's own state, which no recording holds: once it was answered, it runs."""
    awaits: bool = False
    """The replaced function gives an awaitable, though it is no coroutine function."""
    instead: Any = None
    """Is the answer, and nothing is asked."""


Ask = Callable[[PatchedCall], Any]
"""Answers a call (see `Asking.ask`)."""


class Live:
    """The answer to a call whose tool may run: a context in which it runs, and reports its `result`."""

    def __init__(self, tools: Asking, trial: int | None, index: int | None, key: int) -> None:
        self._tools, self._trial, self._index, self._key = tools, trial, index, key
        self.result: Any = None

    def __enter__(self) -> Live:
        self._token = _RUNNING.set(_RUNNING.get() | {self._key})
        return self

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        # A generator may be ended in another context than it was begun in.
        with contextlib.suppress(ValueError):
            _RUNNING.reset(self._token)
        if self._index is None:
            return
        has_ended = error is None or (isinstance(error, GeneratorExit) and self.result is not None)
        outcome = {"result": self.result} if has_ended else {"error": f"{type(error).__name__}: {error}"}
        self._tools.report({"trial": self._trial, "ran": self._index, **outcome})

    def run(self, function: Callable[[], Any]) -> Any:
        """Run a tool."""
        with self:
            self.result = function()
        return self.result

    async def wait(self, function: Callable[[], Any]) -> Any:
        """Run an async tool."""
        with self:
            self.result = await function()
        return self.result


class Asking:
    """Asks for tools, from any thread or coroutine."""

    def ask(self, call: PatchedCall) -> Any:
        """Return what the replaced function gives, or `Live` where the tool runs.

        Raises:
            BaseException: the recorded error of the tool, as the call has it.
            RuntimeError: the call could not be answered.
            Stopped: the trial ends here.
        """
        if call.instead is not None:
            return call.instead
        trial = self.trial_of(call.name)
        try:
            line = encode({"trial": trial, "name": call.name, "args": call.args})
        except (ValueError, RecursionError) as error:
            raise RuntimeError(f"the arguments of {call.name} cannot be written as JSON: {error}") from None
        if len(line) > LARGEST_LINE:
            raise RuntimeError(f"the arguments of {call.name} are longer than {LARGEST_LINE >> 20} MB")
        answer = json.loads(self.exchange(line, call.name))
        if "stop" in answer:
            raise Stopped(answer["stop"])
        if "error" in answer:
            if call.failed is not None:
                return call.failed(answer["error"])
            raise call.fail(answer["error"])
        if "live" in answer or call.runs:
            return Live(self, trial, answer.get("live"), call.key)
        return call.convert(answer["result"])

    def report(self, message: dict[str, Any]) -> None:
        """Say what a tool gave that ran; nothing is answered. What cannot be written is left out."""
        try:
            line = encode(message)
        except (ValueError, RecursionError):
            return
        if len(line) <= LARGEST_LINE:
            self.send(line)

    def trial_of(self, name: str) -> int | None:
        """Return the trial that a call of this tool belongs to; None where only the worker can know."""
        raise NotImplementedError

    def exchange(self, line: bytes, name: str) -> bytes:
        """Send a call of a trial and return its answer."""
        raise NotImplementedError

    def send(self, line: bytes) -> None:
        """Send what is not answered."""
        raise NotImplementedError

    def refuse(self, reason: str) -> Stopped:
        """Have the running trial count for nothing; what is returned ends it."""
        raise NotImplementedError


class Tools(Asking):
    """The tools channel of a worker: one question and its answer at a time."""

    def __init__(self, channel: socket.socket) -> None:
        """Ask through a channel."""
        self._channel = channel
        self._answers = channel.makefile("rb")
        self._lock = threading.Lock()
        self.parent: Callable[[bytes], bytes] | None = None
        """Where to ask in a process that was forked from this one; None where nothing serves it."""
        self._is_forked = False
        self.running: set[int] = set()
        """Trials that have begun and not ended."""
        self._has_begun = False
        os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        self._is_forked = True

    def begin(self, trial: int) -> None:
        """Begin a trial."""
        self._has_begun = True
        self.running.add(trial)

    def end(self, trial: int) -> None:
        """End a trial."""
        self.running.discard(trial)

    def current_trial(self) -> int | None:
        """Return the trial that the running code belongs to; None where that cannot be known."""
        trial = TRIAL.get()
        if trial is None and len(self.running) == 1 and not self._is_forked:
            # A thread older than the trial; with one trial at a time there is no doubt whose call it is.
            return next(iter(self.running))
        return trial

    def refuse(self, reason: str, trial: int | None = None) -> Stopped:
        """Keep why a trial counts for nothing, by default the running one; what is returned ends it."""
        trial = self.current_trial() if trial is None else trial
        if trial is not None:
            REFUSED.setdefault(trial, reason)
        return Stopped(reason)

    def trial_of(self, name: str) -> int | None:
        """Return the trial that a call of this tool belongs to; None in a forked process that cannot know.

        Raises:
            RuntimeError: it belongs to none.
            Stopped: it belongs to one that is over.
        """
        trial = self.current_trial()
        if self._is_forked:
            return trial
        if trial is None and not self._has_begun:
            raise RuntimeError(
                f"{name} was called before the first trial, while the agent was being made; a function that "
                "makes the agent's tools is not a tool itself: name the tools that it makes, or answer them "
                "with an adapter"
            )
        if trial is None:
            raise RuntimeError(f"{name} was called from a thread that belongs to no trial")
        if trial not in self.running:
            print(f"replay: {name} was called from a thread of an earlier trial; stopped", file=sys.stderr)
            raise Stopped("the trial is over")
        return trial

    def exchange(self, line: bytes, name: str) -> bytes:
        """Send a call of a trial and return its answer."""
        if self._is_forked:
            return self._ask_parent(line, name)
        with self._lock:
            self._channel.sendall(line)
            reply = self._answers.readline()
        if not reply:
            os._exit(1)
        return reply

    def send(self, line: bytes) -> None:
        """Send what is not answered."""
        if self._is_forked:
            self._ask_parent(line, "a tool")
            return
        with self._lock:
            self._channel.sendall(line)

    def _ask_parent(self, line: bytes, name: str) -> bytes:
        try:
            if self.parent is None:
                raise ConnectionError("it serves no other process")
            return self.parent(line)
        except OSError as error:
            raise RuntimeError(
                f"{name} was called in a process that cannot reach the worker ({error}); it was not run"
            ) from None

    def pass_on(self, message: dict[str, Any]) -> bytes:
        """Send what another process sent, and return the answer; `{}` to what the engine does not answer.

        A call belongs to the trial that the process was started in, or to the only one that runs now: a
        process of a pool is older than the trials that it works for.
        """
        if "ran" in message:
            self.report(message)
            return encode({})
        trial, name = message["trial"], message["name"]
        if trial not in self.running and len(self.running) == 1:
            trial = next(iter(self.running))
        if trial not in self.running:
            return encode({"error": f"{name} was called from a process that belongs to no trial"})
        return self.exchange(encode({**message, "trial": trial}), name)


def carry_trial_into_threads() -> None:
    """Start threads with their creator's context, so that their tool calls belong to its trial."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def start_in_context(self: threading.Thread) -> None:
        context, run = contextvars.copy_context(), self.run

        def run_in_context() -> None:
            context.run(run)

        self.run = run_in_context  # type: ignore[method-assign]
        start(self)

    def submit_in_context(self: ThreadPoolExecutor, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        return submit(self, contextvars.copy_context().run, function, *args, **kwargs)

    threading.Thread.start = start_in_context  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = submit_in_context  # type: ignore[method-assign,assignment]
