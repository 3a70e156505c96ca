"""The cases of `performance.py` through inspect-ai: python inspect_ai_cases.py CASES CONCURRENCY."""

import json
import resource
import sys
import tempfile
import time
from importlib.metadata import version

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, scorer
from inspect_ai.solver import solver

TEXT = "Hello, I would like to know what became of the order I made last week, it is urgent: "


def calls(order):
    return json.dumps([{"name": "get_order_status", "args": {"order_id": order}}])


@solver
def agent():
    async def solve(state, _generate):
        state.output.completion = calls(state.input_text.split()[-1])
        return state

    return solve


@scorer(metrics=[accuracy()])
def same_calls():
    async def score(state, target):
        same = json.loads(state.output.completion) == json.loads(target.text)
        return Score(value=CORRECT if same else INCORRECT)

    return score


def used():
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), spent.ru_utime + spent.ru_stime


def main(cases: int, concurrency: int) -> None:
    samples = [Sample(id=f"c{n}", input=TEXT + f"{n:06d}", target=calls(f"{n:06d}")) for n in range(cases)]
    task = Task(dataset=MemoryDataset(samples), solver=agent(), scorer=same_calls())
    wall, cpu = used()
    with tempfile.TemporaryDirectory() as folder:
        [log] = evaluate(task, model="mockllm/model", max_samples=concurrency, display="none", log_dir=folder)
    ended, spent = used()
    assert log.status == "success"
    assert log.results.scores[0].metrics["accuracy"].value == 1.0
    found = {"wall_s": ended - wall, "cpu_s": spent - cpu, "version": version("inspect-ai")}
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
