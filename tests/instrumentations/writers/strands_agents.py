"""Strands Agents' own traces."""

from common import TOOLS, arguments, each, spans_to
from opentelemetry import trace
from strands import Agent, tool
from strands.models.openai import OpenAIModel

url, path, mode = arguments()
trace.set_tracer_provider(spans_to(path))
client = {"base_url": f"{url}/v1", "api_key": "none", "max_retries": 0}
model = OpenAIModel(client_args=client, model_id="gpt-5.2-mini")


@tool
def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: its name.
    """
    return TOOLS["get_weather"](city)


@tool
def get_time(city: str) -> dict:
    """The time in a city.

    Args:
        city: its name.
    """
    return {"status": "success", "content": [{"json": TOOLS["get_time"](city)}]}


def run(text: str) -> None:
    agent = Agent(model, tools=[get_weather, get_time], system_prompt="Be kind.", callback_handler=None)
    agent(text)


each(run)
