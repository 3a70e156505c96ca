"""The cases of `performance.py` through pydantic-evals: python pydantic_evals_cases.py CASES CONCURRENCY [table]."""

import asyncio
import contextlib
import io
import json
import resource
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version

from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Evaluator, EvaluatorContext

TEXT = "Hello, I would like to know what became of the order I made last week, it is urgent: "


def calls(order):
    return [{"name": "get_order_status", "args": {"order_id": order}}]


@dataclass
class SameCalls(Evaluator):
    def evaluate(self, ctx: EvaluatorContext) -> bool:
        return ctx.output["calls"] == ctx.expected_output


async def agent(text):
    order = text.split()[-1]
    return {"text": "Order " + order, "calls": calls(order)}


def used():
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), spent.ru_utime + spent.ru_stime


def main(cases: int, concurrency: int, table: bool) -> None:
    dataset = Dataset(
        name="cases",
        cases=[
            Case(name=f"c{n}", inputs=TEXT + f"{n:06d}", expected_output=calls(f"{n:06d}"))
            for n in range(cases)
        ],
        evaluators=[SameCalls()],
    )
    wall, cpu = used()
    report = asyncio.run(dataset.evaluate(agent, max_concurrency=concurrency, progress=False))
    assert len(report.cases) == cases
    if table:
        wall, cpu = used()
        with contextlib.redirect_stdout(io.StringIO()):
            report.print(baseline=report)
    ended, spent = used()
    found = {"wall_s": ended - wall, "cpu_s": spent - cpu, "version": version("pydantic-evals")}
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), "table" in sys.argv)
