"""Processes of `replay` and pytest for tests: real ones, but without a second of imports each."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO

from tests.stand_ins import warm, watchdog

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0
"""How long a test waits for what must come: it ends a test that hangs, and measures nothing."""
_SHARED = "REPLAYDIFF_TEST_WARM_PROCESS"
"""Environment variable with the address of a warm process that others share."""
_ENVIRONMENT = dict(os.environ)
"""As it is before any test: what a test sets is not for the process that later tests use."""
_READ_AT_START = ("PYTHON", "LC_", "LANG=", "LANGUAGE=", "LD_")
"""Beginnings of variables (NAME=) that an interpreter reads when it starts: another value needs a start.

The warm one knows PYTHONPATH all the same.
"""


def replay(
    folder: Path,
    *words: str,
    env: Mapping[str, str] | None = None,
    stdin: str | bytes = "",
    program: str = "replay",
) -> subprocess.CompletedProcess[str]:
    """Run `replay WORDS` to its end in a folder.

    Args:
        env: the whole environment; by default the one of this process.
    """
    process = start(folder, *words, env=env, program=program)
    text = stdin if isinstance(stdin, str) else stdin.decode(errors="surrogateescape")
    out, err = process.communicate(text, PATIENCE_S)
    assert process.returncode is not None
    return subprocess.CompletedProcess([program, *words], process.returncode, out, err)


def start(
    folder: Path,
    *words: str,
    env: Mapping[str, str] | None = None,
    program: str = "replay",
    session: bool = False,
) -> Process | subprocess.Popen[str]:
    """Start `replay WORDS` in a folder, with pipes for its three streams.

    Args:
        program: `replay`, `pytest`, or `python` with the words `-c CODE …`.
        session: whether it leads a session of its own.
    """
    env = dict(os.environ) if env is None else dict(env)
    if _as_here(env):
        return Process(folder, program, words, env, session=session)
    module = {"replay": ["-m", "replaydiff"], "pytest": ["-m", "pytest"], "python": []}[program]
    return subprocess.Popen(
        [sys.executable, *module, *words],
        cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=session,
    )  # fmt: skip


def _as_here(env: Mapping[str, str]) -> bool:
    """Whether an interpreter would start with `env` as this one did."""
    names = {name for name in (*env, *_ENVIRONMENT) if f"{name}=".startswith(_READ_AT_START)} - {"PYTHONPATH"}
    return all(env.get(name) == _ENVIRONMENT.get(name) for name in names)


class Process:
    """A process forked off the warm one; as far as it goes, it behaves as `subprocess.Popen` with text pipes."""

    def __init__(
        self, folder: Path, program: str, words: tuple[str, ...], env: dict[str, str],
        streams: tuple[int, int, int] | None = None, session: bool = False,
    ) -> None:  # fmt: skip
        """Start it.

        Args:
            streams: descriptors for its input, output and error in place of pipes.
            session: whether it leads a session, so that a terminal it opens controls it.
        """
        self.args = [program, *words]
        self.returncode: int | None = None
        self.stdin: IO[str] | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        request = {"program": program, "args": words, "cwd": str(folder), "env": env, "session": session}
        theirs = streams or self._pipes()
        self._connection = warm.Connection(warm_process(), request, theirs)
        self.pid = self._connection.pid
        if streams is None:
            for descriptor in theirs:
                os.close(descriptor)

    def _pipes(self) -> tuple[int, int, int]:
        (read_in, write_in), (read_out, write_out), (read_err, write_err) = os.pipe(), os.pipe(), os.pipe()
        self.stdin, self.stdout, self.stderr = (
            os.fdopen(write_in, "w", errors="surrogateescape"),
            os.fdopen(read_out),
            os.fdopen(read_err),
        )
        return read_in, write_out, write_err

    def poll(self) -> int | None:
        """Its return code, or None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            TimeoutExpired: it did not end within `timeout` seconds.
        """
        if self.returncode is None:
            try:
                self.returncode = self._connection.wait(PATIENCE_S if timeout is None else timeout)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(self.args, timeout or PATIENCE_S) from None
        return self.returncode

    def communicate(self, stdin: str | None = None, timeout: float | None = None) -> tuple[str, str]:
        """Write its input, read its streams to their end, and wait for its own."""
        assert self.stdin is not None
        assert self.stdout is not None
        assert self.stderr is not None
        until = time.monotonic() + (PATIENCE_S if timeout is None else timeout)
        read: dict[str, str] = {}
        readers = [
            threading.Thread(target=_read, args=(stream, name, read), daemon=True)
            for name, stream in (("out", self.stdout), ("err", self.stderr))
        ]
        for reader in readers:
            reader.start()
        try:
            with self.stdin as stream:
                stream.write(stdin or "")
        except BrokenPipeError:
            pass  # It ended, or closed its input, without reading all of it.
        for reader in readers:
            reader.join(max(0.0, until - time.monotonic()))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or PATIENCE_S)
        self.wait(max(0.0, until - time.monotonic()))
        self.stdout.close()
        self.stderr.close()
        return read["out"], read["err"]

    def send_signal(self, number: int) -> None:
        """Send a signal, where it still runs."""
        if self.poll() is None:
            # It may have ended meanwhile, and the one that forked it knows first.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()


def _read(stream: IO[str], name: str, into: dict[str, str]) -> None:
    into[name] = stream.read()


def share_warm_process() -> None:
    """Start the warm process for this process and for those that it starts from now on."""
    os.environ[_SHARED] = str(_start_warm_process())


@functools.cache
def warm_process() -> str:
    """The address of the warm process: a shared one, or one of this process."""
    address = Path(os.environ[_SHARED]) if _SHARED in os.environ else _start_warm_process()
    until = time.monotonic() + PATIENCE_S
    while not address.exists():
        assert time.monotonic() < until, "the warm process did not start"
        time.sleep(0.01)
    return str(address)


def _start_warm_process() -> Path:
    """Start it, to end when this process does; return the address that it will have."""
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    address = folder / "socket"
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.stand_ins.warm", address],
        cwd=ROOT,
        # The mark by which the watchdog finds what a run started came later.
        env={**_ENVIRONMENT, watchdog.VARIABLE: os.environ.get(watchdog.VARIABLE, "")},
        stdin=subprocess.PIPE,
    )

    def end() -> None:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
        shutil.rmtree(folder)

    atexit.register(end)
    return address


@functools.cache
def commands_folder() -> Path:
    """A folder for PATH in which `replay` is the warm one: for scripts of a shell."""
    folder = Path(tempfile.mkdtemp(prefix="commands-"))
    atexit.register(shutil.rmtree, folder)
    script = folder / "replay"
    script.write_text(
        f"#!{sys.executable} -IS\n"
        "import os, signal, sys\n"
        f"sys.path.insert(0, {str(Path(warm.__file__).parent)!r})\n"
        "import warm\n"
        "request = {'program': 'replay', 'args': sys.argv[1:], 'cwd': os.getcwd(),"
        " 'env': dict(os.environ), 'session': False}\n"
        f"connection = warm.Connection({warm_process()!r}, request, (0, 1, 2))\n"
        "for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):\n"
        "    signal.signal(number, lambda number, frame: os.kill(connection.pid, number))\n"
        "sys.exit(connection.wait(None) & 0xFF)\n"
    )
    script.chmod(0o755)
    return folder
