"""Google's ADK: its own spans, OpenInference's, or the sessions that it keeps."""

import base64
import json
import os

os.environ |= {
    "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS": "true",
    "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
}

from common import PIXEL, TOOLS, arguments, each, spans_to, waited
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from opentelemetry import trace

url, path, mode = arguments()
library = mode.split("-")[0]
if library == "openinference":
    from openinference.instrumentation.google_adk import GoogleADKInstrumentor

    GoogleADKInstrumentor().instrument(tracer_provider=spans_to(path))
elif library == "own":
    trace.set_tracer_provider(spans_to(path))
model = LiteLlm(model="openai/gpt-5.2-mini", api_base=f"{url}/v1", api_key="none", num_retries=0)


def get_weather(city: str) -> str:
    """The weather of a city."""
    return TOOLS["get_weather"](city)


def get_time(city: str) -> dict:
    """The time in a city."""
    return TOOLS["get_time"](city)


def forgiving(tool, args, tool_context, error):
    return {"error": str(error)}


given = {"model": model, "instruction": "Be kind.", "on_tool_error_callback": forgiving}
expert = LlmAgent(name="ask_expert", description="Ask the expert.", tools=[get_weather], **given)
agent = LlmAgent(name="support", tools=[get_weather, get_time, AgentTool(expert)], **given)
sessions = InMemorySessionService()
runner = Runner(app_name="shop", agent=agent, session_service=sessions)
how = RunConfig(streaming_mode=StreamingMode.SSE if mode.endswith("stream") else StreamingMode.NONE)


async def run(text: str, *more) -> None:
    session = await sessions.create_session(app_name="shop", user_id="ada")
    asked = types.Content(role="user", parts=[types.Part(text=text), *more])
    try:
        async for _ in runner.run_async(
            user_id="ada", session_id=session.id, new_message=asked, run_config=how
        ):
            pass
    finally:
        if library == "sessions":
            kept = await sessions.get_session(app_name="shop", user_id="ada", session_id=session.id)
            with path.open("a") as file:
                file.write(json.dumps(kept.model_dump(mode="json", by_alias=True)) + "\n")


async def with_image(text: str) -> None:
    await run(text, types.Part.from_bytes(data=base64.b64decode(PIXEL), mime_type="image/png"))


each(waited(run), image=waited(with_image), nested=waited(run))
