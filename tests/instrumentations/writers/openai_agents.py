"""OpenAI's Agents SDK under OpenInference or OpenLLMetry."""

import json

from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
from common import TOOLS, arguments, each, spans_to, waited
from openai import AsyncOpenAI

url, path, mode = arguments()
library, kind = mode.split("-")[:2]
if library == "openinference":
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
else:
    from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor
OpenAIAgentsInstrumentor().instrument(tracer_provider=spans_to(path))
client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
chosen = OpenAIResponsesModel if kind == "responses" else OpenAIChatCompletionsModel


def get_time(city: str) -> str:
    """The time in a city."""
    return json.dumps(TOOLS["get_time"](city))


agent = Agent(
    name="support",
    instructions="Be kind.",
    model=chosen("gpt-5.2-mini", client),
    tools=[
        function_tool(TOOLS["get_weather"], failure_error_function=lambda _context, error: f"Error: {error}"),
        function_tool(get_time),
    ],
)


async def streamed(text: str) -> None:
    running = Runner.run_streamed(agent, text)
    async for _ in running.stream_events():
        pass


each(waited(streamed if mode.endswith("stream") else lambda text: Runner.run(agent, text)))
