"""LangChain's agents under OpenInference, OpenLLMetry or LangSmith's own tracer."""

from common import arguments, each, langchain_agent, spans_to

url, path, mode = arguments()
library, kind = mode.split("-")[:2]
if library == "openinference":
    from openinference.instrumentation.langchain import LangChainInstrumentor

    LangChainInstrumentor().instrument(tracer_provider=spans_to(path))
else:
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor

    LangchainInstrumentor().instrument(tracer_provider=spans_to(path))

if kind == "openai":
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(
        model="gpt-5.2-mini",
        base_url=f"{url}/v1",
        api_key="none",
        max_retries=0,
        streaming=mode.endswith("stream"),
        stream_usage=True,
    )
else:
    from langchain_anthropic import ChatAnthropic

    model = ChatAnthropic(
        model="claude-sonnet-5",
        base_url=url,
        api_key="none",
        max_retries=0,
        streaming=mode.endswith("stream"),
    )

agent = langchain_agent(model)
each(lambda text: agent.invoke({"messages": [{"role": "user", "content": text}]}))
