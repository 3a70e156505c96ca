"""Chat completions, as OpenAI and many others answer them: gateways, and servers of open models.

Not all of them take all of the API, so a request is put more plainly where one is refused for its form, and
all further ones are as plain:

    answers     `response_format` with the JSON Schema; else a JSON object; else text. Without the schema in
                the request it stands at the end of the system prompt
    length      `max_completion_tokens` at OpenAI's own address, `max_tokens` elsewhere; else the other one

Retries are those of the Messages API (`replay.llm.base`): 408, 409, 429, 5xx, cut connections and
time-outs are tried again. No tools are offered: what plays tools or agents speaks the Messages API.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from replaydiff.replay.errors import CredentialsError, SettingsError
from replaydiff.replay.llm import prices
from replaydiff.replay.llm.anthropic import JUDGE, TIMEOUT_S, Purpose, is_loopback
from replaydiff.replay.llm.attachments import as_chat_part, pieces_of
from replaydiff.replay.llm.base import (
    PASSING,
    RETRIES,
    Backoff,
    ModelFailure,
    ModelReply,
    ModelRequest,
    Stop,
    bare,
    counted_usage,
    foreign_answer,
    refuse,
    retry_after,
    with_schema,
)
from replaydiff.replay.model import JsonObject, Message, Usage
from replaydiff.replay.settings import Price

if TYPE_CHECKING:
    import httpx

KEY = "OPENAI_API_KEY"
"""Where the key is looked for."""
BASE_URL_VARIABLE = "OPENAI_BASE_URL"
BASE_URL = "https://api.openai.com/v1"
"""Where the API answers if neither the settings nor the environment says so."""

_STOPS = MappingProxyType(
    {
        "stop": Stop.END,
        "length": Stop.TRUNCATED,
        "content_filter": Stop.REFUSED,
        "tool_calls": Stop.TOOLS,
    }
)
_FORMS = ("json_schema", "json_object", "text")
"""How an answer's form is asked for, the strictest first."""
_FORM_REFUSED = re.compile(r"response.?format|json.?schema|json.?object|structured|guided|grammar", re.I)
_UNSUPPORTED = re.compile(
    r"not supported|unsupported|unknown|unrecogni|unexpected|extra|not permitted|instead", re.I
)
_LENGTHS = ("max_completion_tokens", "max_tokens")


def check_credentials(base_url: str | None = None, purpose: Purpose = JUDGE) -> None:
    """Find a key before anything is spent. `base_url` is that of the settings; loopback needs no key.

    Raises:
        CredentialsError: none is set.
        SettingsError: the address is none.
    """
    _address(base_url, purpose)
    if not is_loopback(base_url) and not os.environ.get(KEY):
        raise CredentialsError(
            f"{purpose.model} needs a key and {KEY} is not set",
            hint=f"set it (to anything where the endpoint wants none), or {purpose.without}",
        )


def foreign_host(base_url: str | None) -> str | None:
    """Return the host of the endpoint; None for OpenAI's own."""
    host = urlsplit(base_url or os.environ.get(BASE_URL_VARIABLE) or BASE_URL).hostname
    return None if host == urlsplit(BASE_URL).hostname else host


def endpoint(base_url: str | None, purpose: Purpose) -> tuple[str, dict[str, str]]:
    """Return the address of an API of OpenAI's form and the headers with its key; on loopback none is sent.

    Raises:
        CredentialsError: no key is set where one is needed, or it is none.
        SettingsError: the address is none.
    """
    check_credentials(base_url, purpose)
    address = _address(base_url, purpose)
    key = "" if is_loopback(base_url) else os.environ[KEY].strip()
    if not key.isascii():
        raise CredentialsError(f"{KEY} holds characters that no key has", hint="set it to a valid one")
    return address, {"Authorization": f"Bearer {key}"} if key else {}


@asynccontextmanager
async def connect(
    *,
    purpose: Purpose = JUDGE,
    base_url: str | None = None,
    prices: Mapping[str, Price] | None = None,
    retries: int = RETRIES,
    timeout_s: float = TIMEOUT_S,
) -> AsyncIterator[OpenAICompatibleModel]:
    """Open a provider for the duration of the context.

    Args:
        purpose: what it is asked for, which errors name.
        base_url: what `/chat/completions` is put behind; None: OPENAI_BASE_URL, else OpenAI's own.
        prices: the user's own prices, before the built-in table's.
        retries: tries after the first.
        timeout_s: seconds for one request, until the last byte of its answer.

    Raises:
        CredentialsError: no key is set where one is needed.
        SettingsError: the address is none.
    """
    import httpx

    address, headers = endpoint(base_url, purpose)
    local = is_loopback(base_url)
    # A proxy of the environment cannot reach what answers on this machine.
    async with httpx.AsyncClient(headers=headers, timeout=timeout_s, trust_env=not local) as client:
        yield OpenAICompatibleModel(
            client,
            purpose,
            address=address,
            secret=headers.get("Authorization", "").removeprefix("Bearer "),
            prices=prices or {},
            retries=retries,
            timeout_s=timeout_s,
            free=local,
        )


class OpenAICompatibleModel:
    """`Model` over chat completions."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        purpose: Purpose,
        *,
        address: str,
        secret: str,
        prices: Mapping[str, Price],
        retries: int,
        timeout_s: float,
        free: bool,
    ) -> None:
        self._client, self._purpose = client, purpose
        self._url, self._secret = f"{address}/chat/completions", secret
        self._address = f"the model's API at {_shown(address)}"
        self._prices, self._retries, self._timeout_s, self._free = prices, retries, timeout_s, free
        self._backoff = Backoff()
        self._form = 0
        self._length = 0 if urlsplit(address).hostname == urlsplit(BASE_URL).hostname else 1
        self._lengths_tried = {self._length}

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask once; see `Model.complete`."""
        import httpx

        if request.tools:
            raise ModelFailure("chat completions are not asked with tools here", passing=False)
        failures = requests = 0
        while True:
            await self._backoff.clear()
            retry_after_s: float | None = None
            form, length = self._form, self._length
            requests += 1
            began = time.perf_counter()
            try:
                # The client's own time-out is for each read: an answer that drips would never end.
                async with asyncio.timeout(self._timeout_s):
                    answer = await self._client.post(self._url, json=_body(request, _FORMS[form], length))
                ms = (time.perf_counter() - began) * 1000
                body = _object(answer)
                status, problem = self._problem(answer, body)
                if not problem:
                    return self._reply(request, body, form, requests, ms)
                if status in (400, 404, 422, 500, 501) and self._put_plainly(request, problem, form, length):
                    continue
                if (status not in PASSING and 300 <= status < 500) or _never_paid(body):
                    refuse(
                        status, problem,
                        address=self._address, answers="chat completions", key=KEY,
                        model=request.model, setting=self._purpose.setting,
                    )  # fmt: skip
                retry_after_s = retry_after(answer.headers)
                problem = f"{self._address} answered {problem}"
            except (httpx.TimeoutException, TimeoutError):
                problem = f"{self._address} did not answer in time"
            except httpx.TransportError as error:
                detail = " ".join(str(error).split()) or type(error).__name__
                problem = f"{self._address} cannot be reached: {detail}"
            except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
                raise ModelFailure(f"the request was not sent: {error}", passing=False) from None
            failures += 1
            if failures > self._retries:
                raise ModelFailure(f"{problem} ({failures} tries)")
            await self._backoff.pause(failures, retry_after_s, problem)

    def _problem(self, answer: httpx.Response, body: JsonObject) -> tuple[int, str]:
        """Return the effective status, and the API's message about an answer.

        "" where nothing.

        Gateways answer 200 with the error of whom they asked.
        """
        error = body.get("error") or (_choice(body) or {}).get("error")
        status = answer.status_code
        if status < 300 and not error:
            return status, "" if _choice(body) else foreign_answer(status, answer.text)
        about = error if isinstance(error, dict) else {"message": error if isinstance(error, str) else ""}
        code = about.get("code")
        if status < 300:
            status = code if isinstance(code, int) and 300 <= code < 600 else 500
        detail = about.get("message") or body.get("detail") or body.get("message") or answer.reason_phrase
        text = " ".join(str(detail).split())
        if self._secret:
            text = text.replace(self._secret, "…")
        return status, f"{status} {text[:300]}".rstrip()

    def _put_plainly(self, request: ModelRequest, problem: str, form: int, length: int) -> bool:
        """Return whether a request was refused for its form and a plainer one remains, now in use."""
        if _LENGTHS[length] in problem and _UNSUPPORTED.search(problem):
            alternative = 1 - length
            if self._length == length and alternative not in self._lengths_tried:
                self._length = alternative
                self._lengths_tried.add(alternative)
            return self._length != length
        if request.schema is None or form + 1 == len(_FORMS) or not _FORM_REFUSED.search(problem):
            return False
        self._form = max(self._form, form + 1)
        return True

    def _reply(
        self, request: ModelRequest, body: JsonObject, form: int, requests: int, ms: float
    ) -> ModelReply:
        choice = _choice(body) or {}
        message = choice.get("message")
        message = message if isinstance(message, dict) else {}
        text, refusal = _text(message.get("content")), message.get("refusal")
        stop = _STOPS.get(str(choice.get("finish_reason")), Stop.UNKNOWN)
        usage = counted_usage(body.get("usage"))
        cost = prices.cost(request.model, usage, self._prices) if usage is not None else None
        return ModelReply(
            text=bare(text) if request.schema is not None and form else text,
            stop=Stop.REFUSED if isinstance(refusal, str) and refusal else stop,
            usage=usage or Usage(),
            cost_usd=0.0 if self._free else cost,
            attempts=requests,
            content=message,
            latency_ms=ms,
        )


def _address(base_url: str | None, purpose: Purpose) -> str:
    url = (base_url or os.environ.get(BASE_URL_VARIABLE) or BASE_URL).strip().rstrip("/")
    named = f"base_url of {purpose.setting}" if base_url else BASE_URL_VARIABLE
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or parts.username or parts.password:
        raise SettingsError(f"{named} must be an address like https://host/v1, without a user or key in it")
    return url


def _shown(address: str) -> str:
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))


def _body(request: ModelRequest, form: str, length: int) -> dict[str, Any]:
    system = request.system
    body: dict[str, Any] = {"model": request.model, _LENGTHS[length]: request.max_tokens}
    if request.schema is not None:
        if form == "json_schema":
            schema = {"name": "answer", "strict": True, "schema": request.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        else:
            system = with_schema(system, request.schema)
            if form == "json_object":
                body["response_format"] = {"type": "json_object"}
    turns = [turn for turn in request.messages if isinstance(turn, Message) and turn.role != "system"]
    body["messages"] = [
        *([{"role": "system", "content": system}] if system else []),
        *({"role": turn.role, "content": _content(turn)} for turn in turns),
    ]
    return {**body, **request.extra}


def _content(turn: Message) -> Any:
    return turn.text if turn.parts is None else [as_chat_part(piece) for piece in pieces_of(turn)]


def _object(answer: httpx.Response) -> JsonObject:
    try:
        value = json.loads(answer.content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _choice(body: JsonObject) -> JsonObject | None:
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else None


def _text(content: Any) -> str:
    """Return a text, or the texts of a list of parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _never_paid(body: JsonObject) -> bool:
    """Return whether a 429 means an empty account: then waiting does not help."""
    error = body.get("error")
    return isinstance(error, dict) and "insufficient_quota" in (error.get("code"), error.get("type"))
