"""LangChain's agents under OpenTelemetry's own instrumentation, OpenInference or OpenLLMetry."""

import os

os.environ |= {
    "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
}

from common import TOOLS, arguments, content, each, langchain_agent, spans_to

url, path, mode = arguments()
library, kind = mode.split("-")[:2]
if library == "openinference":
    from openinference.instrumentation.langchain import LangChainInstrumentor
elif library == "genai":
    from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor
else:
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor as LangChainInstrumentor
LangChainInstrumentor().instrument(tracer_provider=spans_to(path))

streams = mode.endswith("stream")
if kind == "openai":
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(
        model="gpt-5.2-mini",
        base_url=f"{url}/v1",
        api_key="none",
        max_retries=0,
        streaming=streams,
        stream_usage=True,
    )
else:
    from langchain_anthropic import ChatAnthropic

    model = ChatAnthropic(
        model="claude-sonnet-5", base_url=url, api_key="none", max_retries=0, streaming=streams
    )


def ask_expert(input: str) -> str:  # noqa: A002 - as other frameworks name it
    """Ask the expert.

    Args:
        input: the question.
    """
    return expert.invoke({"messages": [{"role": "user", "content": input}]})["messages"][-1].content


expert = langchain_agent(model, [TOOLS["get_weather"]])
agent = langchain_agent(model, [*TOOLS.values(), ask_expert])


def run(asked) -> None:
    agent.invoke({"messages": [{"role": "user", "content": asked}]})


each(run, image=lambda text: run(content("messages" if kind == "anthropic" else "chat", text)), nested=run)
