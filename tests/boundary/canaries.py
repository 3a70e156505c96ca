"""Things outside a boundary that notice an effect: files, services, queues and a process."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

IPC_CREAT, IPC_RMID, IPC_NOWAIT = 0o1000, 0, 0o4000
ORIGINAL = "as it was"

VICTIM = """
import signal, sys, time
def note(number, frame):
    open(sys.argv[1], "a").write(f"signal {number}\\n")
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT, signal.SIGIO):
    signal.signal(number, note)
print("ready", flush=True)
while True:
    time.sleep(1)
"""


class Canaries:
    """Everything that an attempt tries to reach, and what was reached."""

    def __init__(self, folder: Path, address: str | None) -> None:
        """Set everything up.

        Args:
            folder: for files and sockets, outside every boundary.
            address: an address of this machine that is not loopback; None for none.
        """
        self.folder, self.reached = folder, list[str]()
        self._closing: list[Callable[[], object]] = []
        self.file = folder / "file"
        self.file.write_text(ORIGINAL)
        self.file.chmod(0o666)
        folder.chmod(0o777)
        self._before = self._state()
        self.tcp = self._listen("TCP", socket.AF_INET, ("127.0.0.1", 0))
        self.tcp6 = self._listen("TCP over IPv6", socket.AF_INET6, ("::1", 0))
        self.lan = self._listen("TCP on the LAN", socket.AF_INET, (address, 0)) if address else 0
        self.path = str(folder / "service.sock")
        self._listen("a Unix socket", socket.AF_UNIX, self.path)
        os.chmod(self.path, 0o777)
        self.link = str(folder / "link.sock")
        os.link(self.path, self.link)
        self.abstract = f"canary-{os.getpid()}-{folder.name}"
        self._listen("an abstract socket", socket.AF_UNIX, f"\0{self.abstract}")
        self.udp = self._receive("UDP", socket.AF_INET, ("127.0.0.1", 0))
        self.datagram_path = str(folder / "datagrams.sock")
        self._receive("a Unix datagram socket", socket.AF_UNIX, self.datagram_path)
        os.chmod(self.datagram_path, 0o777)
        self.fifo = str(folder / "fifo")
        os.mkfifo(self.fifo)
        os.chmod(self.fifo, 0o666)
        self._fifo = os.open(self.fifo, os.O_RDONLY | os.O_NONBLOCK)
        self._terminal, other_end = os.openpty()
        """What a person sees; programs write to the other end."""
        os.set_blocking(self._terminal, False)
        self.terminal = os.ttyname(other_end)
        os.chmod(self.terminal, 0o666)
        self._closing += [lambda: os.close(other_end), lambda: os.close(self._terminal)]
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.queue = self._libc.msgget(0x5245 + os.getpid(), IPC_CREAT | 0o666)
        self.memory = self._libc.shmget(0x5246 + os.getpid(), 4096, IPC_CREAT | 0o666)
        self.signals = folder / "signals"
        self.victim = subprocess.Popen(
            [sys.executable, "-c", VICTIM, str(self.signals)],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self.victim.stdout is not None
        self.victim.stdout.readline()
        self._priority = os.getpriority(os.PRIO_PROCESS, self.victim.pid)

    def environment(self) -> dict[str, str]:
        """Where the canaries are, for an attempt."""
        known: dict[str, Any] = {
            "file": str(self.file), "folder": str(self.folder), "tcp": self.tcp, "tcp6": self.tcp6,
            "lan": self.lan, "path": self.path, "link": self.link, "abstract": self.abstract, "udp": self.udp,
            "datagram_path": self.datagram_path, "fifo": self.fifo, "queue": self.queue,
            "memory": self.memory, "pid": self.victim.pid, "address": self._address(), "terminal": self.terminal,
        }  # fmt: skip
        return {"CANARIES": json.dumps(known)}

    def effects(self) -> list[str]:
        """Return what was reached or changed."""
        time.sleep(0.02)  # a datagram, a signal
        effects = sorted(set(self.reached))
        if self._state() != self._before:
            effects.append(f"the folder: {self._before} became {self._state()}")
        if self.signals.exists():
            effects.append(self.signals.read_text())
        if self.victim.poll() is not None:
            effects.append("the process ended")
        elif os.getpriority(os.PRIO_PROCESS, self.victim.pid) != self._priority:
            effects.append("the process has another priority")
        buffer = ctypes.create_string_buffer(64)
        if self._libc.msgrcv(self.queue, buffer, 32, 0, IPC_NOWAIT) >= 0:
            effects.append("a message in the System V queue")
        self._libc.shmat.restype = ctypes.c_void_p
        at = self._libc.shmat(self.memory, None, 0o10000)
        if at not in (None, ctypes.c_void_p(-1).value) and ctypes.string_at(at, 1) != b"\0":
            effects.append("System V memory")
        for name, descriptor in (("a FIFO", self._fifo), ("a terminal", self._terminal)):
            with suppress(BlockingIOError):
                if os.read(descriptor, 16):
                    effects.append(name)
        return effects

    def close(self) -> None:
        """Remove everything."""
        self.victim.kill()
        self.victim.wait()
        if self.victim.stdout is not None:
            self.victim.stdout.close()
        self._libc.msgctl(self.queue, IPC_RMID, None)
        self._libc.shmctl(self.memory, IPC_RMID, None)
        os.close(self._fifo)
        for close in self._closing:
            close()

    def _address(self) -> str | None:
        return address_of_this_machine() if self.lan else None

    def _state(self) -> object:
        """What is compared of the file and its folder."""
        status = self.file.stat() if self.file.exists() else None
        shown = (
            None if status is None else (status.st_mode, status.st_uid, status.st_nlink, status.st_mtime_ns)
        )
        names = sorted(path.name for path in self.folder.iterdir() if path.suffix == ".made")
        attributes = os.listxattr(self.file) if status is not None else None
        return shown, self.file.read_text() if status else None, names, attributes

    def _listen(self, name: str, family: int, address: Any) -> int:
        try:
            server = socket.socket(family)
            server.bind(address)
        except OSError:
            return 0  # no IPv6 here
        server.listen()

        def accept() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return
                self.reached.append(name)

        self._serve(accept, server)
        return int(server.getsockname()[1]) if family != socket.AF_UNIX else 0

    def _receive(self, name: str, family: int, address: Any) -> int:
        server = socket.socket(family, socket.SOCK_DGRAM)
        server.bind(address)

        def receive() -> None:
            while True:
                data = server.recv(64)
                if data == b"end":
                    return
                self.reached.append(name)

        thread = threading.Thread(target=receive)
        thread.start()

        def close() -> None:
            client = socket.socket(family, socket.SOCK_DGRAM)
            client.sendto(b"end", server.getsockname())
            client.close()
            thread.join()
            server.close()

        self._closing.append(close)
        return int(server.getsockname()[1]) if family != socket.AF_UNIX else 0

    def _serve(self, accept: Callable[[], None], server: socket.socket) -> None:
        thread = threading.Thread(target=accept)
        thread.start()

        def close() -> None:
            server.shutdown(socket.SHUT_RDWR)
            server.close()
            thread.join()

        self._closing.append(close)


@contextmanager
def canaries() -> Iterator[Canaries]:
    """Yield canaries in a folder that no kind makes private: what a private copy hides would prove nothing."""
    parent = "/opt" if os.access("/opt", os.W_OK) else Path.home()
    with tempfile.TemporaryDirectory(dir=parent, prefix="canaries-") as folder:
        running = Canaries(Path(folder), address_of_this_machine())
        yield running
        running.close()


def address_of_this_machine() -> str | None:
    """Return an address of this machine other than loopback; None where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = str(probe.getsockname()[0])
    return None if address.startswith("127.") else address
