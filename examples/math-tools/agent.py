"""An agent that calculates with four tools, and logs each event of its way.

`MathToolsAgent(client).solve("15 - 3 / 4")` gives a dict with `result` and `tool_calls`. The client is
anything with OpenAI's `chat.completions.create`: `stand_in.Client()` here, which needs no key, or `OpenAI()`.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stand_in

SYSTEM = "Work the problem out step by step with the tools; answer with the number alone at the end."


def add(a: float, b: float) -> float:
    """The sum."""
    return a + b


def sub(a: float, b: float) -> float:
    """The difference."""
    return a - b


def mul(a: float, b: float) -> float:
    """The product."""
    return a * b


def div(a: float, b: float) -> float:
    """The quotient; b must not be 0."""
    if b == 0:
        raise ValueError("division by zero")
    return a / b


TOOLS: dict[str, Callable[[float, float], float]] = {"add": add, "sub": sub, "mul": mul, "div": div}
_NUMBERS = {name: {"type": "number"} for name in ("a", "b")}
SCHEMAS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": tool.__doc__,
            "parameters": {"type": "object", "properties": _NUMBERS, "required": ["a", "b"]},
        },
    }
    for name, tool in TOOLS.items()
]


class MathToolsAgent:
    """Solves problems one after another; keeps the events of the last."""

    def __init__(
        self,
        client: Any,
        model_name: str = "stand-in",
        system_message: str = SYSTEM,
        logdir: str | None = None,
    ) -> None:
        self.client, self.model_name, self.system_message = client, model_name, system_message
        self.logdir = logdir
        self.events: list[dict[str, Any]] = []

    def solve(self, problem: str, max_iterations: int = 10, run_id: str | None = None) -> dict[str, Any]:
        """The result, or the text of an error; always a dict."""
        self.events = []
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": self.system_message},
            {"role": "user", "content": problem},
        ]
        calls: list[dict[str, Any]] = []
        try:
            result = self._loop(messages, calls, max_iterations)
        except Exception as error:  # noqa: BLE001 - whatever happens, there is a result
            result = f"error: {error}"
        self._event("result_extraction", "agent", {"result": result})
        found: dict[str, Any] = {"result": str(result), "tool_calls": calls}
        if self.logdir is not None:
            found["log_file"] = self._export(run_id or uuid.uuid4().hex[:8])
        return found

    def _loop(
        self, messages: list[dict[str, Any]], calls: list[dict[str, Any]], max_iterations: int
    ) -> float | str:
        for _ in range(max_iterations):
            self._event("llm_call", "llm", {"model": self.model_name, "messages": list(messages)})
            reply = self.client.chat.completions.create(
                model=self.model_name, messages=messages, tools=SCHEMAS
            )
            message = reply.choices[0].message
            requests = message.tool_calls or []
            self._event(
                "llm_response",
                "llm",
                {"content": message.content, "tool_calls": [call.function.name for call in requests]},
            )
            if not requests:
                numbers = re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", message.content)
                return float(numbers[-1]) if numbers else f"error: no number in {message.content!r}"
            messages.append(_as_message(message.content, requests))
            for call in requests:
                args = json.loads(call.function.arguments)
                self._event("tool_execution", "tools", {"name": call.function.name, "args": args})
                value = TOOLS[call.function.name](**args)
                self._event("tool_result", "tools", {"name": call.function.name, "result": value})
                calls.append({"name": call.function.name, "args": args, "result": value})
                messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(value)})
        return f"error: no answer after {max_iterations} iterations"

    def _event(self, event_type: str, component: str, data: dict[str, Any]) -> None:
        event = {"event_type": event_type, "component": component, "data": data, "at": time.time()}
        self.events.append(event)

    def _export(self, run_id: str) -> str:
        file = Path(self.logdir or ".") / f"{run_id}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(self.events, indent=1))
        return str(file)


def _as_message(content: str | None, requests: list[Any]) -> dict[str, Any]:
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in requests
    ]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def create_agent(model_name: str = "stand-in", logdir: str | None = None) -> MathToolsAgent:
    """The agent with its client: the stand-in's, or the real one for the name of a real model."""
    if model_name.startswith("stand-in"):
        return MathToolsAgent(stand_in.Client(), model_name, logdir=logdir)
    from openai import OpenAI

    return MathToolsAgent(OpenAI(), model_name, logdir=logdir)
