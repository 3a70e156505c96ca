"""agentevals as a witness, where it is installed (it brings langchain, so it is no dependency) and defines the
same: the same answer for every list of calls; and the places where it does not, each with both answers."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from replaydiff.diff.graders.matching import match
from replaydiff.replay.model import ExpectedCall, Match, ToolCall

agentevals = pytest.importorskip("agentevals.trajectory.match", reason="agentevals is not installed")

MODES = ("strict", "unordered", "subset", "superset")
# What the two call the same way of comparing arguments: here by the expected call, there by the made one.
ARGS = {"exact": "exact", "ignore": "ignore", "subset": "superset"}
Calls = list[tuple[str, dict[str, Any]]]


def _messages(calls: Calls) -> list[dict[str, Any]]:
    """One call a message: of several in one message agentevals ignores the order, even where it is strict."""
    return [
        {
            "role": "assistant", "content": "",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
            ],
        }
        for name, args in calls
    ]  # fmt: skip


def _theirs(mode: str, args: str, expected: Calls, made: Calls) -> bool:
    evaluate = agentevals.create_trajectory_match_evaluator(
        trajectory_match_mode=mode, tool_args_match_mode=ARGS[args]
    )
    return bool(evaluate(outputs=_messages(made), reference_outputs=_messages(expected))["score"])


def _ours(mode: str, args: str, expected: Calls, made: Calls) -> bool:
    wanted = [ExpectedCall(name=name, args=dict(given)) for name, given in expected]
    calls = [ToolCall(name=name, args=dict(given)) for name, given in made]
    return match(wanted, calls, Match(mode=mode, args=args)).passed  # type: ignore[arg-type]


def _random(rng: random.Random) -> Calls:
    pool: list[dict[str, Any]] = [
        {},
        {"a": 1},
        {"a": 1.0, "b": "x"},
        {"b": "x", "a": 2},
        {"c": [1, {"d": None}]},
    ]
    return [(rng.choice("fg"), rng.choice(pool)) for _ in range(rng.randint(0, 4))]


@pytest.mark.parametrize(
    ("mode", "args"),
    [*((mode, args) for mode in MODES for args in ("exact", "ignore")), ("strict", "subset")],
)
def test_both_say_the_same(mode: str, args: str) -> None:
    rng = random.Random(mode + args)
    said: Counter[bool] = Counter()
    for _ in range(2_000):
        expected = _random(rng)
        made = rng.sample(expected, rng.randint(0, len(expected))) if rng.random() < 0.5 else _random(rng)
        if rng.random() < 0.3:
            made = list(expected)
        ours = _ours(mode, args, expected, made)
        assert _theirs(mode, args, expected, made) is ours, (expected, made)
        said[ours] += 1
    assert min(said.values()) > 200


@pytest.mark.parametrize(
    ("mode", "args", "expected", "made", "ours", "theirs"),
    [
        # The pairing is optimal here, and the first that fits there: the general expectation takes the only call
        # that the particular one could have had.
        ("superset", "subset", [("f", {}), ("f", {"a": 1})], [("f", {"a": 1}), ("f", {})], True, False),
        # There both directions must hold, so a call with more arguments than expected is no match.
        ("unordered", "subset", [("f", {"a": 1})], [("f", {"a": 1, "b": 2})], True, False),
        # True is 1 in Python, and not in JSON.
        ("strict", "exact", [("f", {"a": 1})], [("f", {"a": True})], False, True),
        # JSON in a string counts as what it says.
        ("strict", "exact", [("f", {"a": {"b": 1}})], [("f", {"a": '{"b": 1}'})], True, False),
    ],
)
def test_where_they_part(
    mode: str, args: str, expected: Calls, made: Calls, ours: bool, theirs: bool
) -> None:
    assert (_ours(mode, args, expected, made), _theirs(mode, args, expected, made)) == (ours, theirs)
