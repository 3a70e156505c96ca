"""Chat completions on loopback, as strict or as simple as a test wants them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.stand_ins.loopback import Loopback, Request, serving

USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 40}}


def completion(text: Any, *, stop: str | None = "stop", **more: Any) -> dict[str, Any]:
    """A whole answer with this text; `more` goes into its message."""
    message = {"role": "assistant", "content": text, **more}
    return {"choices": [{"index": 0, "message": message, "finish_reason": stop}], "usage": USAGE}


def error(message: str, **more: Any) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"message": message, "type": "invalid_request_error", **more}}


@dataclass
class Chat:
    """A server of chat completions. What it refuses, it refuses in the words of such servers."""

    say: Callable[[dict[str, Any]], Any] = lambda _: completion("Hello.")
    """The body of an answer, or (status, body), for the body of a request."""
    forms: tuple[str, ...] = ("json_schema", "json_object")
    """Response formats that it knows."""
    refusal: int = 400
    """The status with which it refuses another format; llama-cpp-python's server answers 500."""
    length: str | None = None
    """The one parameter for the length that it knows; None: both."""
    asked: list[Request] = field(default_factory=list)
    """Every request, refused ones too."""

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.body for request in self.asked]

    def answer(self, request: Request) -> tuple[int, Any]:
        self.asked.append(request)
        if request.path != "/v1/chat/completions":
            return 404, {"detail": "Not Found"}
        body = request.body
        for name in ("max_tokens", "max_completion_tokens"):
            if name in body and self.length not in (None, name):
                return 400, error(f"Unsupported parameter: '{name}' is not supported with this model.")
        form = body.get("response_format", {}).get("type")
        if form is not None and form not in self.forms:
            return self.refusal, error(
                f"Invalid parameter: 'response_format' of type '{form}' is not supported."
            )
        said = self.say(body)
        return said if isinstance(said, tuple) else (200, said)


@contextmanager
def chat(behaviour: Chat) -> Iterator[tuple[str, Loopback]]:
    """Its `base_url`, and the server."""
    with serving(behaviour.answer) as server:
        yield f"{server.url}/v1", server
