"""How another process reaches the worker: a socket, one JSON line a message (see `broker`)."""

from __future__ import annotations

import json
import os
import socket
import threading
from typing import Any

HOST = "127.0.0.1"
PORT = "REPLAY_WORKER_PORT"
"""Environment variable with the port of the worker's server."""


class Remote:
    """A connection to the worker; opened at first use, and again in a forked process."""

    def __init__(self, address: str, secret: str) -> None:
        self.address, self.secret = address, secret
        self._process = -1
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._after_fork)

    def ask(self, message: bytes) -> bytes:
        """Send a line and return the answer.

        Raises:
            OSError: the worker cannot be reached.
        """
        with self._lock:
            self._connect()
            self._socket.sendall(message)
            reply = self._lines.readline()
        if not reply.endswith(b"\n"):
            raise ConnectionError("the worker is gone")
        return reply

    def config(self) -> Any:
        """What must be patched (see `patch.Patches.config`); None while the worker does not know it yet."""
        return json.loads(self.ask(b'{"config": true}\n'))["config"]

    def refuse(self, trial: int | None, reason: str) -> None:
        """Have a trial count for nothing; where the worker cannot be reached, it is over anyway.

        It returns once the worker knows it: else the trial might end before.
        """
        try:
            self.ask(json.dumps({"trial": trial, "refused": reason}).encode() + b"\n")
        except OSError:
            return

    def _connect(self) -> None:
        if self._process == os.getpid():
            return
        self._socket = connect(self.address)
        self._lines = self._socket.makefile("rb")
        self._socket.sendall(json.dumps({"secret": self.secret}).encode() + b"\n")
        self._process = os.getpid()

    def _after_fork(self) -> None:
        # Another thread may have held it.
        self._lock = threading.Lock()


def connect(address: str) -> socket.socket:
    """Connect to an address that `listen` gave."""
    host, _, port = address.rpartition(":")
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.connect((host, int(port)))
    return connection


def listen() -> tuple[socket.socket, str]:
    """Listen on loopback, at the port that the boundary keeps open for it, and return socket and address."""
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # The engine has the port reserved by a socket of its own.
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind((HOST, int(os.environ.pop(PORT, 0))))
    server.listen(64)
    return server, f"{HOST}:{server.getsockname()[1]}"
