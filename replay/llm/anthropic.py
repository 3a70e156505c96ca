"""The Messages API, through the vendor's own client. Only this module and `batches` import `anthropic`.

Retries are ours (`Backoff`): the client obeys a `retry-after` of any length and hides its tries. 408, 409,
429, 5xx, connection errors, time-outs and answers that are no message (a proxy's page, JSON that breaks off)
are tried again; 401, 402, 403 and 404 concern every call and stop everything; any other refusal of a request
is that call's failure.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from replaydiff.replay.errors import CredentialsError
from replaydiff.replay.llm import prices
from replaydiff.replay.llm.base import (
    PASSING,
    RETRIES,
    Backoff,
    ModelFailure,
    ModelReply,
    ModelRequest,
    Stop,
    counted_usage,
    foreign_answer,
    refuse,
    retry_after,
)
from replaydiff.replay.llm.turns import as_tools, as_turns
from replaydiff.replay.model import ToolCall, Usage
from replaydiff.replay.settings import Price

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
"""Where the key is looked for; the first that is set counts."""
TIMEOUT_S = 120.0
"""Seconds for one request, until the last byte of its answer."""
NO_KEY_NEEDED = "none-needed-on-loopback"

_DIRECT = {"http://": None, "https://": None, "all://": None}
_STOPS = MappingProxyType(
    {
        "end_turn": Stop.END,
        "max_tokens": Stop.TRUNCATED,
        "model_context_window_exceeded": Stop.TRUNCATED,
        "refusal": Stop.REFUSED,
        "tool_use": Stop.TOOLS,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """How an error message names the requested model."""

    model: str
    """Whose model it is."""
    without: str
    """How to do without it."""
    setting: str
    """Where it is named."""


JUDGE = Purpose(
    model="the judge's model",
    without="take `model` out of [judge] in replay.toml to go without the judge",
    setting="[judge] in replay.toml",
)
SIMULATION = Purpose(
    model="the model that plays tools",
    without='leave on_miss = "simulate" out',
    setting="[simulate] in replay.toml",
)
USER = Purpose(
    model="the model that plays the user",
    without="take [user] out of replay.toml",
    setting="[user] in replay.toml",
)
AGENT = Purpose(
    model="the model of a `messages` version",
    without="name a version that brings its own",
    setting="the version (model = …), or the trace that names it",
)


def is_loopback(base_url: str | None) -> bool:
    """Return whether an address is on this machine: its model may be any, and costs nothing."""
    host = urlsplit(base_url).hostname if base_url else None
    return host is not None and (host in ("localhost", "::1") or host.startswith("127."))


def check_credentials(base_url: str | None = None, purpose: Purpose = JUDGE) -> None:
    """Find a key before anything is spent. `base_url` is that of the settings; loopback needs no key.

    Raises:
        CredentialsError: none is set.
    """
    if not is_loopback(base_url) and not any(os.environ.get(name) for name in KEYS):
        raise CredentialsError(
            f"{purpose.model} needs a key and {KEYS[0]} is not set", hint=f"set it, or {purpose.without}"
        )


@asynccontextmanager
async def connect(
    *,
    purpose: Purpose = JUDGE,
    base_url: str | None = None,
    prices: Mapping[str, Price] | None = None,
    retries: int = RETRIES,
    timeout_s: float = TIMEOUT_S,
    gated: bool = False,
    replayed: bool = False,
) -> AsyncIterator[AnthropicModel]:
    """Open a model provider for the duration of the context.

    Args:
        purpose: what it is asked for, which errors name.
        base_url: where the API answers; None: ANTHROPIC_BASE_URL, else the vendor's own.
        prices: the user's own prices, before the built-in table's.
        retries: tries after the first.
        timeout_s: seconds for one request, until the last byte of its answer.
        gated: every question goes through a gateway on this machine (`ModelRequest.via`).
        replayed: and it answers from a recording: no key is needed.

    Raises:
        CredentialsError: no key is set where one is needed.
    """
    if not replayed:
        check_credentials(base_url, purpose)
    from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

    # Its text is for programmers; `retirement` warns the user.
    warnings.filterwarnings("ignore", message="The model '.*' is deprecated", category=DeprecationWarning)
    local = is_loopback(base_url)
    direct: dict[str, Any] = {"trust_env": False, "mounts": _DIRECT}
    # Spans of our own questions do not belong into the user's telemetry. Version 1 makes none.
    spans: dict[str, Any] = {"open_telemetry": False} if "open_telemetry" in _parameters() else {}
    async with AsyncAnthropic(
        api_key=NO_KEY_NEEDED if local or replayed else None,
        base_url=base_url,
        timeout=timeout_s,
        max_retries=0,
        # A proxy of the environment cannot reach what answers on this machine.
        http_client=DefaultAsyncHttpxClient(**direct) if local or gated else None,
        **spans,
    ) as client:
        yield AnthropicModel(
            client, purpose, prices=prices or {}, retries=retries, timeout_s=timeout_s, free=local
        )


def _parameters() -> Collection[str]:
    """Return the names of the options of the vendor's client, which differ between its versions."""
    from anthropic import AsyncAnthropic

    return inspect.signature(AsyncAnthropic).parameters


def retirement(model: str) -> str | None:
    """Return a warning if the vendor has announced the end of this model; None otherwise."""
    from anthropic.resources.messages.messages import DEPRECATED_MODELS

    end = DEPRECATED_MODELS.get(model)
    return f"the model {model} reaches its end of life on {end}; name a newer one" if end else None


class _ForeignAnswerError(Exception):
    """An answer with status 200 that is no message."""


class AnthropicModel:
    """`Model` over the Messages API."""

    def __init__(
        self,
        client: Any,
        purpose: Purpose,
        *,
        prices: Mapping[str, Price],
        retries: int,
        timeout_s: float,
        free: bool,
    ) -> None:
        self.client, self._purpose = client, purpose
        self._free = free
        self._prices = prices
        self._retries, self._timeout_s = retries, timeout_s
        self._address = f"the model's API at {client.base_url}"
        self._backoff = Backoff()

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask once; see `Model.complete`."""
        arguments = arguments_of(request)
        client = self.client if request.via is None else self.client.with_options(base_url=request.via)

        async def create() -> Any:
            message = await client.messages.create(**arguments)
            if not _is_message(message):
                raise _ForeignAnswerError(message if isinstance(message, str) else "{}")
            return message

        message, attempts, ms = await self.attempt(create, request.model)
        return self.reply(request.model, message, attempts=attempts, ms=ms)

    async def attempt(
        self, call: Callable[[], Awaitable[Any]], model: str, *, only_if_refused: bool = False
    ) -> tuple[Any, int, float]:
        """Return the result of a call, the attempts it took, and the last one's duration in ms.

        With `only_if_refused` it is tried again only where it certainly did nothing: after 429.

        Raises:
            ModelFailure: it failed for good.
            ReplayError: no call can succeed.
        """
        import anthropic

        for attempt in range(1, self._retries + 2):
            await self._backoff.clear()
            retry_after_s: float | None = None
            certain = False
            began = time.perf_counter()
            try:
                # The client's own time-out is for each read: an answer that drips would never end.
                async with asyncio.timeout(self._timeout_s):
                    answer = await call()
            except anthropic.APIStatusError as error:
                problem = _problem(error)
                if error.status_code not in PASSING and error.status_code < 500:
                    refuse(
                        error.status_code, problem,
                        address="the model's API", answers="messages", key=KEYS[0],
                        model=model, setting=self._purpose.setting,
                    )  # fmt: skip
                retry_after_s = retry_after(error.response.headers)
                certain = error.status_code == 429
                problem = f"{self._address} answered {problem}"
            except (anthropic.APITimeoutError, TimeoutError):
                problem = f"{self._address} did not answer in time"
            except anthropic.APIConnectionError as error:
                problem = f"{self._address} cannot be reached: {_cause(error)}"
            except _ForeignAnswerError as error:
                problem = f"{self._address} answered {foreign_answer(200, str(error))}"
            except json.JSONDecodeError as error:
                problem = f"{self._address} answered {foreign_answer(200, error.doc)}"
            except (UnicodeDecodeError, anthropic.APIResponseValidationError):
                problem = f"{self._address} gave an answer that cannot be read"
            except (anthropic.AnthropicError, ValueError) as error:
                raise ModelFailure(f"the request was not sent: {error}", passing=False) from None
            else:
                return answer, attempt, (time.perf_counter() - began) * 1000
            if only_if_refused and not certain:
                raise ModelFailure(problem)
            if attempt <= self._retries:
                await self._backoff.pause(attempt, retry_after_s, problem)
        raise ModelFailure(f"{problem} ({self._retries + 1} tries)")

    def reply(
        self, model: str, message: Any, *, attempts: int = 1, ms: float = 0.0, share: float = 1.0
    ) -> ModelReply:
        """Convert a message to a reply; its price is `share` of the list price."""
        counted = getattr(message, "usage", None)
        usage = None if counted is None else counted_usage(counted.to_dict())
        cost = None if usage is None else prices.cost(model, usage, self._prices)
        return ModelReply(
            text="".join(block.text for block in message.content if block.type == "text"),
            stop=_STOPS.get(getattr(message, "stop_reason", None) or "", Stop.UNKNOWN),
            usage=usage or Usage(),
            cost_usd=0.0 if self._free else None if cost is None else cost * share,
            attempts=attempts,
            calls=tuple(
                ToolCall(name=block.name, args=block.input, call_id=block.id, answered=False, index=index)
                for index, block in enumerate(block for block in message.content if block.type == "tool_use")
            ),
            content=[block.to_dict() for block in message.content],
            latency_ms=ms,
        )


def arguments_of(request: ModelRequest) -> dict[str, Any]:
    """Return the client's arguments for a request."""
    arguments: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": as_turns(request.messages),
    }
    if request.system:
        arguments["system"] = request.system
    if request.tools:
        arguments["tools"] = as_tools(request.tools)
    if request.extra:
        arguments["extra_body"] = request.extra
    if request.schema is not None:
        arguments["output_config"] = {"format": {"type": "json_schema", "schema": request.schema}}
    return arguments


def _is_message(message: Any) -> bool:
    """Return whether an answer has what is read of it.

    The client returns a page as text, and any JSON as a message without its fields.
    """
    content = getattr(message, "content", None)
    return isinstance(content, list) and all(
        isinstance(getattr(block, "text", None), str)
        if getattr(block, "type", None) == "text"
        else isinstance(getattr(block, "type", None), str)
        for block in content
    )


def _problem(error: Any) -> str:
    """Return `429 rate_limit_error: too many requests`, from the API's own words."""
    if str(error.message).startswith("<"):
        return foreign_answer(error.status_code, error.message)
    details = error.body.get("error") if isinstance(error.body, dict) else None
    details = details if isinstance(details, dict) else {}
    text = " ".join(str(details.get("message") or error.message).split())
    kind = details.get("type")
    return f"{error.status_code} {kind}: {text[:300]}" if kind else f"{error.status_code} {text[:300]}"


def _cause(error: BaseException) -> str:
    cause = error.__cause__ or error
    return " ".join(str(cause).split()) or type(cause).__name__
