"""A program that is spoken to over its standard input and output."""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from io import FileIO
from pathlib import Path

from replaydiff.replay.agents.boundary import Boundary
from replaydiff.replay.agents.folder import TrialFolder
from replaydiff.replay.agents.subprocess import TAIL_BYTES, Child, Tail, started
from replaydiff.replay.model import Blocked
from replaydiff.replay.serving import LARGEST

GUARD = Path(__file__).resolve().parent.parent / "worker" / "guard.py"


class ProgramGuard:
    """A process beside us that ends the programs we started, should we be killed ourselves."""

    def __init__(self) -> None:
        """Start it."""
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", str(GUARD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, group: int) -> None:
        """End this process group when we are gone."""
        self._say(f"+{group}\n")

    def forget(self, group: int) -> None:
        """Forget a group that has ended."""
        self._say(f"-{group}\n")

    def close(self) -> None:
        """End it; nothing is watched any more. May be called twice."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def _say(self, line: str) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            os.write(self._process.stdin.fileno(), line.encode())


class Program:
    """One process of a program. Made by `Program.spawn`."""

    _child: Child
    _stdin: asyncio.WriteTransport | None = None

    def __init__(self, guard: ProgramGuard, on_line: Callable[[bytes], bool] | None) -> None:
        self._guard = guard
        self._complaints = Tail()
        self._output = _Output(on_line)
        self._transports: list[asyncio.BaseTransport] = []
        self._ended = asyncio.Event()

    @classmethod
    async def spawn(
        cls,
        argv: Sequence[str],
        *,
        folder: str,
        environment: Mapping[str, str],
        guard: ProgramGuard,
        memory_mb: float | None = None,
        boundary: Boundary | None = None,
        trial_folder: TrialFolder | None = None,
        on_line: Callable[[bytes], bool] | None = None,
        on_end: Callable[[str], None] = lambda _: None,
    ) -> Program:
        """Start a process.

        Args:
            argv: program and arguments.
            folder: where it runs.
            environment: beside the command's own.
            guard: ends it should we be killed.
            memory_mb: it is ended once it holds more; None for any.
            boundary: what it may reach and change; None: everything.
            trial_folder: its own folder; None where it runs in the version's.
            on_line: gets each line it writes, and says whether the line was meant for it; without it the
                whole output is kept.
            on_end: called with how it ended.

        Raises:
            OSError: program or folder cannot be used.
            VersionError: the kernel refuses its boundary.
        """
        program = cls(guard, on_line)
        confinement = await started(boundary, folder, trial_folder)
        stdin_theirs, stdin = os.pipe()
        stdout, stdout_theirs = os.pipe()
        stderr, stderr_theirs = os.pipe()

        def ended(ending: str) -> None:
            guard.forget(program._child.pid)
            program._ended.set()
            on_end(ending)

        try:
            program._child = Child.spawn(
                argv,
                folder=folder,
                environment=environment,
                stdin=stdin_theirs,
                stdout=stdout_theirs,
                stderr=stderr_theirs,
                memory_mb=memory_mb,
                confinement=confinement,
                last_words=program._output.closed.wait,
                on_end=ended,
            )
        except OSError:
            for descriptor in (stdin, stdout, stderr):
                os.close(descriptor)
            if confinement is not None:
                confinement.close()
            raise
        finally:
            for descriptor in (stdin_theirs, stdout_theirs, stderr_theirs):
                os.close(descriptor)
        guard.watch(program._child.pid)
        files = (os.fdopen(stdin, "wb", 0), os.fdopen(stdout, "rb", 0), os.fdopen(stderr, "rb", 0))
        try:
            if confinement is not None:
                await confinement.open()
            await program._connect(*files)
        except BaseException:
            await program.kill()
            for file in files:
                file.close()
            raise
        return program

    @property
    def alive(self) -> bool:
        """Return whether it can be written to."""
        return self._child.ending is None and not self._child.killed

    @property
    def killed(self) -> bool:
        """Return whether it was ended from here."""
        return self._child.killed

    def take_blocked(self) -> tuple[Blocked, ...]:
        """Return what its boundary refused since this was last asked."""
        refused = self._child.refused
        events = dict.fromkeys(Blocked(what=refusal.destination) for refusal in refused)
        refused.clear()
        return tuple(events)

    @property
    def code(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        return self._child.code

    @property
    def ending(self) -> str | None:
        """Return how it ended; None while it runs."""
        return self._child.ending

    def write(self, data: bytes, *, last: bool = False) -> None:
        """Write to its standard input, and close that after the `last` of it."""
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(data)
            if last:
                self._stdin.write_eof()

    async def wait(self) -> bytes:
        """Return the whole output after the process has ended.

        Raises:
            ValueError: it wrote too much.
        """
        await self._ended.wait()
        return self._output.text()

    async def printed(self) -> str | None:
        """Return the end of what it printed that was no answer."""
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        parts = (self._output.noise.text(), self._complaints.text())
        return "\n".join(part for part in parts if part)[-TAIL_BYTES:] or None

    def forget_printed(self) -> None:
        """Discard the output so far."""
        self._output.noise.clear()
        self._complaints.clear()

    async def stop(self, grace_s: float) -> None:
        """Close its standard input and let it end by itself for so many seconds, then end it."""
        if self._child.ending is None and self._stdin is not None:
            self._stdin.close()
            try:
                async with asyncio.timeout(grace_s):
                    await self._child.gone()
            except TimeoutError:
                pass
        await self.kill()

    async def kill(self) -> None:
        """End it and all that it started."""
        await self._child.kill()
        for transport in self._transports:
            transport.close()

    async def _connect(self, stdin: FileIO, stdout: FileIO, stderr: FileIO) -> None:
        loop = asyncio.get_running_loop()
        self._stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, stdin)
        self._transports.append(self._stdin)
        for file, protocol in ((stdout, self._output), (stderr, self._complaints)):
            transport, _ = await loop.connect_read_pipe(functools.partial(_protocol_itself, protocol), file)
            self._transports.append(transport)


def _protocol_itself(protocol: asyncio.Protocol) -> asyncio.Protocol:
    return protocol


class _Output(asyncio.Protocol):
    """What a program writes: whole, or handed on by the line."""

    def __init__(self, on_line: Callable[[bytes], bool] | None) -> None:
        self.closed = asyncio.Event()
        self.noise = Tail()
        """What was no answer."""
        self._on_line = on_line
        self._unread = bytearray()
        self._too_long = False

    def data_received(self, data: bytes) -> None:
        self._unread += data
        if self._on_line is not None and b"\n" in data:
            *lines, partial_line = bytes(self._unread).split(b"\n")
            self._unread[:] = partial_line
            for line in lines:
                self._hand_on(line)
        if len(self._unread) > LARGEST:
            self._too_long = True
            self._unread.clear()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if self._on_line is not None:
            self._hand_on(bytes(self._unread))
        self.closed.set()

    def text(self) -> bytes:
        if self._too_long:
            raise ValueError("too long")
        return bytes(self._unread)

    def _hand_on(self, line: bytes) -> None:
        if line.strip() and self._on_line is not None and not self._on_line(line):
            self.noise.data_received(line + b"\n")
