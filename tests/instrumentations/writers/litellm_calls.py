"""LiteLLM under OpenInference's instrumentation."""

from types import SimpleNamespace

import litellm
from common import TOOLS, arguments, chat_loop, content, each, spans_to
from openinference.instrumentation import TracerProvider
from openinference.instrumentation.litellm import LiteLLMInstrumentor

url, path, mode = arguments()
provider = TracerProvider()
provider.add_span_processor(spans_to(path)._active_span_processor)
tracer = provider.get_tracer("app")
LiteLLMInstrumentor().instrument(tracer_provider=provider)


def create(model, **asked):
    return litellm.completion(
        model=f"openai/{model}", base_url=f"{url}/v1", api_key="none", num_retries=0, **asked
    )


client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
tools = {name: tracer.tool(tool) for name, tool in TOOLS.items()}


@tracer.agent(name="support")
def run(text: str) -> str:
    return chat_loop(client, text, tools, stream=mode.endswith("stream"))


each(run, image=lambda text: run(content("chat", text)))
