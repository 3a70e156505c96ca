"""LlamaIndex's agents under OpenInference or OpenLLMetry."""

from common import IMAGE, TOOLS, arguments, each, spans_to, waited

url, path, mode = arguments()
library = mode.split("-")[0]
if library == "openinference":
    from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
else:
    from opentelemetry.instrumentation.llamaindex import LlamaIndexInstrumentor
LlamaIndexInstrumentor().instrument(tracer_provider=spans_to(path))

from llama_index.core.agent.workflow import FunctionAgent  # noqa: E402 - it is instrumented before
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock  # noqa: E402
from llama_index.core.tools import FunctionTool  # noqa: E402
from llama_index.llms.openai_like import OpenAILike  # noqa: E402

model = OpenAILike(
    model="gpt-5.2-mini",
    api_base=f"{url}/v1",
    api_key="none",
    max_retries=0,
    is_chat_model=True,
    is_function_calling_model=True,
)
given = {"llm": model, "system_prompt": "Be kind.", "streaming": mode.endswith("stream")}
tools = [FunctionTool.from_defaults(function) for function in TOOLS.values()]
expert = FunctionAgent(name="expert", tools=tools[:1], **given)


async def ask_expert(input: str) -> str:  # noqa: A002 - as other frameworks name it
    """Ask the expert."""
    return str(await expert.run(input))


agent = FunctionAgent(
    name="support", tools=[*tools, FunctionTool.from_defaults(async_fn=ask_expert)], **given
)


async def run(text: str) -> None:
    await agent.run(text)


async def with_image(text: str) -> None:
    await agent.run(ChatMessage(role="user", blocks=[TextBlock(text=text), ImageBlock(url=IMAGE)]))


each(waited(run), image=waited(with_image), nested=waited(run))
