"""Effects outside the trial's folder, and what counts them: a file, servers on loopback, a Unix socket."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

CANARY = """
import os, pathlib, socket
OUTSIDE, TCP, UDP, UNIX = pathlib.Path({outside!r}), {tcp}, {udp}, {unix!r}
FILE = OUTSIDE / "real"
def real(text):
    for effect in (write, create, connect, send, connect_unix):
        try: effect(str(text))
        except OSError: pass
    return "the real tool ran"
def write(text):
    with (OUTSIDE / "real").open("a") as file: print(text, file=file)
def create(text): (OUTSIDE / f"created-{{os.getpid()}}").mkdir()
def connect(text):
    with socket.create_connection(("127.0.0.1", TCP), timeout=5) as sock: sock.sendall(text.encode())
def send(text):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock: sock.sendto(text.encode(), ("127.0.0.1", UDP))
def connect_unix(text):
    with socket.socket(socket.AF_UNIX) as sock: sock.connect(UNIX); sock.sendall(text.encode())
def place(name, content):  # at once: a child of another shape imports this one too
    written = pathlib.Path(f"{{name}}.{{os.getpid()}}")
    written.write_bytes(content)
    written.replace(name)
"""
"""The module `canary` of an agent; `real` is what a tool does."""


class Outside:
    """A folder, two servers on loopback and a Unix socket that no trial may reach."""

    def __init__(self, folder: Path) -> None:
        """Open them.

        Args:
            folder: to be made, beside that of the agent.
        """
        self.folder = folder
        folder.mkdir()
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        # Its path may have some 100 bytes.
        self._unix_path = (
            str(folder / "socket")[-100:] if len(str(folder)) < 90 else f"/tmp/replay-{id(self)}"
        )
        self._unix = socket.socket(socket.AF_UNIX)
        self._unix.bind(self._unix_path)
        self._unix.listen()
        self._reached: list[str] = []
        for server in (self._tcp, self._unix):
            threading.Thread(target=self._accept, args=(server,), daemon=True).start()
        threading.Thread(target=self._receive, daemon=True).start()

    @property
    def canary(self) -> str:
        """Return the source of the module `canary`."""
        tcp, udp = self._tcp.getsockname()[1], self._udp.getsockname()[1]
        return CANARY.format(outside=str(self.folder), tcp=tcp, udp=udp, unix=self._unix_path)

    def effects(self) -> list[str]:
        """Return what has reached any of them."""
        files = [entry.name for entry in self.folder.iterdir() if entry.name != "socket"]
        return sorted([*self._reached, *files])

    def close(self) -> None:
        """Close them."""
        for each in (self._tcp, self._udp, self._unix):
            each.close()
        Path(self._unix_path).unlink(missing_ok=True)

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            self._reached.append(f"a connection of {server.family.name}")
            connection.close()

    def _receive(self) -> None:
        while True:
            try:
                self._udp.recv(100)
            except OSError:
                return
            self._reached.append("a datagram")
