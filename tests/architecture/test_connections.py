"""Whoever waits for a query of the store can be interrupted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("replay", "importers", "diff", "cases", "reports")
REGISTERS = "interruptible"


def _opens(node: ast.AST) -> bool:
    """Whether a call opens a connection or a cursor; one of a database in memory takes no time to speak of."""
    match node:
        case ast.Call(func=ast.Attribute(attr="cursor")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name("duckdb"), attr="connect"), args=args):
            return not any(isinstance(one, ast.Constant) and one.value == ":memory:" for one in args)
    return False


def unregistered(source: str) -> Iterator[int]:
    """Yield the lines that open a connection or cursor without `interruptible(…)` around it."""
    tree = ast.parse(source)
    registered = {
        id(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == REGISTERS
        for argument in node.args
    }
    for node in ast.walk(tree):
        if _opens(node) and id(node) not in registered:
            assert isinstance(node, ast.Call)
            yield node.lineno


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("duckdb.connect(path)", [1]),
        ("x = 1\nrows = con.cursor().execute('SELECT 1')", [2]),
        ("interruptible(con.cursor()).execute('SELECT 1')", []),
        ("with interruptible(duckdb.connect(path)) as con: ...", []),
        ("duckdb.connect(':memory:')", []),
    ],
)
def test_what_is_not_registered_is_found(source: str, found: list[int]) -> None:
    assert list(unregistered(source)) == found


def test_a_signal_interrupts_every_connection() -> None:
    places = [
        f"{file.relative_to(ROOT)}:{line}"
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        for line in unregistered(file.read_text(encoding="utf-8"))
    ]
    assert not places, f"wrap them in {REGISTERS}(…), of replay/interruption.py"
