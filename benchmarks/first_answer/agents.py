"""The repositories of ten agents, each in the words of its framework, and how a message is sent to each."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

LOOK_UP, AT_ONCE = "Look the order up first.", "Act at once."
"""What the prompt says in the first version, and in the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A repository."""

    title: str
    environment: str
    """The environment of `.venv-frameworks` with its packages."""
    files: dict[str, str]
    call: str
    """Statements that make `answer(message)`, in the language of the agent."""
    source: str = "auto"
    """What `replay import` is told."""
    messages: tuple[str, str] = ("Where is order A{}?", "Please cancel order A{}.")


SHOP = dedent('''
    """Orders."""
    import os


    def get_order(order_id: str) -> str:
        """Look an order up."""
        return f"order {order_id} is open"


    def cancel_order(order_id: str) -> str:
        """Cancel an order."""
        with open(os.environ["CANARY"], "a") as file:
            file.write(f"cancel {order_id}\\n")
        return f"order {order_id} is cancelled"
''')
ANTHROPIC_TOOLS = dedent("""
    TOOLS = [
        {"name": name, "description": name, "input_schema": {"type": "object", "properties": {"order_id": {"type": "string"}}}}
        for name in ("get_order", "cancel_order")
    ]
""")
OPENAI_TOOLS = dedent("""
    TOOLS = [
        {"type": "function", "function": {"name": "get_order", "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}}}},
        {"type": "function", "function": {"name": "cancel_order", "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}}}},
    ]
""")

ANTHROPIC_CLASS = dedent('''
    """Support by the Messages API."""
    import anthropic

    import shop

    SYSTEM = "You help customers. Look the order up first."
    @TOOLS@

    def call_tool(name, args):
        return {"get_order": shop.get_order, "cancel_order": shop.cancel_order}[name](**args)


    class SupportAgent:
        def __init__(self):
            self.client = anthropic.Anthropic()

        def run(self, message: str) -> str:
            messages = [{"role": "user", "content": message}]
            while True:
                reply = self.client.messages.create(
                    model="claude-sonnet-5", max_tokens=500, system=SYSTEM, tools=TOOLS, messages=messages
                )
                calls = [block for block in reply.content if block.type == "tool_use"]
                if not calls:
                    return reply.content[0].text
                messages.append({"role": "assistant", "content": reply.content})
                results = [
                    {"type": "tool_result", "tool_use_id": call.id, "content": call_tool(call.name, call.input)} for call in calls
                ]
                messages.append({"role": "user", "content": results})
''').replace("@TOOLS@", ANTHROPIC_TOOLS.strip())
CLOSURES = dedent('''
    """A graph that is made by a function, with its tools inside."""
    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    import shop

    SYSTEM = "You help customers. Look the order up first."


    def build():
        @tool
        def get_order(order_id: str) -> str:
            """Look an order up."""
            return shop.get_order(order_id)

        @tool
        def cancel_order(order_id: str) -> str:
            """Cancel an order."""
            return shop.cancel_order(order_id)

        return create_agent(ChatOpenAI(model="gpt-5-mini"), [get_order, cancel_order], system_prompt=SYSTEM)
''')
OPENAI_AGENTS = dedent('''
    """Support by the OpenAI Agents SDK."""
    from agents import Agent, Runner, function_tool, set_tracing_disabled

    import shop

    set_tracing_disabled(True)
    agent = Agent(
        name="support",
        instructions="You help customers. Look the order up first.",
        model="gpt-5-mini",
        tools=[function_tool(shop.get_order), function_tool(shop.cancel_order)],
    )


    async def run_agent(text: str) -> str:
        return (await Runner.run(agent, text)).final_output
''')
MCP_SERVER = dedent('''
    """The orders, as a server of the Model Context Protocol."""
    from mcp.server import MCPServer

    import shop

    server = MCPServer("shop")
    server.tool()(shop.get_order)
    server.tool()(shop.cancel_order)

    if __name__ == "__main__":
        server.run("stdio")
''')
MCP_CLIENT = dedent('''
    """Support by the Messages API, with the tools of a server."""
    import os
    import sys

    import anthropic
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    SYSTEM = "You help customers. Look the order up first."
    SERVER = StdioServerParameters(command=sys.executable, args=["server.py"], env=dict(os.environ))


    async def answer(text: str) -> str:
        client = anthropic.AsyncAnthropic()
        async with stdio_client(SERVER) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            tools = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
                for tool in (await session.list_tools()).tools
            ]
            messages = [{"role": "user", "content": text}]
            while True:
                reply = await client.messages.create(
                    model="claude-sonnet-5", max_tokens=500, system=SYSTEM, tools=tools, messages=messages
                )
                calls = [block for block in reply.content if block.type == "tool_use"]
                if not calls:
                    return reply.content[0].text
                messages.append({"role": "assistant", "content": reply.content})
                results = []
                for call in calls:
                    done = await session.call_tool(call.name, call.input)
                    results.append({"type": "tool_result", "tool_use_id": call.id, "content": done.content[0].text})
                messages.append({"role": "user", "content": results})
''')
AI_SDK = dedent("""
    import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
    import { generateText, stepCountIs, tool } from "ai";
    import { appendFileSync } from "node:fs";
    import { z } from "zod";

    const provider = createOpenAICompatible({ name: "shop", baseURL: process.env.OPENAI_BASE_URL!, apiKey: process.env.OPENAI_API_KEY });
    const system = "You help customers. Look the order up first.";

    const getOrder = tool({
      description: "Look an order up.",
      inputSchema: z.object({ orderId: z.string() }),
      execute: async ({ orderId }) => `order ${orderId} is open`,
    });
    const cancelOrder = tool({
      description: "Cancel an order.",
      inputSchema: z.object({ orderId: z.string() }),
      execute: async ({ orderId }) => {
        appendFileSync(process.env.CANARY!, `cancel ${orderId}\\n`);
        return `order ${orderId} is cancelled`;
      },
    });

    export async function answer(prompt: string): Promise<string> {
      const { text } = await generateText({
        model: provider("gpt-5-mini"), system, prompt, tools: { getOrder, cancelOrder }, stopWhen: stepCountIs(6),
      });
      return text;
    }
""")
SESSIONS = dedent('''
    """Conversations that are kept in memory."""
    import json

    import openai

    import shop

    SYSTEM = "You help customers. Look the order up first."
    SESSIONS = {}
    @TOOLS@

    def execute_tool(name, arguments):
        return {"get_order": shop.get_order, "cancel_order": shop.cancel_order}[name](**arguments)


    def reply(session_id: str, message: str) -> str:
        history = SESSIONS.setdefault(session_id, [])
        history.append({"role": "user", "content": message})
        client = openai.OpenAI()
        while True:
            done = client.chat.completions.create(
                model="gpt-5-mini", messages=[{"role": "system", "content": SYSTEM}, *history], tools=TOOLS
            ).choices[0].message
            if not done.tool_calls:
                history.append({"role": "assistant", "content": done.content})
                return done.content
            calls = [call.model_dump(include={"id", "type", "function"}) for call in done.tool_calls]
            history.append({"role": "assistant", "content": None, "tool_calls": calls})
            for call in done.tool_calls:
                result = execute_tool(call.function.name, json.loads(call.function.arguments))
                history.append({"role": "tool", "tool_call_id": call.id, "content": result})
''').replace("@TOOLS@", OPENAI_TOOLS.strip())
FASTAPI = dedent('''
    """The service."""
    from fastapi import FastAPI
    from pydantic import BaseModel

    from service import reply

    app = FastAPI()


    class Chat(BaseModel):
        session_id: str
        message: str


    @app.post("/chat")
    def chat(body: Chat):
        return {"reply": reply(body.session_id, body.message)}
''')
RAG = dedent('''
    """Answers from notes, and keeps a list of tasks."""
    import os
    import sqlite3

    import anthropic

    SYSTEM = "Answer from the notes. Look the order up first."
    NOTES = ["Orders ship in two days.", "Tasks are kept until they are done."]
    TOOLS = [
        {"name": "add_task", "description": "Add a task.", "input_schema": {"type": "object", "properties": {"title": {"type": "string"}}}},
        {"name": "list_tasks", "description": "List the tasks.", "input_schema": {"type": "object", "properties": {}}},
    ]


    def database():
        con = sqlite3.connect("tasks.db")
        con.execute("CREATE TABLE IF NOT EXISTS tasks (title TEXT)")
        return con


    def add_task(title: str) -> str:
        with open(os.environ["CANARY"], "a") as file:
            file.write(f"add {title}\\n")
        with database() as con:
            con.execute("INSERT INTO tasks VALUES (?)", [title])
        return f"added {title}"


    def list_tasks() -> str:
        return ", ".join(title for (title,) in database().execute("SELECT title FROM tasks"))


    def run_tool(name, args):
        return {"add_task": add_task, "list_tasks": list_tasks}[name](**args)


    def retrieve(question: str, k: int = 1) -> list[str]:
        words = set(question.lower().split())
        return sorted(NOTES, key=lambda note: -len(words & set(note.lower().split())))[:k]


    def answer(question: str) -> str:
        client = anthropic.Anthropic()
        messages = [{"role": "user", "content": question}]
        while True:
            reply = client.messages.create(
                model="claude-sonnet-5", max_tokens=500, system=f"{SYSTEM} {retrieve(question)}", tools=TOOLS, messages=messages
            )
            calls = [block for block in reply.content if block.type == "tool_use"]
            if not calls:
                return reply.content[0].text
            messages.append({"role": "assistant", "content": reply.content})
            results = [{"type": "tool_result", "tool_use_id": call.id, "content": run_tool(call.name, call.input)} for call in calls]
            messages.append({"role": "user", "content": results})
''')
CLAUDE = dedent('''
    """Support by the Claude Agent SDK."""
    from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool

    import shop

    SYSTEM = "You help customers. Look the order up first."


    @tool("get_order", "Look an order up.", {"order_id": str})
    async def get_order(args):
        return {"content": [{"type": "text", "text": shop.get_order(args["order_id"])}]}


    @tool("cancel_order", "Cancel an order.", {"order_id": str})
    async def cancel_order(args):
        return {"content": [{"type": "text", "text": shop.cancel_order(args["order_id"])}]}


    async def run_agent(prompt: str) -> str:
        options = ClaudeAgentOptions(
            system_prompt=SYSTEM,
            mcp_servers={"shop": create_sdk_mcp_server("shop", tools=[get_order, cancel_order])},
            allowed_tools=["mcp__shop__get_order", "mcp__shop__cancel_order"],
            setting_sources=[],
            env={"ENABLE_TOOL_SEARCH": "false"},
            max_turns=6,
        )
        async for message in query(prompt=prompt, options=options):
            if isinstance(message, ResultMessage):
                return message.result
''')
GRAPH = dedent('''
    """A graph that langgraph.json names."""
    from langchain_core.messages import SystemMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    from support import shop

    SYSTEM = "You help customers. Look the order up first."
    TOOLS = [tool(shop.get_order), tool(shop.cancel_order)]


    def ask(state: MessagesState):
        model = ChatOpenAI(model="gpt-5-mini").bind_tools(TOOLS)
        return {"messages": [model.invoke([SystemMessage(SYSTEM), *state["messages"]])]}


    def make_graph():
        graph = StateGraph(MessagesState)
        graph.add_node("ask", ask)
        graph.add_node("tools", ToolNode(TOOLS))
        graph.add_edge(START, "ask")
        graph.add_conditional_edges("ask", tools_condition)
        graph.add_edge("tools", "ask")
        return graph.compile()
''')
DJANGO_SETTINGS = 'SECRET_KEY = "s"\nALLOWED_HOSTS = ["*"]\nROOT_URLCONF = "web.urls"\nINSTALLED_APPS = []\n'
DJANGO_MANAGE = (
    'import os, sys\nos.environ.setdefault("DJANGO_SETTINGS_MODULE", "web.settings")\n'
    'if __name__ == "__main__":\n'
    "    from django.core.management import execute_from_command_line\n\n    execute_from_command_line(sys.argv)\n"
)
DJANGO_VIEW = dedent('''
    """The chat of the shop."""
    import json

    import openai
    from django.http import JsonResponse
    from django.views import View

    import shop

    SYSTEM = "You help customers. Look the order up first."
    @TOOLS@

    def dispatch_tool(name, arguments):
        return {"get_order": shop.get_order, "cancel_order": shop.cancel_order}[name](**arguments)


    def think(text):
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
        while True:
            done = openai.OpenAI().chat.completions.create(model="gpt-5-mini", messages=messages, tools=TOOLS).choices[0].message
            if not done.tool_calls:
                return done.content
            messages.append(done.model_dump(include={"role", "content", "tool_calls"}))
            for call in done.tool_calls:
                result = dispatch_tool(call.function.name, json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


    class ChatView(View):
        def post(self, request):
            return JsonResponse({"reply": think(json.loads(request.body)["message"])})
''').replace("@TOOLS@", OPENAI_TOOLS.strip())

AGENTS = {
    "anthropic": Agent(
        title="a class on Anthropic's client",
        environment="first-answer",
        files={"shop.py": SHOP, "support/__init__.py": "", "support/agent.py": ANTHROPIC_CLASS},
        call="from support.agent import SupportAgent\nanswer = SupportAgent().run",
    ),
    "langgraph": Agent(
        title="LangGraph, `build()` with closures",
        environment="first-answer-langchain",
        files={"shop.py": SHOP, "app/__init__.py": "", "app/graph.py": CLOSURES},
        call=(
            "from app.graph import build\n"
            'answer = lambda text: build().invoke({"messages": [{"role": "user", "content": text}]})'
        ),
    ),
    "openai-agents": Agent(
        title="OpenAI Agents SDK",
        environment="openai-agents",
        files={"shop.py": SHOP, "bot.py": OPENAI_AGENTS},
        call="from bot import run_agent as answer",
    ),
    "mcp": Agent(
        title="MCP server over stdio",
        environment="first-answer",
        files={"shop.py": SHOP, "server.py": MCP_SERVER, "client.py": MCP_CLIENT},
        call="from client import answer",
    ),
    "ai-sdk": Agent(
        title="Vercel AI SDK, TypeScript",
        environment="node-first-answer",
        files={"package.json": '{"type": "module", "main": "src/agent.ts"}', "src/agent.ts": AI_SDK},
        call='import { answer } from "./src/agent.ts";',
    ),
    "sessions": Agent(
        title="FastAPI, `reply(session_id, message)`",
        environment="first-answer",
        files={"shop.py": SHOP, "service.py": SESSIONS, "main.py": FASTAPI},
        call='from service import reply\nanswer = lambda text: reply("s" + text[-4:], text)',
    ),
    "rag": Agent(
        title="RAG and tasks in SQLite",
        environment="first-answer",
        files={"tasks.py": RAG},
        call="from tasks import answer",
        messages=("Please list my tasks, {}.", "add task call {}."),
    ),
    "claude-agent-sdk": Agent(
        title="Claude Agent SDK, Python",
        environment="claude-agent-sdk",
        files={"shop.py": SHOP, "agent.py": CLAUDE},
        call="from agent import run_agent as answer",
    ),
    "langgraph-json": Agent(
        title="`langgraph.json`, `src/` layout",
        environment="first-answer-langchain",
        files={
            "langgraph.json": '{"dependencies": ["."], "graphs": {"support": "./src/support/graph.py:make_graph"}}',
            "src/support/__init__.py": "",
            "src/support/shop.py": SHOP,
            "src/support/graph.py": GRAPH,
        },
        call=(
            'import sys\nsys.path.insert(0, "src")\nfrom support.graph import make_graph\n'
            'answer = lambda text: make_graph().invoke({"messages": [{"role": "user", "content": text}]})'
        ),
    ),
    "django": Agent(
        title="Django, a class of views",
        environment="first-answer",
        files={
            "shop.py": SHOP,
            "manage.py": DJANGO_MANAGE,
            "web/__init__.py": "",
            "web/settings.py": DJANGO_SETTINGS,
            "web/urls.py": "urlpatterns = []\n",
            "web/views.py": DJANGO_VIEW,
        },
        call="import manage, django\ndjango.setup()\nfrom web.views import think as answer",
    ),
}
