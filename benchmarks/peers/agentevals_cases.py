"""The matches of `matching.py --spent` through agentevals: python agentevals_cases.py MATCHES."""

import json
import random
import resource
import sys
import time
from importlib.metadata import version

from agentevals.trajectory.match import create_trajectory_match_evaluator

CALLS, CASES = 3, 500


def calls(rng):
    return [
        {
            "name": rng.choice(["look_up", "cancel", "refund"]),
            "args": {
                "order_id": str(order),
                "amount": rng.randint(1, 99),
                "items": [{"sku": f"s{order}", "qty": 1.0}],
            },
        }
        for order in range(CALLS)
    ]


def messages(made):
    return [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": str(number),
                    "type": "function",
                    "function": {"name": one["name"], "arguments": json.dumps(one["args"])},
                }
            ],
        }
        for number, one in enumerate(made)
    ]


def used():
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), spent.ru_utime + spent.ru_stime


def main(matches: int) -> None:
    rng = random.Random(1)
    cases = []
    for _ in range(CASES):
        expected = calls(rng)
        cases.append((messages(rng.sample(expected, CALLS)), messages(expected)))
    match = create_trajectory_match_evaluator(trajectory_match_mode="unordered")
    wall, cpu = used()
    for number in range(matches):
        made, expected = cases[number % CASES]
        assert match(outputs=made, reference_outputs=expected)["score"]
    ended, spent = used()
    print(json.dumps({"wall_s": ended - wall, "cpu_s": spent - cpu, "version": version("agentevals")}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
