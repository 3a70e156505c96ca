"""The cases of `performance.py` through deepeval: python deepeval_cases.py CASES CONCURRENCY."""

import contextlib
import io
import json
import resource
import sys
import time
from importlib.metadata import version

from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase, ToolCall

TEXT = "Hello, I would like to know what became of the order I made last week, it is urgent: "


class SameCalls(BaseMetric):
    threshold = 1.0
    async_mode = True
    evaluation_model = None
    include_reason = False

    def measure(self, test_case, *_args, **_kwargs):
        same = [(call.name, call.input_parameters) for call in test_case.tools_called] == [
            (call.name, call.input_parameters) for call in test_case.expected_tools
        ]
        self.score, self.success = float(same), same
        return self.score

    async def a_measure(self, test_case, *_args, **_kwargs):
        return self.measure(test_case)

    def is_successful(self):
        return self.success

    @property
    def __name__(self):
        return "same calls"


def called(order):
    return [ToolCall(name="get_order_status", input_parameters={"order_id": order})]


def agent(text):
    order = text.split()[-1]
    return "Order " + order, called(order)


def used():
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), spent.ru_utime + spent.ru_stime


def main(cases: int, concurrency: int) -> None:
    wall, cpu = used()
    made = []
    for number in range(cases):
        text = TEXT + f"{number:06d}"
        answer, tools = agent(text)
        made.append(
            LLMTestCase(
                input=text,
                actual_output=answer,
                tools_called=tools,
                expected_tools=called(f"{number:06d}"),
            )
        )
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        result = evaluate(
            test_cases=made,
            metrics=[SameCalls()],
            async_config=AsyncConfig(max_concurrent=concurrency, throttle_value=0),
            cache_config=CacheConfig(write_cache=False),
            display_config=DisplayConfig(show_indicator=False, print_results=False),
        )
    ended, spent = used()
    assert all(one.success for one in result.test_results)
    assert len(result.test_results) == cases
    found = {"wall_s": ended - wall, "cpu_s": spent - cpu, "version": version("deepeval")}
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
