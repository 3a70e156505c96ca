"""The tools channel: a tool call goes out, its answer comes in, from any thread or coroutine of the agent."""

from __future__ import annotations

import contextlib
import contextvars
import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from . import replies

LARGEST_LINE = 64 * 1024 * 1024
"""Bytes of the longest message; a longer answer is the agent's error."""
LARGEST_LOG = 1024 * 1024
"""Bytes of the call log, after which the calls of trials that have ended are removed from it."""

TRIAL: contextvars.ContextVar[int | None] = contextvars.ContextVar("replay_trial", default=None)
"""The trial that the running code belongs to."""

REFUSED: dict[int, str] = {}
"""Trial → why it counts for nothing, whatever the agent did with the refusal."""

# Made once: `json.dumps` with a default makes one for every message.
_encode = json.JSONEncoder(default=replies.plain).encode
_encode_sorted = json.JSONEncoder(default=replies.plain, sort_keys=True).encode


class Stopped(BaseException):
    """The trial ends at this tool call. No `except Exception` of an agent catches it."""


def encode(message: Any, answered_here: list[str] | None = None) -> bytes:
    """Return one line of JSON. What is no JSON value is written as `replies.plain` sees it.

    Args:
        message: an object.
        answered_here: texts of calls, which it gets as the field `given`; None for no such field.
    """
    try:
        text = _encode(message)
    except TypeError:
        text = _encode(replies.with_text_keys(message))
    if answered_here is not None:
        text = f'{text[:-1]}, "given": [{", ".join(answered_here)}]}}'
    return text.encode() + b"\n"


class Live:
    """The answer to a call whose tool may run: the caller runs it and reports the result."""

    def __init__(self, tools: Asking, trial: int | None, index: int) -> None:
        self._tools, self._trial, self._index = tools, trial, index

    def run(self, function: Callable[[], Any]) -> Any:
        """Run a tool."""
        try:
            result = function()
        except BaseException as error:
            self._report(error=f"{type(error).__name__}: {error}")
            raise
        self._report(result=result)
        return result

    async def wait(self, running: Any) -> Any:
        """Run an async tool."""
        try:
            result = await running
        except BaseException as error:
            self._report(error=f"{type(error).__name__}: {error}")
            raise
        self._report(result=result)
        return result

    @contextlib.contextmanager
    def collecting(self, items: list[Any]) -> Iterator[None]:
        """Run a tool that gives its result item by item."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, GeneratorExit):
                self._report(result=items)
            else:
                self._report(error=f"{type(error).__name__}: {error}")
            raise
        self._report(result=items)

    def _report(self, **outcome: Any) -> None:
        self._tools.report({"trial": self._trial, "ran": self._index, **outcome})


class Asking:
    """Asks for tools, from any thread or coroutine."""

    def ask(
        self, name: str, args: dict[str, Any], fail: Callable[[str], BaseException] = RuntimeError
    ) -> Any:
        """What the tool answers, or `Live` where it may run.

        Args:
            name: of the tool.
            args: of the call.
            fail: makes the exception of the tool's recorded error.

        Raises:
            RuntimeError: the recorded error of the tool, or the call could not be answered.
            Stopped: the trial ends here.
        """
        trial = self.trial_of(name)
        answer = self.answer_here(trial, name, args)
        try:
            line = b"" if answer else encode({"trial": trial, "name": name, "args": args})
        except (ValueError, RecursionError) as error:
            raise RuntimeError(f"the arguments of {name} cannot be written as JSON: {error}") from None
        if len(line) > LARGEST_LINE:
            raise RuntimeError(f"the arguments of {name} are longer than {LARGEST_LINE >> 20} MB")
        if answer is None:
            answer = json.loads(self.exchange(line, trial, name))
        if "stop" in answer:
            self.forget_recordings(trial)
            raise Stopped(answer["stop"])
        if "error" in answer:
            raise fail(answer["error"])
        if "live" in answer:
            return Live(self, trial, answer["live"])
        return answer["result"]

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

    def answer_here(self, trial: int | None, name: str, args: dict[str, Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Return the answer to a call that need not be asked for; None for any other."""
        return None

    def forget_recordings(self, trial: int | None) -> None:
        """Ask for every further call of a trial."""

    def exchange(self, line: bytes, trial: int | None, name: str) -> bytes:
        """Send a call of a trial and return its answer."""
        raise NotImplementedError

    def send(self, line: bytes) -> None:
        """Send what is not answered."""
        raise NotImplementedError

    def refuse(self, reason: str) -> Stopped:
        """Have the running trial count for nothing; what is returned ends it."""
        raise NotImplementedError


class Parent(Protocol):
    """How a forked process asks (see `children.Connection`)."""

    def ask(self, line: bytes) -> bytes:
        """Send a line to the worker and return its answer."""


class Tools(Asking):
    """The tools channel of a worker: one question and its answer at a time."""

    def __init__(self, channel: socket.socket, log: int) -> None:
        """Ask through a channel.

        Args:
            channel: the socket.
            log: file descriptor of the call log, which has every call that is answered here: the engine
                reads it where this process ends before it has reported them.
        """
        self._channel, self._log = channel, log
        self._answers = channel.makefile("rb")
        self._lock = threading.Lock()
        self.parent: Parent | None = None
        """Where to ask in a process that was forked from this one; None where nothing serves it."""
        self._is_forked = False
        self.running: set[int] = set()
        """Trials that have begun and not ended."""
        self._has_begun = False
        self._recorded: dict[int, dict[str, dict[str, list[Any]]]] = {}
        """Trial → tool → arguments as sorted JSON text → answers that are left, the first one last."""
        self._given: dict[int, list[str]] = {}
        """Trial → the calls that were answered here, as JSON text."""
        self._reported: dict[int, int] = {}
        """Trial → how many of these were reported."""
        self._logged, self._log_limit = 0, LARGEST_LOG
        """Bytes in the call log, and how many it may have before it is written anew."""
        os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        self._is_forked = True
        self._recorded.clear()

    def begin(self, trial: int, tape: list[Any]) -> None:
        """Begin a trial; `tape` has the recordings with which its calls may be answered here."""
        self._has_begun = True
        self.running.add(trial)
        if tape:
            recorded: dict[str, dict[str, list[Any]]] = {}
            for name, args, answer in reversed(tape):
                recorded.setdefault(name, {}).setdefault(_encode_sorted(args), []).append(answer)
            self._recorded[trial] = recorded

    def end(self, trial: int) -> list[str]:
        """End a trial; return its calls that were answered here and not reported, each as JSON text."""
        self.running.discard(trial)
        with self._lock:
            self._recorded.pop(trial, None)
            return self._given.pop(trial, [])[self._reported.pop(trial, 0) :]

    def answer_here(self, trial: int | None, name: str, args: dict[str, Any]) -> dict[str, Any] | None:
        """Answer a call that was recorded with the very same arguments, and keep it to be reported.

        The engine finds the same recording. Once a call of a tool was asked for, all of them are, since the
        engine may have used up any of the tool's recordings.
        """
        if trial not in self._recorded:
            return None
        try:
            text = _encode_sorted(args)
        except (TypeError, ValueError, RecursionError):
            text = ""
        with self._lock:
            by_tool = self._recorded.get(trial, {})
            unused = by_tool.get(name, {}).get(text)
            if not unused:
                by_tool.pop(name, None)
                return None
            self._keep_call(trial, f'{{"name": {_encode(name)}, "args": {text}}}')
            answer: dict[str, Any] = unused.pop()
            return answer

    def _keep_call(self, trial: int, call: str) -> None:
        """Keep a call that is answered here until it is reported, and where it outlives this process."""
        self._given.setdefault(trial, []).append(call)
        if self._logged > self._log_limit:
            os.ftruncate(self._log, 0)
            os.lseek(self._log, 0, os.SEEK_SET)
            lines = "".join(f"{number} {text}\n" for number, calls in self._given.items() for text in calls)
            self._logged = 0
            self._log_limit = LARGEST_LOG + 2 * len(lines)
        else:
            lines = f"{trial} {call}\n"
        self._logged += os.write(self._log, lines.encode())

    def _unreported(self, trial: int | None) -> bytes:
        """Return a line with the calls that are to be known before the next one is answered, or nothing."""
        if trial is None:
            return b""
        answered = self._given.get(trial, [])
        calls = answered[self._reported.get(trial, 0) :]
        if not calls:
            return b""
        self._reported[trial] = len(answered)
        return f'{{"given": [{", ".join(calls)}], "trial": {trial}}}\n'.encode()

    def forget_recordings(self, trial: int | None) -> None:
        """Ask for every further call of a trial."""
        with self._lock:
            self._recorded.pop(trial, None)  # type: ignore[arg-type]

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

    def exchange(self, line: bytes, trial: int | None, name: str) -> bytes:
        """Send a call of a trial and return its answer."""
        if self._is_forked:
            return self._ask_parent(line, name)
        with self._lock:
            self._channel.sendall(self._unreported(trial) + line)
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
            return self.parent.ask(line)
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
        self.forget_recordings(trial)
        return self.exchange(encode({**message, "trial": trial}), trial, name)


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
