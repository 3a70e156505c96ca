"""OpenInference's instrumentations of the clients of OpenAI and Anthropic, with its spans around agent and tools."""

from common import LOOPS, TOOLS, anthropic_client, arguments, content, each, openai_client, spans_to
from openinference.instrumentation import TracerProvider
from openinference.instrumentation.anthropic import AnthropicInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor

url, path, mode = arguments()
provider = TracerProvider()
provider.add_span_processor(spans_to(path)._active_span_processor)
tracer = provider.get_tracer("app")
OpenAIInstrumentor().instrument(tracer_provider=provider)
AnthropicInstrumentor().instrument(tracer_provider=provider)
kind, _, how = mode.partition("-")
client = anthropic_client(url) if kind == "messages" else openai_client(url)
tools = {name: tracer.tool(tool) for name, tool in TOOLS.items()}


@tracer.agent(name="support")
def run(text: str) -> str:
    return LOOPS[kind](client, text, tools, stream=how == "stream")


each(run, image=lambda text: run(content(kind, text)))
