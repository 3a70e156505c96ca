"""How many tool-call matches a second, and how many of agentevals beside them, where it is installed.

    python benchmarks/matching.py [MATCHES] [--spent]     # default 100,000 of each kind
    pip install agentevals                      # brings langchain: in a virtual environment of its own

Both sides compare the same lists with exact arguments, in turn, five pairs of them; agentevals is given OpenAI
messages, which is what it takes, with a call in each. The ratio is the median over the pairs. With `--spent`
only "unordered, 3 calls, equal" is measured, and what it took is printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from replaydiff.diff.graders.matching import match
from replaydiff.replay.model import ExpectedCall, Match, ToolCall

PAIRS = 5
SLOW = 900
"""Calls that the other side compares in one turn."""
KINDS = (
    ("strict, 3 calls, equal", 3, "strict", True),
    ("strict, 3 calls, differing", 3, "strict", False),
    ("unordered, 3 calls, equal", 3, "unordered", True),
    ("subset, 3 calls, equal", 3, "subset", True),
    ("superset, 3 calls, differing", 3, "superset", False),
    ("strict, 30 calls, equal", 30, "strict", True),
    ("unordered, 30 calls, equal", 30, "unordered", True),
    ("unordered, 30 calls, differing", 30, "unordered", False),
)

Case = tuple[list[ExpectedCall], list[ToolCall], Match]


def call(rng: random.Random, order: int) -> ToolCall:
    """A call with a handful of arguments, one of them nested."""
    args = {"order_id": str(order), "amount": rng.randint(1, 99), "items": [{"sku": f"s{order}", "qty": 1.0}]}
    return ToolCall(name=rng.choice(["look_up", "cancel", "refund"]), args=args)


def pair(rng: random.Random, calls: int, mode: str, *, same: bool) -> Case:
    """An expectation and the calls made, equal or with one argument changed, shuffled where order is free."""
    made = [call(rng, order) for order in range(calls)]
    expected = [ExpectedCall(name=one.name, args=dict(one.args)) for one in made]
    if not same:
        made[-1] = ToolCall(name=made[-1].name, args={**made[-1].args, "amount": 100})
    if mode != "strict":
        rng.shuffle(made)
    return expected, made, Match(mode=mode, args="exact")


def messages(calls: list[Any]) -> list[dict[str, Any]]:
    """Calls as OpenAI messages."""
    return [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": str(n), "type": "function",
                 "function": {"name": one.name, "arguments": json.dumps(one.args)}}
            ],
        }
        for n, one in enumerate(calls)
    ]  # fmt: skip


def evaluators() -> dict[str, Callable[..., Any]] | None:
    """agentevals' evaluators by mode; None where it is not installed."""
    try:
        from agentevals.trajectory.match import create_trajectory_match_evaluator as create
    except ImportError:
        return None
    return {
        mode: create(trajectory_match_mode=mode) for mode in ("strict", "unordered", "subset", "superset")
    }


def rate(work: Callable[[int], object], times: int) -> float:
    """How often a second of processor time: other work on the machine counts for neither side."""
    began = time.process_time()
    for n in range(times):
        work(n)
    return times / (time.process_time() - began)


def side_by_side(kind: str, cases: list[Case], share: int, other: Callable[..., Any] | None) -> str:
    """One line: our rate, and the ratio of the two."""
    converted = [(messages(made), messages(expected)) for expected, made, _ in cases]
    calls = len(cases[0][0])
    ours, ratios = [], []
    for _ in range(PAIRS):
        ours.append(rate(lambda n: match(*cases[n % len(cases)]), share))
        if other is not None:
            theirs = rate(
                lambda n: other(
                    outputs=converted[n % len(converted)][0],
                    reference_outputs=converted[n % len(converted)][1],
                ),
                SLOW // calls,
            )
            ratios.append(ours[-1] / theirs)
    beside = f"  {statistics.median(ratios):6.0f} x agentevals" if ratios else ""
    return f"{kind:32} {statistics.median(ours):10,.0f} a second{beside}"


def main(matches: int) -> None:
    others = evaluators() or {}
    rng = random.Random(1)
    for kind, calls, mode, same in KINDS:
        cases = [pair(rng, calls, mode, same=same) for _ in range(min(matches, 500))]
        assert all(match(*case).passed is same for case in cases)
        print(side_by_side(kind, cases, max(1, matches // PAIRS * 3 // calls), others.get(mode)))
    if not others:
        print("agentevals is not installed here: no comparison")


def spent(matches: int) -> None:
    """Print the seconds of the processor and of the clock for one kind."""
    rng = random.Random(1)
    cases = [pair(rng, 3, "unordered", same=True) for _ in range(500)]
    began, wall = time.process_time(), time.perf_counter()
    for number in range(matches):
        assert match(*cases[number % len(cases)]).passed
    took, wall = time.process_time() - began, time.perf_counter() - wall
    print(json.dumps({"wall_s": wall, "cpu_s": took}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("matches", type=int, nargs="?", default=100_000)
    parser.add_argument("--spent", action="store_true")
    options = parser.parse_args()
    (spent if options.spent else main)(options.matches)
