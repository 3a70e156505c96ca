"""Pydantic AI's own instrumentation, alone, under Logfire or through OpenInference's processor."""

import base64

from common import PIXEL, TOOLS, arguments, each, spans_to, waited
from pydantic_ai import Agent, BinaryContent, ModelRetry
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

url, path, mode = arguments()
library, kind = mode.split("-")[:2]
provider = spans_to(path)
if library == "logfire":
    import logfire

    logfire.configure(
        send_to_logfire=False,
        console=False,
        additional_span_processors=[provider._active_span_processor],
        token="none",
    )
    logfire.instrument_pydantic_ai()
else:
    if library == "openinference":
        from openinference.instrumentation.pydantic_ai import OpenInferenceSpanProcessor

        exporting = provider._active_span_processor._span_processors
        provider._active_span_processor._span_processors = (OpenInferenceSpanProcessor(), *exporting)
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
openai = OpenAIProvider(base_url=f"{url}/v1", api_key="none")
model = {
    "chat": lambda: OpenAIChatModel("gpt-5.2-mini", provider=openai),
    "responses": lambda: OpenAIResponsesModel("gpt-5.2-mini", provider=openai),
    "messages": lambda: AnthropicModel(
        "claude-sonnet-5", provider=AnthropicProvider(base_url=url, api_key="none")
    ),
}[kind]()
agent = Agent(model, instructions="Be kind.", name="support", retries=3)


@agent.tool_plain
def get_weather(city: str) -> str:
    try:
        return TOOLS["get_weather"](city)
    except ValueError as error:
        raise ModelRetry(str(error)) from error


@agent.tool_plain
def get_time(city: str) -> dict:
    return TOOLS["get_time"](city)


expert = Agent(model, name="expert")
expert.tool_plain(get_weather)


@agent.tool_plain
async def ask_expert(input: str) -> str:  # noqa: A002 - as other frameworks name it
    return (await expert.run(input)).output


async def run(asked) -> None:
    if not mode.endswith("stream"):
        await agent.run(asked)
        return
    async with agent.run_stream(asked) as running:
        await running.get_output()


def with_image(text: str) -> list:
    return [text, BinaryContent(base64.b64decode(PIXEL), media_type="image/png")]


each(waited(run), image=lambda text: waited(run)(with_image(text)), nested=waited(run))
