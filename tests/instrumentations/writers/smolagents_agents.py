"""smolagents under OpenInference's instrumentation."""

from common import TOOLS, arguments, each, spans_to
from openinference.instrumentation.smolagents import SmolagentsInstrumentor
from smolagents import OpenAIServerModel, ToolCallingAgent, tool

url, path, mode = arguments()
SmolagentsInstrumentor().instrument(tracer_provider=spans_to(path))
model = OpenAIServerModel(
    "gpt-5.2-mini", api_base=f"{url}/v1", api_key="none", client_kwargs={"max_retries": 0}
)
agent = ToolCallingAgent([tool(one) for one in TOOLS.values()], model, max_steps=4, verbosity_level=0)
each(agent.run)
