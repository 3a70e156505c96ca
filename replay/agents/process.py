"""The process of one worker: a `Child` with two channels, and a pipe by which it ends with its parent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from replaydiff.replay.agents.child import Child, Lines, Tail
from replaydiff.replay.errors import VersionError
from replaydiff.replay.model import JsonObject

WORKER = Path(__file__).resolve().parent.parent / "worker" / "main.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a version's workers are started."""

    python: str
    folder: str
    environment: Mapping[str, str]
    """Beside the command's own."""
    order: JsonObject
    """The worker's first message: entrypoint, factory, tools, args."""
    memory_mb: float | None = None
    """It is ended once it holds more."""


class Process:
    """A running worker process and its channels. Made by `Process.spawn`."""

    _child: Child

    def __init__(self, life: int) -> None:
        self._life = life
        self._tail = Tail()
        self._transports: list[asyncio.BaseTransport] = []
        self._control_closed = asyncio.Event()

    @property
    def ending(self) -> str | None:
        """How it ended: `exit code 3`, `killed by SIGSEGV`; None while it runs."""
        return self._child.ending

    @property
    def killed(self) -> bool:
        """It was ended from here."""
        return self._child.killed

    @classmethod
    async def spawn(
        cls,
        launch: Launch,
        *,
        on_control: Callable[[bytes], None],
        on_tools: Callable[[bytes], None],
        on_end: Callable[[str], None],
    ) -> Process:
        """Start a process. Lines of its two channels are handed on.

        `on_end` is told how it ended, once it has; that may be before this returns.

        Raises:
            VersionError: interpreter or folder cannot be used.
        """
        control, control_theirs = socket.socketpair()
        tools, tools_theirs = socket.socketpair()
        life_theirs, life = os.pipe()
        printed, printed_theirs = os.pipe()
        theirs = (control_theirs.fileno(), tools_theirs.fileno(), life_theirs)
        process = cls(life)
        try:
            process._child = Child.spawn(
                [launch.python, str(WORKER), *map(str, theirs)],
                folder=launch.folder,
                environment=launch.environment,
                stdin=subprocess.DEVNULL,
                stdout=printed_theirs,
                stderr=printed_theirs,
                pass_fds=theirs,
                memory_mb=launch.memory_mb,
                last_words=process._control_closed.wait,
                on_end=on_end,
            )
        except OSError as error:
            control.close()
            tools.close()
            os.close(life)
            os.close(printed)
            raise VersionError(_no_start(launch, error)) from None
        finally:
            control_theirs.close()
            tools_theirs.close()
            os.close(life_theirs)
            os.close(printed_theirs)
        try:
            await process._connect(control, tools, printed, on_control, on_tools)
        except BaseException:
            await process.kill()
            control.close()
            tools.close()
            raise
        return process

    def send_control(self, line: bytes) -> None:
        """Write to the control channel; what a dead process cannot read is dropped."""
        self._control.write(line)

    def send_tools(self, line: bytes) -> None:
        """Write to the tools channel."""
        self._tools.write(line)

    def forget_printed(self) -> None:
        """Start a new tail."""
        self._tail.clear()

    async def printed(self) -> str | None:
        """The end of what was printed since `forget_printed`; None for nothing."""
        # What was printed before a reply is in another pipe, and one round of the loop behind it.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return self._tail.text()

    async def stop(self, grace_s: float) -> None:
        """Let it end by itself for so many seconds, then end it."""
        if self.ending is None:
            self._control.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self._child.gone()
        await self.kill()

    async def kill(self) -> None:
        """End it, its group, and what left the group. Returns when the process is gone."""
        await self._child.kill()
        for transport in self._transports:
            transport.close()
        if self._life >= 0:
            os.close(self._life)
            self._life = -1

    async def _connect(
        self,
        control: socket.socket,
        tools: socket.socket,
        printed: int,
        on_control: Callable[[bytes], None],
        on_tools: Callable[[bytes], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self._control, _ = await loop.create_connection(
            lambda: Lines(on_control, self._control_closed.set), sock=control
        )
        self._tools, _ = await loop.create_connection(lambda: Lines(on_tools), sock=tools)
        output, _ = await loop.connect_read_pipe(lambda: self._tail, os.fdopen(printed, "rb", 0))
        self._transports = [self._control, self._tools, output]


def _no_start(launch: Launch, error: OSError) -> str:
    if error.filename == launch.folder:
        return f"its folder {launch.folder} cannot be used: {error.strerror}; check `path`"
    if error.filename == launch.python:
        return f"its interpreter {launch.python} cannot be started: {error.strerror}; check `python`"
    return f"no more processes can be started: {error.strerror}; run it with less concurrency"
