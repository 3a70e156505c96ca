"""Stands in for the model, so that the example needs no key: OpenAI's shapes, and a calculator behind them.

`stand-in-rounding` is the model that rounds what it reads to two places, as hurried ones do.
"""

from __future__ import annotations

import ast
import json
import re
from types import SimpleNamespace
from typing import Any

_NAMES: dict[type, str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}


class Client:
    """What `openai.OpenAI` is to the agent."""

    def __init__(self) -> None:
        self.chat = SimpleNamespace(completions=self)

    def create(self, *, model: str, messages: list[dict[str, Any]], **_: Any) -> SimpleNamespace:
        """The next message: one tool call, or the answer."""
        results = [float(message["content"]) for message in messages if message["role"] == "tool"]
        if model == "stand-in-rounding":
            results = [round(value, 2) for value in results]
        problem = re.search(r"[(\d][\d\s.+*/()-]*[\d)]", messages[1]["content"])
        if problem is None:
            return _reply("I see no problem to solve.", None)
        step = _step(ast.parse(problem[0], mode="eval").body, results)
        if isinstance(step, float):
            return _reply(f"The answer is {step}", None)
        name, a, b = step
        function = SimpleNamespace(name=name, arguments=json.dumps({"a": a, "b": b}))
        return _reply(None, [SimpleNamespace(id=f"call_{len(messages)}", function=function)])


def _reply(content: str | None, calls: list[Any] | None) -> SimpleNamespace:
    message = SimpleNamespace(content=content, tool_calls=calls)
    return SimpleNamespace(choices=[SimpleNamespace(message=message)])


def _step(node: ast.expr, results: list[float]) -> float | tuple[str, float, float]:
    """The value of an expression, or the first operation of it that nobody has worked out yet."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if not isinstance(node, ast.BinOp):
        raise ValueError("only + - * / are known")
    left = _step(node.left, results)
    if not isinstance(left, float):
        return left
    right = _step(node.right, results)
    if not isinstance(right, float):
        return right
    return results.pop(0) if results else (_NAMES[type(node.op)], left, right)
