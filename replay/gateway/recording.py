"""What one try at a trial asked of models, and what that says of the trial."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from replaydiff.replay.clock import utc_now
from replaydiff.replay.gateway.answers import ModelAnswer, read_answer
from replaydiff.replay.llm import prices
from replaydiff.replay.messages import join_results, parse, read_messages
from replaydiff.replay.model import (
    Json,
    Lane,
    ModelCall,
    ToolCall,
    Usage,
)
from replaydiff.replay.settings import Price

CUT = "the trial ended before the answer was whole"


@dataclass(slots=True, kw_only=True)
class Exchange:
    """A request and what became of it; without `close` it was cut off."""

    api: str
    path: str
    request: Json
    request_hash: str
    status: int | None = None
    content_type: str = ""
    response: str | None = None
    error: str | None = CUT
    answer: ModelAnswer = field(default_factory=ModelAnswer)
    latency_ms: float | None = None
    started_at: datetime = field(default_factory=utc_now)
    _began: float = field(default_factory=time.perf_counter)

    def close(
        self,
        status: int,
        content_type: str,
        sent: bytes,
        shown: bytes | None = None,
        usage: Usage | None = None,
    ) -> None:
        """The answer is whole.

        Args:
            status: of HTTP.
            content_type: what the answer is.
            sent: what the agent gets.
            told: what the provider said, where that is more.
            usage: its tokens, where they are known from elsewhere.
        """
        self.status, self.content_type, self.error = status, content_type, None
        self.response = sent.decode("utf-8", "replace")
        whole = self.response if shown is None else shown.decode("utf-8", "replace")
        self.answer = read_answer(content_type, whole)
        if usage is not None:
            self.answer = replace(self.answer, usage=usage)
        self.latency_ms = (time.perf_counter() - self._began) * 1000

    def fail(self, error: str) -> None:
        """There will be no whole answer."""
        self.error = error
        self.latency_ms = (time.perf_counter() - self._began) * 1000


class Line:
    """The requests of one try at a trial, in the order in which they came."""

    def __init__(
        self, run_id: str, item_id: str, lane: Lane, trial: int, *, own: Mapping[str, Price], keep: bool
    ) -> None:
        """A line of a trial; `own` are the user's prices, `keep` says whether its requests are stored."""
        self.run_id, self.item_id, self.lane, self.trial = run_id, item_id, lane, trial
        self.unrecorded: str | None = None
        """A request that the recording has no answer to; None where there was none."""
        self.keeps = keep
        """Its requests are stored."""
        self._own = own
        self._exchanges: list[Exchange] = []
        self._requested: Counter[str] = Counter()
        self._over = False

    def begin(self, api: str, method: str, path: str, body: bytes) -> Exchange:
        """A request has come."""
        request = _read(body)
        exchange = Exchange(
            api=api, path=path, request=request, request_hash=request_hash(api, method, path, request)
        )
        # One that comes when the trial is over is of no trial any more.
        if not self._over:
            self._exchanges.append(exchange)
        return exchange

    def nth(self, request_hash: str) -> int:
        """How often this request came before in this line; counts it."""
        self._requested[request_hash] += 1
        return self._requested[request_hash] - 1

    def end(self) -> tuple[ModelCall, ...]:
        """End the trial; return its requests."""
        self._over = True
        return self._calls()

    def _calls(self) -> tuple[ModelCall, ...]:
        results = _results(self._exchanges)
        return tuple(
            ModelCall(
                run_id=self.run_id,
                item_id=self.item_id,
                lane=self.lane,
                trial=self.trial,
                index=index,
                api=exchange.api,
                path=exchange.path,
                request_hash=exchange.request_hash,
                request=exchange.request,
                status=exchange.status,
                content_type=exchange.content_type or None,
                response=exchange.response,
                error=exchange.error,
                model=exchange.answer.model or _model_of(exchange.request),
                tool_calls=tuple(
                    results.get(call.call_id or "", call) for call in exchange.answer.tool_calls
                ),
                usage=exchange.answer.usage,
                cost_usd=self._cost(exchange),
                latency_ms=exchange.latency_ms,
                started_at=exchange.started_at,
            )
            for index, exchange in enumerate(self._exchanges)
        )

    def _cost(self, exchange: Exchange) -> float | None:
        if exchange.status is not None and exchange.status >= 400:
            return 0.0
        model = exchange.answer.model or _model_of(exchange.request)
        if model is None or exchange.answer.usage is None:
            return None
        return prices.cost(model, exchange.answer.usage, self._own)


def request_hash(api: str, method: str, path: str, request: Json) -> str:
    """What is the same request: the same method, path and body, however its JSON is laid out."""
    text = json.dumps([api, method, path, request], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _read(body: bytes) -> Json:
    try:
        value: Json = parse(body) if body else None
    except ValueError:
        value = body.decode("utf-8", "replace")
    return value


def _model_of(request: Json) -> str | None:
    model = request.get("model") if isinstance(request, dict) else None
    return model if isinstance(model, str) else None


def _results(exchanges: Sequence[Exchange]) -> dict[str, ToolCall]:
    """By their ids, the tool calls that a request tells the results of."""
    found: dict[str, ToolCall] = {}
    for exchange in exchanges:
        if not isinstance(exchange.request, dict):
            continue
        turns = exchange.request.get("messages", exchange.request.get("input"))
        for call in join_results(read_messages(turns) or ()):
            if call.answered and call.call_id:
                found[call.call_id] = call
    return found
