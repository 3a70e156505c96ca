"""MLflow's autologging of the clients of OpenAI and Anthropic, into a store of its own in a file."""

import mlflow
from common import LOOPS, TOOLS, anthropic_client, arguments, content, each, openai_client

url, path, mode = arguments()
kind, _, how = mode.partition("-")
mlflow.set_tracking_uri(f"sqlite:///{path}.db")
mlflow.openai.autolog()
mlflow.anthropic.autolog()
client = anthropic_client(url) if kind == "messages" else openai_client(url)
tools = {name: mlflow.trace(tool, span_type="TOOL") for name, tool in TOOLS.items()}


@mlflow.trace(name="support", span_type="AGENT")
def run(text: str) -> str:
    return LOOPS[kind](client, text, tools, stream=how == "stream")


each(run, image=lambda text: run(content(kind, text)))
mlflow.flush_trace_async_logging()
with path.open("w") as file:
    for trace in mlflow.search_traces(return_type="list"):
        file.write(trace.to_json() + "\n")
