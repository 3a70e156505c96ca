"""The genuine clients under OpenInference, asked about an image."""

from common import LOOPS, TOOLS, anthropic_client, arguments, openai_client, prompt, spans_to, traced_by
from openinference.instrumentation.anthropic import AnthropicInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ADDRESS = f"data:image/png;base64,{PIXEL}"
url, path, mode = arguments()
provider = spans_to(path)
OpenAIInstrumentor().instrument(tracer_provider=provider)
AnthropicInstrumentor().instrument(tracer_provider=provider)
text = prompt("parallel")
content = {
    "chat": [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": ADDRESS}}],
    "responses": [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": ADDRESS}],
    "messages": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        {"type": "text", "text": text},
    ],
}[mode]
client = anthropic_client(url) if mode == "messages" else openai_client(url)
run = traced_by(provider.get_tracer("app"), {"openinference.span.kind": "CHAIN"})
run(lambda asked: LOOPS[mode](client, asked, TOOLS))(content)
