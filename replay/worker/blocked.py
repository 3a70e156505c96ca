"""Note what an agent tries that its boundary blocks, each with the line of the agent's code that led to it.

The kernel refuses; this module only looks at what Python is about to do (audit events), compares it with what
the boundary leaves open, and keeps the difference per trial. What native code and other programs try is not
seen here; where they use the proxy, the engine sees the host.

`REPLAY_BOUNDARY` describes the boundary (see `replay.agents.boundary`): `kind`, `writable` (files and
                  folders),
`reachable` (`host:port`, `*` in a host is any text without a dot).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import socket
import sys
import time

from . import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType, FrameType
    from typing import Any

VARIABLE = "REPLAY_BOUNDARY"
CHANGES = {
    # event: the argument with the path that changes, and that with a folder's descriptor
    "os.remove": ((0, 1),), "os.rmdir": ((0, 1),), "os.mkdir": ((0, 2),), "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),), "os.symlink": ((1, 2),), "os.truncate": ((0, None),), "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),), "os.utime": ((0, 3),), "os.setxattr": ((0, None),), "os.removexattr": ((0, None),),
}  # fmt: skip
"""Audit events of a change to the file system."""
NEW = {"os.mkdir", "os.link", "os.symlink"}
"""Those that fail by themselves where the path exists."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
HIDDEN_WRITES = {"sqlite3.connect", "subprocess.Popen", "os.system", "os.posix_spawn"}
"""Audit events after which files may be written that no event names."""
LOOK_UPS = {"socket.gethostbyname", "socket.gethostbyaddr"}
SERVICES = {"http": 80, "https": 443}
QUIET_FOLDERS = ("/dev/", "/proc/", "/sys/")
"""What is written there changes nothing that lasts, or never works for a user."""
QUIET_MODULES = ("logging.handlers",)
"""Modules that try Unix sockets by themselves and do without."""
MOST_EVENTS = 50
"""Events of one trial that are kept."""
LISTENING, INODE = "0A", 9
"""The state of a socket in /proc/net/tcp, and the column of its number."""


class _Tries:
    """What a trial tried in vain, and when it asked the proxy."""

    def __init__(self) -> None:
        self.blocked: dict[str, tuple[str | None, bool]] = {}
        self.proxied: list[tuple[float, str | None, bool]] = []

    def reported(self) -> dict[str, Any]:
        """Return it as the worker replies it."""
        lists = {"blocked": [[what, *event] for what, event in self.blocked.items()], "proxied": self.proxied}
        return {name: listed for name, listed in lists.items() if listed}


class Observer:
    """What the trials that run now, and the imports before them, tried in vain."""

    def __init__(self) -> None:
        """Observe from now on, if the environment describes a boundary."""
        described = json.loads(os.environ.pop(VARIABLE, "null"))
        self._trials: dict[int, _Tries] = {}
        self._before = _Tries()
        """Of the imports, which the first trial has as well."""
        self._has_begun = False
        self.parts_of_tools: Mapping[CodeType, str] = {}
        """Code of listed tools that no recording answers, each with the path of its function."""
        self._process, self._reports = os.getpid(), os.pipe()
        """Processes that are forked from this one report through a pipe."""
        for end in self._reports:
            os.set_blocking(end, False)
        if described is None:
            return
        self._is_private_network = described["kind"] == "namespaces"
        self._writable = [os.path.join(path, "") for path in described["writable"]]
        self._reachable = [_pattern(destination) for destination in described["reachable"]]
        self._proxy = _port(os.environ.get("HTTPS_PROXY", ""))
        self._folder = os.path.join(os.getcwd(), "")
        self._home = os.path.join(os.path.expanduser("~"), ".")
        self._names = {"", "localhost", socket.gethostname().lower()}
        sys.addaudithook(self._notice)

    def begin(self, trial: int) -> None:
        """Observe a trial; the first one also has what was tried before it."""
        self._trials[trial] = _Tries() if self._has_begun else self._before
        self._has_begun = True

    def end(self, trial: int) -> dict[str, Any]:
        """Observe a trial no longer; return what it tried in vain, and when it asked the proxy."""
        self._take_reports(trial)
        return self._trials.pop(trial, _Tries()).reported()

    def before(self) -> dict[str, Any]:
        """Return the same of what came before the first trial, which has it as well."""
        return self._before.reported()

    def _take_reports(self, ending: int) -> None:
        """Take in what forked processes tried; a trial that ended before it is known has none of it."""
        try:
            lines = os.read(self._reports[0], MOST_EVENTS * select.PIPE_BUF).splitlines()
        except OSError:
            return
        for line in lines:
            trial, what, at, in_tool = json.loads(line)
            tries = self._trials.get(trial) or self._trials.get(ending) or _Tries()
            tries.blocked.setdefault(what, (at, in_tool))

    def _notice(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            if flags and flags & WRITING and not isinstance(path, int):
                self._check_write(path, may_be_new=True)
        elif event in CHANGES:
            for path, descriptor in CHANGES[event]:
                number = -1 if descriptor is None else args[descriptor]
                if not isinstance(args[path], int):
                    self._check_write(args[path], number, may_be_new=event in NEW, must_be_new=event in NEW)
        elif event in HIDDEN_WRITES:
            self._refuse_part_of_tool()
        elif event == "socket.getaddrinfo":
            self._check_name(args[0], args[1])
        elif event in LOOK_UPS:
            self._check_name(args[0], None)
        elif event == "socket.connect":
            if args[0].type == socket.SOCK_STREAM:
                self._check_address(args[1])
        elif event in ("socket.sendto", "socket.sendmsg"):
            if args[0].type == socket.SOCK_DGRAM:
                self._check_address(args[1])
        elif event == "socket.__new__" and args[1] == socket.AF_UNIX:
            self._keep("a Unix socket")

    def _check_name(self, host: Any, port: Any) -> None:
        name = (host.decode("ascii", "replace") if isinstance(host, bytes) else str(host or "")).lower()
        number = SERVICES.get(port, port) if isinstance(port, str) else port
        number = int(number) if str(number).isdigit() and int(number) else None
        if name in self._names or _is_address(name) or self._is_reachable(name.rstrip("."), number):
            return
        self._keep(name if number is None else f"{name}:{number}")

    def _check_address(self, address: Any) -> None:
        if not isinstance(address, tuple):
            return
        host, port = str(address[0]).partition("%")[0], int(address[1])
        if not _is_address(host) or self._is_reachable(host, port):
            return
        is_loopback = host.startswith("127.") or host == "::1"
        if is_loopback and port == self._proxy:
            tries = self._tries()
            if tries is not None and len(tries.proxied) < MOST_EVENTS:
                tries.proxied.append((time.monotonic(), self._line(sys._getframe(2)), calls.is_running()))
            return
        servers = _servers(port) if is_loopback else set()
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if servers and self._is_private_network:
            # It may have tried before its own server was up.
            tries = self._tries()
            if tries is not None:
                tries.blocked.pop(where, None)
        else:
            self._keep("a server of its own" if servers and _is_inside(servers) else where)

    def _is_reachable(self, host: str, port: int | None) -> bool:
        return any(
            port in (None, open_port) and pattern.fullmatch(host) for pattern, open_port in self._reachable
        )

    def _check_write(
        self, path: Any, folder: Any = -1, *, may_be_new: bool, must_be_new: bool = False
    ) -> None:
        text = os.fsdecode(path)
        if isinstance(folder, int) and folder >= 0 and not text.startswith("/"):
            text = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text)
        parent, name = os.path.split(os.path.abspath(text))
        real = os.path.join(os.path.realpath(parent), name)
        if real.startswith(self._folder) and "/__pycache__" not in real:
            self._refuse_part_of_tool()
        if self._is_open(real) or (os.path.islink(real) and self._is_open(os.path.realpath(real))):
            return
        exists = os.path.lexists(real)
        if must_be_new if exists else not (may_be_new and os.path.isdir(os.path.dirname(real))):
            return  # it fails, or does nothing, without a boundary as well
        if _may_write(real if exists else os.path.dirname(real)):
            self._keep(real)

    def _refuse_part_of_tool(self) -> None:
        """Refuse a write to the trial's own files by a listed tool's code that no recording answers.

        A tool may be answered in its preview and do its work in another method. Logging is none.

        Raises:
            PermissionError: it is such a write.
        """
        frame: FrameType | None = sys._getframe(2) if self.parts_of_tools and not calls.is_running() else None
        while frame is not None:
            part = self.parts_of_tools.get(frame.f_code)
            if frame.f_globals.get("__name__") == "logging":
                return
            if part is not None:
                self._keep(f"a write by {part}, a part of a listed tool")
                raise PermissionError(f"no recording answers {part}, a part of a listed tool")
            frame = frame.f_back

    def _is_open(self, path: str) -> bool:
        if any(path.startswith(root) or path + "/" == root for root in self._writable):
            return True
        is_quiet = path.startswith((*QUIET_FOLDERS, self._home))
        return is_quiet or "/__pycache__" in path or path.endswith((".pyc", ".pyc.lock"))

    def _trial(self) -> int | None:
        """Return the trial that the running code belongs to; of code that belongs to none, the oldest."""
        trial = calls.TRIAL.get()
        if trial in self._trials:
            return trial
        return next(iter(self._trials), None)

    def _tries(self) -> _Tries | None:
        """Return where to keep what the running code tries; None where no trial runs any more."""
        trial = self._trial()
        if trial is not None:
            return self._trials[trial]
        return None if self._has_begun else self._before

    def _keep(self, what: str) -> None:
        tries = self._tries()
        events = {} if tries is None else tries.blocked
        if tries is not None and what not in events and len(events) < MOST_EVENTS:
            frame: FrameType | None = sys._getframe(3)
            if what == "a Unix socket" and _is_quiet(frame):
                return
            events[what] = (self._line(frame), calls.is_running())
            if os.getpid() != self._process:
                report = json.dumps([self._trial(), what, *events[what]]).encode() + b"\n"
                with contextlib.suppress(OSError):
                    os.write(self._reports[1], report if len(report) <= select.PIPE_BUF else b"")

    def _line(self, frame: FrameType | None) -> str | None:
        """Return the line of the agent that led here; None where none did."""
        while frame is not None:
            file = frame.f_code.co_filename
            if self._is_of_agent(file):
                return f"{file[len(self._folder) :]}:{frame.f_lineno}"
            frame = frame.f_back
        return self._waiting_line()

    def _is_of_agent(self, file: str) -> bool:
        return file.startswith(self._folder) and "site-packages" not in file

    def _waiting_line(self) -> str | None:
        """Return the line at which coroutines of the agent wait, where all wait at the same one.

        A task that a library starts for the agent has none of the agent's frames.
        """
        asyncio: Any = sys.modules.get("asyncio")
        lines = set()
        try:
            tasks = asyncio.all_tasks() if asyncio else ()
        except RuntimeError:  # no loop runs in this thread
            return None
        for task in tasks:
            coroutine, line = task.get_coro(), None
            while coroutine is not None:
                frame = getattr(coroutine, "cr_frame", None)
                if frame is not None and self._is_of_agent(frame.f_code.co_filename):
                    line = f"{frame.f_code.co_filename[len(self._folder) :]}:{frame.f_lineno}"
                coroutine = getattr(coroutine, "cr_await", None)
            if line is not None:
                lines.add(line)
        return lines.pop() if len(lines) == 1 else None


def _is_quiet(frame: FrameType | None) -> bool:
    """Return whether a Unix socket is half of a pair, or one that a library tries and does without."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        is_pair = module == "socket" and frame.f_code.co_name != "__init__"
        if is_pair or module.startswith(QUIET_MODULES):
            return True
        frame = frame.f_back
    return False


def _pattern(destination: str) -> tuple[re.Pattern[str], int]:
    host, _, port = destination.rpartition(":")
    return re.compile(re.escape(host.strip("[]")).replace(r"\*", "[^.]*")), int(port)


def _port(url: str) -> int:
    number = url.rpartition(":")[2].strip("/")
    return int(number) if number.isdigit() else 0


def _is_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host.partition("%")[0])
        except (OSError, ValueError):
            continue
        return True
    return False


def _servers(port: int) -> set[str]:
    """Return the inodes of the sockets that listen at a TCP port of this network."""
    servers = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table, encoding="ascii") as file:
            rows = [line.split() for line in file][1:]
            at_port = (row for row in rows if int(row[1].rpartition(":")[2], 16) == port)
            servers |= {row[INODE] for row in at_port if row[3] == LISTENING}
    return servers


def _is_inside(sockets: set[str]) -> bool:
    """Return whether a process within the boundary has one of these sockets: no other's can be looked at."""
    links = {f"socket:[{inode}]" for inode in sockets}
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            folder = f"/proc/{process}/fd"
            if any(os.readlink(f"{folder}/{descriptor}") in links for descriptor in os.listdir(folder)):
                return True
    return False


def _may_write(path: str) -> bool:
    """Return whether this user could write without a boundary, by the path's mode."""
    try:
        status = os.stat(path)
    except OSError:
        return True
    user = os.geteuid()
    if user in (0, status.st_uid):
        return user == 0 or bool(status.st_mode & 0o200)
    is_member = status.st_gid in (os.getegid(), *os.getgroups())
    return bool(status.st_mode & (0o020 if is_member else 0o002))
