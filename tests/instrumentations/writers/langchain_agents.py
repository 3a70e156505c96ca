"""LangChain's agents under OpenInference, OpenLLMetry or LangSmith's own tracer."""

from common import TOOLS, arguments, each, spans_to
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.messages import ToolMessage

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


@wrap_tool_call
def told(request, handler):
    try:
        return handler(request)
    except ValueError as error:
        call = request.tool_call
        return ToolMessage(f"Error: {error}", tool_call_id=call["id"], name=call["name"], status="error")


agent = create_agent(model, list(TOOLS.values()), system_prompt="Be kind.", middleware=[told])
each(lambda text: agent.invoke({"messages": [{"role": "user", "content": text}]}))
