"""The corpus: ways to hold a named tool, each a module whose tool has effects when it runs.

A shape is a module with `call()`, which reaches the tool `cancel` for the order "7" in its own way. Its tool
calls `real()`, which writes to a file outside the agent's folder and connects to servers. In a replay none of
that may happen: the call is answered, or the version does not start, or what the tool does is blocked.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """One way to hold a tool."""

    group: str
    name: str
    """What the table of the documentation calls it."""
    source: str
    """The module."""
    points: tuple[str, ...]
    """Attributes of the module that are named in `tools`."""
    refused: str = ""
    """A part of the sentence with which it is refused; empty where it is answered."""
    answers: int = 1
    """How many calls are answered."""
    passes: bool = False
    """It passes the patch points: the tool runs, and what it does is blocked."""
    since: tuple[int, int] = (3, 9)
    """The first Python that has it."""
    needs: str = ""
    """A package that the agent's Python must have."""

    @property
    def module(self) -> str:
        """A name for its module."""
        words = "".join(letter if letter.isalnum() else "_" for letter in f"{self.group}_{self.name}")
        return f"shape_{words}".lower()


SHAPES: list[Shape] = []

PRELUDE = """
import asyncio, collections, collections.abc, contextvars, copy, dataclasses, enum, functools, importlib, os, sys, threading, types
import typing, weakref
from canary import real
"""


def shape(
    group: str,
    name: str,
    points: str,
    source: str,
    call: str,
    *,
    refused: str = "",
    answers: int = 1,
    passes: bool = False,
    since: tuple[int, int] = (3, 9),
    needs: str = "",
) -> None:
    body = textwrap.dedent(source).strip()
    text = f"{PRELUDE}\n{body}\n\ndef call():\n{textwrap.indent(textwrap.dedent(call).strip(), '    ')}\n"
    SHAPES.append(Shape(group, name, text, tuple(points.split()), refused, answers, passes, since, needs))


CANCEL = "def cancel(order_id):\n    return real(order_id)\n"
SHOP = "class Shop:\n    def cancel(self, order_id): return real(order_id)\n"


def held(name: str, source: str, call: str, **options: object) -> None:
    """A function that is named itself, and held elsewhere."""
    shape("holder", name, "cancel", CANCEL + textwrap.dedent(source), call, **options)  # type: ignore[arg-type]


def table(name: str, source: str, call: str, **options: object) -> None:
    """A table that is named."""
    shape("table", name, "TOOLS", CANCEL + textwrap.dedent(source), call, **options)  # type: ignore[arg-type]
