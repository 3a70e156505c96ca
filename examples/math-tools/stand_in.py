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
        known = [float(message["content"]) for message in messages if message["role"] == "tool"]
        if model == "stand-in-rounding":
            known = [round(value, 2) for value in known]
        found = re.search(r"[(\d][\d\s.+*/()-]*[\d)]", messages[1]["content"])
        if found is None:
            return _reply("I see no problem to solve.", None)
        said = _step(ast.parse(found[0], mode="eval").body, known)
        if isinstance(said, float):
            return _reply(f"The answer is {said}", None)
        name, a, b = said
        function = SimpleNamespace(name=name, arguments=json.dumps({"a": a, "b": b}))
        return _reply(None, [SimpleNamespace(id=f"call_{len(messages)}", function=function)])


def _reply(content: str | None, calls: list[Any] | None) -> SimpleNamespace:
    message = SimpleNamespace(content=content, tool_calls=calls)
    return SimpleNamespace(choices=[SimpleNamespace(message=message)])


def _step(node: ast.expr, known: list[float]) -> float | tuple[str, float, float]:
    """The value of an expression, or the first operation of it that nobody has worked out yet."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if not isinstance(node, ast.BinOp):
        raise ValueError("only + - * / are known")
    left = _step(node.left, known)
    if not isinstance(left, float):
        return left
    right = _step(node.right, known)
    if not isinstance(right, float):
        return right
    return known.pop(0) if known else (_NAMES[type(node.op)], left, right)
