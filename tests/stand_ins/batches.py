"""Message Batches on loopback, as the API answers them: strict about what it takes, in no hurry, in any order.

A batch is `in_progress` for as many looks as `patience` says, then `ended`; only then are there counts and
results. Where a request stops is up to the test: `at` names a moment (`created`, `looked`, `half`), and what it
gives is done there.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.stand_ins import loopback
from tests.stand_ins.loopback import DROPPED, Reply, Request

CUT, REFUSE = "cut", "refuse"
"""What happens at a moment: the connection breaks; the request is answered with 500."""
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PATH = "/v1/messages/batches"


def good(_: dict[str, Any]) -> str:
    """The best score for everything."""
    return json.dumps({"reasoning": "It says what is needed.", "score": 3})


@dataclass
class Batch:
    """What was sent, and how often it was looked at."""

    id: str
    requests: list[dict[str, Any]]
    created_at: datetime
    looks: int = 0


@dataclass
class BatchServer:
    """A running stand-in."""

    url: str = ""
    say: Callable[[dict[str, Any]], str | dict[str, Any]] = good
    """The text of an answer to the params of a request; or the result itself."""
    patience: int = 1
    """Looks at a batch before it has ended."""
    at: Callable[[str], str | None] = lambda _: None
    """Called at each moment."""
    archived: bool = False
    """Whether the results of batches are there no longer."""
    batches: dict[str, Batch] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """Method and path of every request, in order."""

    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Request) -> tuple[int, Any] | Reply:
        """Status and body."""
        with self.lock:
            self.asked.append(f"{request.method} {request.path}")
            if request.method == "POST":
                created = self.create(request.body) if request.path == _PATH else _not_found()
                return self._then("created", created)
            name, _, results = request.path.removeprefix(_PATH).strip("/").partition("/")
            if not name:
                return 200, _page(self, request)
            if name not in self.batches:
                return _not_found()
            batch = self.batches[name]
            batch.looks += not results
        if not results:
            return self._then("looked", (200, self.shown(batch)))
        lines = self.lines(batch)
        return Reply(status=200, chunks=self._halves(lines), length=sum(map(len, lines)))

    def _then(self, moment: str, answer: tuple[int, Any]) -> tuple[int, Any] | Reply:
        happens = self.at(moment)
        if happens == CUT:
            return DROPPED
        return _error(500, "api_error", "it broke") if happens == REFUSE else answer

    def _halves(self, lines: list[bytes]) -> Iterator[bytes]:
        half = len(lines) // 2
        yield b"".join(lines[:half])
        if self.at("half") is None:
            yield b"".join(lines[half:])

    @property
    def sent(self) -> list[dict[str, Any]]:
        """Every question that was ever taken."""
        return [request for batch in self.batches.values() for request in batch.requests]

    def create(self, body: Any) -> tuple[int, Any]:
        requests = body["requests"]
        names = [request["custom_id"] for request in requests]
        if not names or len(set(names)) < len(names) or not all(map(_NAME.fullmatch, names)):
            return _error(400, "invalid_request_error", "requests: custom_id must be unique and match")
        if any(params.get("stream") or "max_tokens" not in params for params in _params(requests)):
            return _error(400, "invalid_request_error", "requests: params are those of a message")
        name = f"msgbatch_{len(self.batches):04d}"
        self.batches[name] = Batch(name, requests, datetime.now(UTC))
        return 200, self.shown(self.batches[name])

    def shown(self, batch: Batch) -> dict[str, Any]:
        ended = batch.looks > self.patience
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        for request in batch.requests:
            counts[self.result(request)["type"] if ended else "processing"] += 1
        times = {"created_at": batch.created_at, "expires_at": batch.created_at + timedelta(days=1)}
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            **{key: value.isoformat() for key, value in times.items()},
            "ended_at": datetime.now(UTC).isoformat() if ended else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"{self.url}{_PATH}/{batch.id}/results" if ended and not self.archived else None,
        }

    def result(self, request: dict[str, Any]) -> dict[str, Any]:
        said = self.say(request["params"])
        return said if isinstance(said, dict) else {"type": "succeeded", "message": _message(request, said)}

    def lines(self, batch: Batch) -> list[bytes]:
        """The results, in another order than the questions."""
        return [
            json.dumps({"custom_id": request["custom_id"], "result": self.result(request)}).encode() + b"\n"
            for request in reversed(batch.requests)
        ]


def errored(kind: str = "invalid_request_error", message: str = "no") -> dict[str, Any]:
    """The result of a request that failed."""
    return {"type": "errored", "error": {"type": "error", "error": {"type": kind, "message": message}}}


def message(text: str, stop: str = "end_turn") -> dict[str, Any]:
    """The result of a request that was answered."""
    return {
        "type": "succeeded",
        "message": {**_message({"params": {"model": "m"}}, text), "stop_reason": stop},
    }


@contextmanager
def serving(server: BatchServer) -> Iterator[BatchServer]:
    """Serve on a free port."""
    with loopback.serving(server.answer) as running:
        server.url = running.url
        yield server


def _params(requests: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield from (request["params"] for request in requests)


def _message(request: dict[str, Any], text: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request["params"]["model"],
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1000, "output_tokens": 100, "service_tier": "batch"},
    }


def _page(server: BatchServer, request: Request) -> dict[str, Any]:
    newest = list(reversed(server.batches.values()))
    names = [batch.id for batch in newest]
    after = request.param("after_id")
    start = names.index(after) + 1 if after else 0
    limit = int(request.param("limit") or 20)
    for batch in newest:
        batch.looks += 1
    shown = [server.shown(batch) for batch in newest[start : start + limit]]
    return {
        "data": shown,
        "has_more": start + limit < len(names),
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
    }


def _error(status: int, kind: str, said: str) -> tuple[int, Any]:
    return status, {"type": "error", "error": {"type": kind, "message": said}}


def _not_found() -> tuple[int, Any]:
    return _error(404, "not_found_error", "not found")
