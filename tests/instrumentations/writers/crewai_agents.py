"""CrewAI under OpenInference's instrumentation: a crew of one agent and one task for each scenario."""

import os

os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "false",
}

from common import TOOLS, arguments, each, spans_to
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from openinference.instrumentation.crewai import CrewAIInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor

url, path, mode = arguments()
provider = spans_to(path)
CrewAIInstrumentor().instrument(tracer_provider=provider)
OpenAIInstrumentor().instrument(tracer_provider=provider)
model = LLM(model="openai/gpt-5.2-mini", base_url=f"{url}/v1", api_key="none", stream=mode.endswith("stream"))
tools = [tool(name)(function) for name, function in TOOLS.items()]


def crew(text: str, tools: list) -> str:
    agent = Agent(role="support", goal="Help.", backstory="Be kind.", llm=model, tools=tools, max_iter=5)
    task = Task(description=text, expected_output="An answer.", agent=agent)
    return Crew(agents=[agent], tasks=[task], verbose=False).kickoff().raw


@tool("ask_expert")
def ask_expert(input: str) -> str:  # noqa: A002 - as other frameworks name it
    """Ask the expert."""
    return crew(input, tools[:1])


def run(text: str) -> None:
    crew(text, [*tools, ask_expert])


each(run, nested=run)
