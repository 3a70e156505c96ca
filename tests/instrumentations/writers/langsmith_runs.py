"""LangSmith's SDK: its decorator and its wrappers of clients; runs as it hands them over when they end."""

import json

from common import LOOPS, TOOLS, anthropic_client, arguments, content, each, openai_client
from langsmith import traceable, tracing_context
from langsmith.wrappers import wrap_anthropic, wrap_openai

url, path, mode = arguments()
kind, _, how = mode.partition("-")
client = wrap_anthropic(anthropic_client(url)) if kind == "messages" else wrap_openai(openai_client(url))


class ToFile:
    """What takes the place of LangSmith's client: it is handed every run, begun and ended."""

    def __init__(self) -> None:
        self.runs: dict = {}

    def create_run(self, name, inputs, run_type, **more) -> None:
        self.runs[str(more["id"])] = {"name": name, "inputs": inputs, "run_type": run_type, **more}

    def update_run(self, run_id, **more) -> None:
        known = {key: value for key, value in more.items() if value is not None}
        self.runs[str(run_id)] |= known

    def __getattr__(self, name):
        return None


kept = ToFile()
tools = {name: traceable(run_type="tool", name=name)(tool) for name, tool in TOOLS.items()}


@traceable(run_type="chain", name="support")
def run(text: str) -> str:
    return LOOPS[kind](client, text, tools, stream=how == "stream")


with tracing_context(enabled=True, client=kept):
    each(run, image=lambda text: run(content(kind, text)))
with path.open("w") as file:
    for one in kept.runs.values():
        file.write(json.dumps(one, default=str) + "\n")
