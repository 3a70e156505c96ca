"""OpenLLMetry's instrumentations of the clients of OpenAI and Anthropic, below an app's own root span."""

from common import (
    LOOPS,
    TOOLS,
    anthropic_client,
    arguments,
    content,
    each,
    openai_client,
    spans_to,
    traced_by,
)
from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor
from opentelemetry.instrumentation.openai import OpenAIInstrumentor

url, path, mode = arguments()
provider = spans_to(path)
OpenAIInstrumentor().instrument(tracer_provider=provider)
AnthropicInstrumentor().instrument(tracer_provider=provider)
kind, _, how = mode.partition("-")
client = anthropic_client(url) if kind == "messages" else openai_client(url)


@traced_by(provider.get_tracer("app"), {"http.request.method": "POST"})
def run(text: str) -> str:
    return LOOPS[kind](client, text, TOOLS, stream=how == "stream")


each(run, image=lambda text: run(content(kind, text)))
