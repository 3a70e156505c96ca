"""An agent that is a tool of another: OpenAI's Agents SDK under OpenInference, and Strands' own traces."""

import json

from common import TOOLS, arguments, prompt, spans_to, waited

url, path, mode = arguments()
provider = spans_to(path)
task = f"outer: please help. PLAN {json.dumps([[['ask_expert', {'input': prompt('one')}]]])}"
if mode == "openai-agents":
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
    from openai import AsyncOpenAI
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    model = OpenAIChatCompletionsModel("gpt-5.2-mini", client)
    expert = Agent(name="expert", model=model, tools=[function_tool(TOOLS["get_weather"])])
    asking = expert.as_tool("ask_expert", "Ask the expert.")
    waited(lambda text: Runner.run(Agent(name="support", model=model, tools=[asking]), text))(task)
else:
    from opentelemetry import trace
    from strands import Agent, tool
    from strands.models.openai import OpenAIModel

    trace.set_tracer_provider(provider)
    given = {"base_url": f"{url}/v1", "api_key": "none", "max_retries": 0}
    model = OpenAIModel(client_args=given, model_id="gpt-5.2-mini")

    @tool
    def ask_expert(input: str) -> str:  # noqa: A002 - as the other framework names it
        """Ask the expert.

        Args:
            input: the question.
        """
        expert = Agent(model, tools=[tool(TOOLS["get_weather"])], callback_handler=None)
        return str(expert(input)).strip()

    Agent(model, tools=[ask_expert], callback_handler=None)(task)
