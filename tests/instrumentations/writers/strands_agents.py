"""Strands Agents' own traces."""

import base64

from common import PIXEL, TOOLS, arguments, each, spans_to
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


@tool
def ask_expert(input: str) -> str:  # noqa: A002 - as other frameworks name it
    """Ask the expert.

    Args:
        input: the question.
    """
    return str(Agent(model, tools=[get_weather], callback_handler=None)(input)).strip()


def run(asked) -> None:
    tools = [get_weather, get_time, ask_expert]
    Agent(model, tools=tools, system_prompt="Be kind.", callback_handler=None)(asked)


def with_image(text: str) -> list:
    return [{"text": text}, {"image": {"format": "png", "source": {"bytes": base64.b64decode(PIXEL)}}}]


each(run, image=lambda text: run(with_image(text)), nested=run)
