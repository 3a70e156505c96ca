"""How many tool-call matches a second: lists that match, lists that differ, and pairings that need a search.

python benchmarks/matching.py [MATCHES]        # default 100,000 of each kind, about half a minute
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

from diff.graders.matching import match
from replay.model import ExpectedCall, Match, ToolCall

Case = tuple[list[ExpectedCall], list[ToolCall], Match]


def call(rng: random.Random, order: int) -> ToolCall:
    """A call with a handful of arguments, one of them nested."""
    args = {"order_id": str(order), "amount": rng.randint(1, 99), "items": [{"sku": f"s{order}", "qty": 1.0}]}
    return ToolCall(name=rng.choice(["look_up", "cancel", "refund"]), args=args)


def pair(rng: random.Random, calls: int, mode: str, how: str, *, same: bool) -> Case:
    """An expectation and the calls made, equal or with one argument changed, shuffled where order is free."""
    made = [call(rng, order) for order in range(calls)]
    expected = [ExpectedCall(name=one.name, args=dict(one.args)) for one in made]
    if not same:
        made[-1] = ToolCall(name=made[-1].name, args={**made[-1].args, "amount": 100})
    if mode != "strict":
        rng.shuffle(made)
    return expected, made, Match(mode=mode, args=how)


KINDS: dict[str, Callable[[random.Random], Case]] = {
    "strict, 3 calls, equal": lambda rng: pair(rng, 3, "strict", "exact", same=True),
    "strict, 3 calls, differing": lambda rng: pair(rng, 3, "strict", "exact", same=False),
    "strict, subset args, 3 calls, equal": lambda rng: pair(rng, 3, "strict", "subset", same=True),
    "unordered, 6 calls, equal": lambda rng: pair(rng, 6, "unordered", "exact", same=True),
    "unordered, 6 calls, differing": lambda rng: pair(rng, 6, "unordered", "subset", same=False),
}


def main(matches: int) -> None:
    rng = random.Random(1)
    for kind, make in KINDS.items():
        cases = [make(rng) for _ in range(min(matches, 1000))]
        passed = 0
        start = time.perf_counter()
        for n in range(matches):
            passed += match(*cases[n % len(cases)]).passed
        seconds = time.perf_counter() - start
        print(f"{kind:38} {matches / seconds:10,.0f} a second  ({1e6 * seconds / matches:.1f} µs each)")
        assert passed == (matches if kind.endswith("equal") else 0)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
