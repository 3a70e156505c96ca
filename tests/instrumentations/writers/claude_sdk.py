"""The Claude Agent SDK with its own Claude Code: the sessions it keeps, or OpenInference's spans."""

import json
import os
from pathlib import Path

os.environ["IS_SANDBOX"] = "1"
from claude_agent_sdk import (
    AgentDefinition,
    ClaudeAgentOptions,
    create_sdk_mcp_server,
    query,
    tool,
)
from common import TOOLS, arguments, content, each, spans_to, waited

url, path, mode = arguments()
if mode == "openinference":
    from openinference.instrumentation.claude_agent_sdk import ClaudeAgentSDKInstrumentor

    ClaudeAgentSDKInstrumentor().instrument(tracer_provider=spans_to(path))
    from claude_agent_sdk import query


def offered(name):
    @tool(name, TOOLS[name].__doc__, {"city": str})
    async def call(args):
        result = TOOLS[name](**args)
        return {
            "content": [{"type": "text", "text": result if isinstance(result, str) else json.dumps(result)}]
        }

    return call


names = [f"mcp__shop__{name}" for name in TOOLS]
options = ClaudeAgentOptions(
    model="claude-sonnet-5",
    mcp_servers={"shop": create_sdk_mcp_server("shop", tools=[offered(name) for name in TOOLS])},
    allowed_tools=[*names, "Agent", "Task"],
    agents={"expert": AgentDefinition(description="Ask the expert.", prompt="Be kind.", tools=names)},
    setting_sources=[],
    system_prompt="Be kind.",
    max_turns=6,
    env={
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
    },
)


async def run(asked: str) -> None:
    async for _ in query(prompt=asked, options=options):
        pass


async def with_image(text: str) -> None:
    async def messages():
        yield {"type": "user", "message": {"role": "user", "content": content("messages", text)}}

    await run(messages())


each(waited(run), image=waited(with_image), nested=waited(run))
if mode == "sessions":
    (Path.home() / ".claude" / "projects").rename(path)
