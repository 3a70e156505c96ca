"""The demo's stand-in for the Messages API, with requests that fail as an unlucky caller's do.

`faults` makes requests fail: each request takes the next one; None, or no fault left, means a normal answer.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from replaydiff.replay.demo import stand_in
from replaydiff.replay.demo.stand_in import count_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way in which a request fails."""

    status: int = 200
    """An error status gets the API's error body for that status."""
    retry_after: float | None = None
    """Seconds, sent as `retry-after`."""
    delay_s: float = 0.0
    """Seconds to wait before answering."""
    cut: bool = False
    """Close the connection instead of answering."""
    text: str | None = None
    """Answer with this text instead of the model's."""
    stop_reason: str | None = None
    """Report this stop reason: `refusal`, `max_tokens` …"""


@dataclass(slots=True)
class ReceivedRequest:
    """A request as received, without its key."""

    path: str
    body: dict[str, Any]
    key: str = ""
    """How the key was sent: `bearer`, `x-api-key`, or empty without a key."""
    at: float = field(default_factory=time.monotonic)
    """Monotonic seconds."""


class StandIn(stand_in.StandIn):
    """The stand-in, with faults of the first requests and a memory of all of them.

    Args:
        port: on loopback; 0 takes a free one.
        seed: of the random answers.
        faults: the faults of the first requests, in order; None for a normal answer.
        remember: keep every request in `received`.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        seed: int = 0,
        faults: Iterable[Fault | None] = (),
        remember: bool = False,
    ) -> None:
        self.received: list[ReceivedRequest] = []
        self.remember = remember
        self._faults = iter(faults)
        super().__init__(port=port, seed=seed)

    def handler(self) -> type[stand_in.ModelHandler]:
        return FaultyHandler

    def next_fault(self) -> Fault | None:
        """Return the fault of the next request; None for a normal answer."""
        with self._lock:
            return next(self._faults, None)


class FaultyHandler(stand_in.ModelHandler):
    """Answers requests, or fails as the next fault says."""

    _fault: Fault | None = None

    def answer(self, raw: bytes) -> None:
        server: Any = self.server.stand_in
        fault = self._fault = server.next_fault()
        if fault:
            time.sleep(fault.delay_s)
            if fault.cut:
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
                return
        with contextlib.suppress(ValueError):
            body = json.loads(raw)
            if isinstance(body, dict):
                if server.remember:
                    server.received.append(ReceivedRequest(self.path, body, self.key()))
                if fault and fault.status != 200:
                    server.count()
                    self.send_problem(fault.status, "injected by the test", fault.retry_after)
                    return
        super().answer(raw)

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        message, fault = super().reply(body), self._fault
        if fault and fault.text is not None:
            message["content"] = [{"type": "text", "text": fault.text}]
            message["stop_reason"] = "end_turn"
            message["usage"]["output_tokens"] = count_tokens(message["content"])
        if fault and fault.stop_reason:
            message["stop_reason"] = fault.stop_reason
        return message
