"""OpenTelemetry's instrumentations of the clients, newest GenAI conventions; messages in spans or in events."""

import os

from common import (
    LOOPS,
    TOOLS,
    anthropic_client,
    arguments,
    content,
    each,
    logs_to,
    openai_client,
    spans_to,
    traced_by,
)
from opentelemetry.util.genai.handler import TelemetryHandler

url, path, mode = arguments()
where, kind, *how = mode.split("-")
os.environ |= {
    "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY" if where == "spans" else "EVENT_ONLY",
    "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT": "true",
}
from opentelemetry.instrumentation.genai.anthropic import AnthropicInstrumentor  # noqa: E402
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor  # noqa: E402

providers = {"tracer_provider": spans_to(path), "logger_provider": logs_to(path)}
OpenAIInstrumentor().instrument(**providers)
AnthropicInstrumentor().instrument(**providers)
handler = TelemetryHandler(**providers)
client = anthropic_client(url) if kind == "messages" else openai_client(url)


def traced(name, tool):
    """A tool in a span of the conventions, as an app's own code writes it."""

    def call(**args):
        with handler.tool(name) as invocation:
            invocation.arguments = args
            invocation.tool_result = tool(**args)
            return invocation.tool_result

    return call


tools = {name: traced(name, tool) for name, tool in TOOLS.items()}


@traced_by(providers["tracer_provider"].get_tracer("app"), {"http.request.method": "POST"})
def run(text: str) -> str:
    return LOOPS[kind](client, text, tools, stream=how == ["stream"])


each(run, image=lambda text: run(content(kind, text)))
