"""Identifiers are words of the field, and a class name means one thing."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("replay", "importers", "diff", "cases", "reports")
PRIVATE = frozenset(
    [
        "told",
        "said",
        "asked",
        "telling",
        "desk",
        "booth",
        "crew",
        "seat",
        "panel",
        "ballot",
        "kin",
        "kinship",
        "parting",
        "walk",
        "tally",
        "nonsense",
    ]
)
"""Words that say nothing to who did not write the code: a request, a response, progress, a decision … do."""


@functools.cache
def _modules() -> tuple[tuple[str, ast.Module], ...]:
    """Return each module's path and syntax tree."""
    return tuple(
        (file.relative_to(ROOT).as_posix(), ast.parse(file.read_text(encoding="utf-8")))
        for package in PACKAGES
        for file in sorted((ROOT / package).rglob("*.py"))
    )


def _room(path: str) -> str:
    """Return `replay/engine` for a module in a folder of replay, else its package: `importers`, `replay`."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "replay" and len(parts) > 2 else parts[0]


def _identifiers(path: str, tree: ast.Module) -> Iterator[str]:
    yield Path(path).stem
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def _words(identifier: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier)}


def _private_by_room() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path, tree in _modules():
        # CrewAI is a name of the field.
        if not path.startswith("replay/demo/files/") and not path.endswith("frameworks/crewai.py"):
            found[_room(path)] |= {
                f"{path}: {name}" for name in _identifiers(path, tree) if _words(name) & PRIVATE
            }
    return found


@pytest.mark.parametrize(
    ("identifier", "words"),
    [
        ("told", {"told"}),
        ("_asked_for", {"asked", "for"}),
        ("WorkerDied", {"worker", "died"}),
        ("read2said", {"read", "said"}),
        ("MOST_ASKED", {"most", "asked"}),
    ],
)
def test_an_identifier_is_taken_apart_into_words(identifier: str, words: set[str]) -> None:
    assert _words(identifier) == words


def test_identifiers_are_words_of_the_field() -> None:
    assert {room: names for room, names in _private_by_room().items() if names} == {}


def test_no_class_name_means_two_things() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in _modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_docstrings_describe_arguments_that_exist() -> None:
    """A renamed argument is renamed in its description, too."""
    wrong = [
        f"{path}:{node.lineno} {node.name}: {name}"
        for path, tree in _modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for name in _described(node)
        if name not in {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
    ]
    assert not wrong


def _described(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the names under `Args:` of a docstring."""
    found = re.search(r"^Args:\n((?: {4}.*\n?|\n)+)", ast.get_docstring(node) or "", re.MULTILINE)
    lines = re.findall(r"^ {4}([\w*, ]+):", found[1], re.MULTILINE) if found else []
    return [name.strip(" *") for line in lines for name in line.split(",")]
