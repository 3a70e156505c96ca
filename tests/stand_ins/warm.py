"""A process with every command imported, that forks a process for each command it is sent.

A command in a process of its own costs a second, nearly all of it imports. A fork of this process is a real
process (exit status, streams, folder, environment, signals, a kill of its own) that has them behind it.
`tests.stand_ins.processes` is the other end.

Run as `python -m tests.stand_ins.warm DESCRIPTOR`, a socket. A message is one command: JSON with `program`,
`args`, `cwd`, `env` and `session` (whether it leads one), and four descriptors: standard input, output and
error, and a socket that gets the process id when it began and its wait status when it ended.
"""

from __future__ import annotations

import array
import atexit
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
from collections.abc import Callable
from typing import Any, NoReturn

LONGEST = 1 << 20
"""Bytes of the longest message."""
_STATUS = struct.Struct("=q")
_HEAVY = (
    "anthropic", "asyncio", "duckdb", "httpx", "jinja2", "msgspec", "numpy", "rich.console", "rich.table",
    "scipy.special", "starlette.applications", "uvicorn", "yaml",
)  # fmt: skip


def send(control: socket.socket, request: dict[str, Any], descriptors: list[int]) -> None:
    """Send one command."""
    payload = json.dumps(request).encode()
    assert len(payload) < LONGEST
    control.sendmsg([payload], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])


def receive(status: socket.socket) -> int | None:
    """The next number of a status socket; None where the server is gone."""
    payload = status.recv(_STATUS.size)
    return _STATUS.unpack(payload)[0] if payload else None


def _import_everything() -> None:
    from importlib import import_module

    import click

    from replaydiff.replay.cli import COMMANDS, cli

    context = click.Context(cli)
    for section in COMMANDS.values():
        for name in section:
            cli.get_command(context, name)
    for name in _HEAVY:
        import_module(name)


def _replay(args: list[str]) -> None:
    from replaydiff.replay.cli import main

    main(args)


def _pytest(args: list[str]) -> None:
    import pytest

    sys.argv = ["pytest", *args]
    sys.exit(pytest.console_main())


PROGRAMS: dict[str, Callable[[list[str]], None]] = {"replay": _replay, "pytest": _pytest}


def _serve(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork for every message; returns in each child its command, and in the server nothing."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(wakes)
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([control, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _reap(running)
        if control not in ready:
            continue
        payload, descriptors, _, _ = socket.recv_fds(control, LONGEST, 4)
        if not payload:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            return None
        status = socket.socket(fileno=descriptors[3])
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for other in running.values():
                other.detach()
            status.detach()
            control.detach()
            return json.loads(payload), descriptors[:3]
        for descriptor in descriptors[:3]:
            os.close(descriptor)
        running[pid] = status
        status.send(_STATUS.pack(pid))


def _reap(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as waiting:
            try:
                waiting.send(_STATUS.pack(status))
            except OSError:
                pass  # Nobody waits for it any more.


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """Take on what a process of its own is started with."""
    if request["session"]:
        os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, 1024)
    zone = os.environ.get("TZ")
    os.environ.clear()
    os.environ.update(request["env"])
    if zone != os.environ.get("TZ"):
        time.tzset()
    os.chdir(request["cwd"])
    sys.argv = [request["program"], *request["args"]]
    sys.path[0] = os.getcwd()
    sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(
        open(1, "wb", closefd=False), encoding="utf-8", line_buffering=os.isatty(1), write_through=False
    )
    sys.stderr = io.TextIOWrapper(
        open(2, "wb", closefd=False), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


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
    except BaseException:
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
    _import_everything()
    gc.collect()
    # What is there now is never looked at again, which keeps its memory shared with the children.
    gc.freeze()
    command = _serve(socket.socket(fileno=int(sys.argv[1])))
    if command is None:
        os._exit(0)
    _become(*command)
    _run(PROGRAMS[command[0]["program"]], command[0]["args"])
