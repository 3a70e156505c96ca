"""smolagents under OpenInference's instrumentation."""

import base64
from io import BytesIO

from common import PIXEL, TOOLS, arguments, each, spans_to
from openinference.instrumentation.smolagents import SmolagentsInstrumentor
from PIL import Image
from smolagents import OpenAIServerModel, ToolCallingAgent, tool

url, path, mode = arguments()
SmolagentsInstrumentor().instrument(tracer_provider=spans_to(path))
model = OpenAIServerModel(
    "gpt-5.2-mini", api_base=f"{url}/v1", api_key="none", client_kwargs={"max_retries": 0}
)
given = {"model": model, "max_steps": 4, "verbosity_level": 0, "stream_outputs": mode.endswith("stream")}
expert = ToolCallingAgent(
    [tool(TOOLS["get_weather"])], name="ask_expert", description="Ask the expert.", **given
)
tools = [tool(function) for function in TOOLS.values()]
agent = ToolCallingAgent(tools, managed_agents=[expert], **given)
each(
    agent.run,
    image=lambda text: agent.run(text, images=[Image.open(BytesIO(base64.b64decode(PIXEL)))]),
    nested=agent.run,
)
