"""The worker's side of tool calls from other processes: it passes them on as its own.

A connection's first line is `{"secret": …}`; whoever lacks it is shut out. Then, one JSON line a message:

in   {"config": true}                        out  {"config": what must be patched, or null}
in   {"trial": 7 or null, "name", "args"}    out  the answer, as the tools channel gives it
in   {"trial": 7, "ran": 3, …}               out  {} once the worker has what a tool gave that ran
in   {"trial": 7 or null, "refused": why}    out  {} once the trial counts for nothing
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replaydiff.replay.worker import calls, remote
else:
    calls = sys.modules["_replaydiff_worker_calls"]
    remote = sys.modules["_replaydiff_worker_remote"]

LONGEST_GREETING = 256
"""Bytes of the first line."""
GREETING_S = 5.0
"""Seconds that a stranger may take for it."""


class Broker:
    """Serves the processes that the agent starts."""

    def __init__(self, tools: calls.Tools, config: Callable[[], Any]) -> None:
        """Begin to listen.

        Args:
            tools: where tool calls are passed on to.
            config: what another process must patch; None while it is not known.
        """
        self.secret = os.urandom(16).hex()
        self._server, self.address = remote.listen()
        self._tools, self._config = tools, config
        threading.Thread(target=self._accept, name="replay-broker", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(
                target=self._serve, args=(connection,), name="replay-broker", daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(GREETING_S)
            lines = connection.makefile("rb")
            try:
                if not self._is_known(lines.readline(LONGEST_GREETING)):
                    return
                connection.settimeout(None)
                for line in lines:
                    connection.sendall(self._answer(json.loads(line)))
            except (OSError, ValueError):
                return

    def _is_known(self, greeting: bytes) -> bool:
        try:
            return hmac.compare_digest(str(json.loads(greeting)["secret"]), self.secret)
        except (ValueError, KeyError, TypeError):
            return False

    def _answer(self, message: Any) -> bytes:
        if "config" in message:
            return calls.encode({"config": self._config()})
        if "refused" in message:
            self._tools.refuse(message["refused"], message["trial"])
            return calls.encode({})
        return self._tools.pass_on(message)
