"""OpenAI's Agents SDK: under an instrumentation of OpenTelemetry's, or as its own processor exports it."""

import json
import os

os.environ |= {
    "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
}

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    add_trace_processor,
    function_tool,
    set_trace_processors,
)
from agents.tracing import TracingProcessor
from common import IMAGE, TOOLS, arguments, each, spans_to, waited
from openai import AsyncOpenAI

url, path, mode = arguments()
library, kind = mode.split("-")[:2]


class ToFile(TracingProcessor):
    """The processor of docs/importing.md."""

    def on_trace_start(self, trace):
        self.write(trace.export())

    def on_span_end(self, span):
        row = span.export()
        if row and row["span_data"]["type"] == "response" and span.span_data.response:
            response = span.span_data.response.model_dump()
            row["span_data"] |= {"input": span.span_data.input, "response": response}
        self.write(row)

    def write(self, row):
        if row:
            with path.open("a") as file:
                file.write(json.dumps(row, default=str) + "\n")

    def nothing(self, *_):
        pass

    on_trace_end = on_span_start = shutdown = force_flush = nothing


set_trace_processors([])
if library == "export":
    add_trace_processor(ToFile())
elif library == "logfire":
    import logfire

    logfire.configure(
        send_to_logfire=False,
        console=False,
        additional_span_processors=[spans_to(path)._active_span_processor],
        token="none",
    )
    logfire.instrument_openai_agents()
else:
    provider = spans_to(path)
    if library == "genai":
        # Its spans of agents and tools have no messages: those are in the spans of the client.
        from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
        from opentelemetry.instrumentation.genai.openai_agents import OpenAIAgentsInstrumentor

        OpenAIInstrumentor().instrument(tracer_provider=provider)
    elif library == "openinference":
        from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
    else:
        from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor
    OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
model = (OpenAIResponsesModel if kind == "responses" else OpenAIChatCompletionsModel)("gpt-5.2-mini", client)


def get_time(city: str) -> str:
    """The time in a city."""
    return json.dumps(TOOLS["get_time"](city))


expert = Agent(name="expert", model=model, tools=[function_tool(TOOLS["get_weather"])])
agent = Agent(
    name="support",
    instructions="Be kind.",
    model=model,
    tools=[
        function_tool(TOOLS["get_weather"], failure_error_function=lambda _context, error: f"Error: {error}"),
        function_tool(get_time),
        expert.as_tool("ask_expert", "Ask the expert."),
    ],
)


async def run(asked) -> None:
    if not mode.endswith("stream"):
        await Runner.run(agent, asked)
        return
    async for _ in Runner.run_streamed(agent, asked).stream_events():
        pass


def with_image(text: str) -> list:
    parts = [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": IMAGE}]
    return [{"role": "user", "content": parts}]


each(waited(run), image=lambda text: waited(run)(with_image(text)), nested=waited(run))
