"""A process with every command imported, that forks a process for each command it is sent.

A command in a process of its own costs a second, nearly all of it imports. A fork of this process is a real
process (exit status, streams, folder, environment, signals, a kill of its own) that has them behind it.
`tests.stand_ins.processes` is the other end.

Run as `python -m tests.stand_ins.warm SOCKET`; it ends when its standard input does. A connection is one
command: a message of JSON with `program`, `args`, `cwd`, `env` and `session` (whether it leads one), and the
descriptors of its standard input, output and error. The answers are its process id, and when it ended its
wait status.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any, NoReturn

LONGEST = 1 << 20
"""Bytes of the longest message."""
_NUMBER = struct.Struct("=q")
_HEAVY = (
    "anthropic", "asyncio", "certifi", "concurrent.futures.thread", "duckdb", "h11", "httpcore", "httpx", "jinja2",
    "msgspec", "numpy", "phonenumbers", "rich.console", "rich.table", "scipy.special", "sqlite3", "starlette.applications",
    "statistics", "uvicorn", "xml.etree.ElementTree", "yaml",
)  # fmt: skip
# The last one needs an extra.
_NOT_FOR_US = ("replaydiff.replay.worker", "replaydiff.replay.demo.agent", "replaydiff.replay.commands.mcp_")


class Connection:
    """The client's end: one command."""

    def __init__(self, address: str, request: dict[str, Any], streams: tuple[int, int, int]) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect(address)
        socket.send_fds(self._socket, [json.dumps(request).encode()], streams)
        self.pid = self._receive()

    def _receive(self) -> int:
        payload = self._socket.recv(_NUMBER.size)
        assert payload, "the warm process is gone"
        number: int = _NUMBER.unpack(payload)[0]
        return number

    def wait(self, seconds: float | None) -> int:
        """Its exit status, or minus the number of the signal that ended it.

        Raises:
            TimeoutError, BlockingIOError: it did not end within `seconds`.
        """
        self._socket.settimeout(seconds)
        status = self._receive()
        self._socket.close()
        return os.waitstatus_to_exitcode(status)


def _import_everything() -> None:
    import pkgutil
    from importlib import import_module

    import replaydiff

    for module in pkgutil.walk_packages(replaydiff.__path__, "replaydiff."):
        if not module.name.startswith(_NOT_FOR_US):
            import_module(module.name)
    for name in _HEAVY:
        import_module(name)


def _replay(args: list[str]) -> None:
    from replaydiff import __main__ as door

    # Processes of multiprocessing look for the main module of the one that starts them.
    sys.modules["__main__"] = door
    door.main(args)


def _pytest(args: list[str]) -> None:
    import pytest

    sys.argv = ["pytest", *args]
    sys.exit(pytest.console_main())


def _python(args: list[str]) -> None:
    option, code, *words = args
    assert option == "-c", "only code is run"
    sys.argv = ["-c", *words]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(code, "<string>", "exec"), main.__dict__)


PROGRAMS: dict[str, Callable[[list[str]], None]] = {"replay": _replay, "pytest": _pytest, "python": _python}


def _serve(listener: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork for every connection; returns in each child its command, and in the server nothing."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(wakes)
    running: dict[int, socket.socket] = {}
    while True:
        ready = select.select([0, listener.fileno(), woken], [], [])[0]
        if 0 in ready:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            return None
        if woken in ready:
            os.read(woken, 4096)
            _reap(running)
        if listener.fileno() not in ready:
            continue
        client, _ = listener.accept()
        payload, streams, _, _ = socket.recv_fds(client, LONGEST, 3)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for other in (client, listener, *running.values()):
                other.detach()  # Closed with all descriptors, and not by a destructor when another has its number.
            return json.loads(payload), streams
        for stream in streams:
            os.close(stream)
        running[pid] = client
        _answer(client, pid)


def _answer(client: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # Nobody may wait for it any more.
        client.send(_NUMBER.pack(number))


def _reap(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as client:
            _answer(client, status)


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """Take on what a process of its own is started with."""
    if request["session"]:
        os.setsid()
    from pathlib import Path  # Not at the top: the script that stands for `replay` has no use for it.

    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, 1024)
    zone = os.environ.get("TZ")
    os.environ.clear()
    os.environ.update(request["env"])
    # `tests/__init__.py` turned it off, to keep what was imported up to here.
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    if zone != os.environ.get("TZ"):
        time.tzset()
    os.chdir(request["cwd"])
    sys.argv = [request["program"], *request["args"]]
    sys.path[0] = request["cwd"]
    if folders := [
        Path(folder).absolute() for folder in os.environ.get("PYTHONPATH", "").split(":") if folder
    ]:
        sys.path[1:1] = map(str, folders)
        if any((folder / "sitecustomize.py").exists() for folder in folders):
            import sitecustomize  # noqa: F401 - the interpreter does so when it starts
    sys.stdin = _stream(0, "r")
    sys.stdout = _stream(1, "w", line_buffering=os.isatty(1))
    sys.stderr = _stream(2, "w", line_buffering=True, errors="backslashreplace")


def _stream(descriptor: int, mode: str, **how: Any) -> io.TextIOWrapper:
    return io.TextIOWrapper(os.fdopen(descriptor, f"{mode}b", closefd=False), encoding="utf-8", **how)


def _run(program: Callable[[list[str]], None], args: list[str]) -> NoReturn:
    """Run a program and end as the interpreter does, but for taking every module apart, which takes longest."""
    code: Any = 0
    try:
        program(args)
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            try:
                stream.flush()
            except OSError:
                code = code or 120
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    # Who connects from now on waits until everything is imported.
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{sys.argv[1]}.new")
    listener.listen(128)
    os.rename(f"{sys.argv[1]}.new", sys.argv[1])  # noqa: PTH104 - importing pathlib takes a script 8 ms
    _import_everything()
    gc.collect()
    # What is there now is never looked at again, which keeps its memory shared with the children.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    command = _serve(listener)
    if command is None:
        os._exit(0)
    _become(*command)
    _run(PROGRAMS[command[0]["program"]], command[0]["args"])
