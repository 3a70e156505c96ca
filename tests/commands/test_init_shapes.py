"""`replay init` for the shapes that agents have: sessions, routes, factories, clients; and CI for what they run in."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from replaydiff.replay import settings as settings_module
from replaydiff.replay.api.proposal import propose
from replaydiff.replay.api.setup import write_setup
from replaydiff.replay.cli import cli
from replaydiff.replay.errors import SettingsError
from tests.commands.test_init import FASTAPI, write

ROUTE = FASTAPI["service.py"]

SESSION = """
import json

SESSIONS = {}

def book_flight(seat): ...

def reply(session_id: str, message: str) -> str:
    history = SESSIONS.setdefault(session_id, [])
    history.append({"role": "user", "content": message})
    return " / ".join(turn["content"] for turn in history)
"""
FLASK = """
from flask import Flask, jsonify, request

app = Flask(__name__)

@app.route("/chat", methods=["POST"])
def chat():
    return jsonify(reply=answer_with_model(request.json["message"]))
"""
TYPED_FASTAPI = """
from fastapi import APIRouter
from schemas import ChatRequest, ChatResponse

router = APIRouter()

@router.post("/chat")
def chat(request: ChatRequest) -> ChatResponse:
    response = ask(request.message)
    return response
"""
SCHEMAS = """
class ChatRequest(BaseModel):
    message: str

class ChatResponse(BaseModel):
    reply: str
"""
BLUEPRINT = {
    "web/__init__.py": "from flask import Flask\n\ndef create_app():\n    return Flask(__name__)\n",
    "web/chat.py": FLASK.replace("Flask, ", "Blueprint, ")
    .replace("app = Flask(__name__)", 'bp = Blueprint("chat", __name__)')
    .replace("@app", "@bp"),
}
DJANGO = {
    "manage.py": 'import os\nos.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")\n',
    "shop/views.py": """
import json
from django.http import JsonResponse

def chat(request):
    return JsonResponse({"answer": think(json.loads(request.body)["question"])})
""",
}

VIEW = {
    "manage.py": DJANGO["manage.py"],
    "shop/views.py": """
import json
from django.http import JsonResponse
from django.views import View

class Chat(View):
    def post(self, request):
        return JsonResponse({"answer": think(json.loads(request.body)["question"])})
""",
}
REST = {
    "manage.py": DJANGO["manage.py"],
    "shop/views.py": """
from rest_framework.decorators import api_view
from rest_framework.response import Response

@api_view(["POST"])
def chat(request):
    return Response({"answer": think(request.data["question"])})
""",
}


def test_a_function_with_a_session_is_an_entrypoint(tmp_path: Path) -> None:
    write(tmp_path, {"booking/__init__.py": "", "booking/service.py": SESSION})
    proposal = propose(tmp_path)
    assert [guess.value for guess in proposal.entrypoints] == ["booking.service:reply"]
    assert proposal.adapter is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a.py": ROUTE}, 'answer = await chat(ChatRequest(message=text))\n    return answer["reply"]'),
        ({"a.py": ROUTE.replace("return {", "return Reply(").replace('"reply": "hello"}', "text=1)"),
          "b.py": "class Reply(BaseModel):\n    reply: str\n"}, "return answer\n"),
        ({"a.py": TYPED_FASTAPI, "schemas.py": SCHEMAS}, "ChatRequest(message=text))\n    return answer.reply\n"),
        ({"a.py": FLASK}, 'return answer.get_json()["reply"]'),
        (BLUEPRINT, "from web import create_app\nfrom web.chat import chat\n\napplication = create_app()\n"),
        (DJANGO, 'return json.loads((chat(request)).content)["answer"]'),
        (VIEW, 'return json.loads((Chat.as_view()(request)).content)["answer"]'),
        (REST, 'return (chat(request)).data["answer"]'),
    ],
    ids=["fastapi", "unknown reply", "typed", "flask", "blueprint", "django", "class of views", "rest framework"],
)  # fmt: skip
def test_a_route_is_called_in_the_process_of_the_worker(
    tmp_path: Path, files: dict[str, str], expected: str
) -> None:
    proposal = propose(write(tmp_path, files))
    assert proposal.adapter is not None
    assert expected in proposal.adapter
    compile(proposal.adapter, "adapter", "exec")
    assert "read it" in proposal.unsure[-1]


@pytest.mark.parametrize(
    "code",
    [
        "from langchain.agents import create_agent\ndef build():\n    return create_agent('openai:gpt-5', [])\n",
        "from pydantic_ai import Agent\ndef make(model='openai:gpt-5'):\n    agent = Agent(model)\n    return agent\n",
        "import langgraph.graph, langchain_openai\nasync def graph():\n    return StateGraph(dict).compile()\n",
    ],
    ids=["create_agent", "pydantic-ai", "compile"],
)
def test_a_function_that_returns_an_agent_is_a_factory(tmp_path: Path, code: str) -> None:
    words = "import re\ndef words():\n    return re.compile('a')\n"
    proposal = propose(write(tmp_path, {"app/agent.py": code, "app/words.py": words}))
    [guess] = proposal.entrypoints
    assert (guess.factory, guess.location.partition(":")[0]) == (True, "app/agent.py")
    assert proposal.environment == ("OPENAI_API_KEY",)
    write_setup(tmp_path, proposal)
    assert settings_module.load(tmp_path).agent.factory


def test_graphs_that_langgraph_json_names_come_first(tmp_path: Path) -> None:
    files = {
        "langgraph.json": '{"graphs": {"shop": "./src/shop/graph.py:make_graph", "gone": "./gone.py:graph", "x": 1}}',
        "src/shop/graph.py": "import langgraph\ndef make_graph(): ...\ndef run_agent(text): ...\n",
    }
    first, second = propose(write(tmp_path, files)).entrypoints
    assert (first.value, first.location, first.factory) == ("shop.graph:make_graph", "langgraph.json", True)
    assert second.value == "shop.graph:run_agent"
    script = {
        "langgraph.json": '{"graphs": {"a": {"path": "./src/a.ts:graph"}}}',
        "src/a.ts": "",
        "package.json": "{}",
    }
    assert propose(write(tmp_path / "node", script)).entrypoint == "./src/a.ts#graph"


def test_tools_of_the_claude_agent_sdk_are_named_as_the_model_calls_them(tmp_path: Path) -> None:
    code = """
from claude_agent_sdk import ClaudeAgentOptions, query, tool

@tool("cancel_order", "Cancel an order.", {"order_id": str})
async def cancel(args): ...

async def support(prompt):
    async for message in query(prompt=prompt, options=ClaudeAgentOptions(allowed_tools=["mcp__shop__cancel_order"])):
        yield message
"""
    proposal = propose(write(tmp_path, {"agent.py": code}))
    assert (proposal.entrypoint, proposal.tools) == ("agent:support", ("claude-agent-sdk",))
    assert proposal.effects == {"mcp__shop__cancel_order": "write"}


@pytest.mark.parametrize(
    ("framework", "imported", "name"),
    [("openai-agents", "from agents import Agent, Runner", "triage"), ("google-adk", "from google.adk.agents import Agent", "root_agent")],
)  # fmt: skip
def test_an_agent_that_a_runner_is_called_with_gets_an_adapter(
    framework: str, imported: str, name: str, tmp_path: Path
) -> None:
    code = f"{imported}\ndef get_order(order_id): ...\nlast = Agent(name='a', tools=[get_order])\n{name} = Agent(name='b', handoffs=[last])\n"
    proposal = propose(write(tmp_path, {"shop/agent.py": code + "other = Agent(name='c')\n"}))
    assert (proposal.entrypoint, proposal.tools, proposal.effects) == (
        None,
        (framework,),
        {"get_order": "read"},
    )
    assert f"from shop.agent import {name}\n" in (proposal.adapter or "")
    compile(proposal.adapter or "", "adapter", "exec")


def test_a_method_that_asks_a_model_is_an_entrypoint_by_any_name(tmp_path: Path) -> None:
    code = "from litellm import completion\nclass Assistant:\n    def send(self, message: str): return completion(message)\n"
    assert propose(write(tmp_path, {"loop.py": code})).entrypoint == "loop:Assistant.send"


def test_a_message_of_a_framework_is_no_text(tmp_path: Path) -> None:
    code = "import chainlit as cl\n@cl.on_message\nasync def main(message: cl.Message): await client.responses.create()\n"
    assert propose(write(tmp_path, {"app.py": code})).entrypoint is None


def test_tools_of_a_server_have_its_name_where_the_code_lists_none(tmp_path: Path) -> None:
    code = """
from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, tool

@tool("cancel_order", "Cancel an order.", {"order_id": str})
async def cancel(args): ...

OPTIONS = ClaudeAgentOptions(mcp_servers={"shop": create_sdk_mcp_server("orders", tools=[cancel])})
"""
    assert propose(write(tmp_path, {"agent.py": code})).effects == {"mcp__shop__cancel_order": "write"}


@pytest.mark.parametrize(
    ("code", "variables"),
    [
        ("from langchain_google_genai import ChatGoogleGenerativeAI", {"GOOGLE_API_KEY"}),
        ("from google import genai", {"GOOGLE_API_KEY"}),
        ("from openai import AzureOpenAI", {"OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT"}),
        ("import groq, mistralai", {"GROQ_API_KEY", "MISTRAL_API_KEY"}),
        ("M = 'bedrock/anthropic.claude-v5'", {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"}),
        ("from claude_agent_sdk import query", {"ANTHROPIC_API_KEY"}),
        ("LINK = 'openai://x'\nTEXT = 'openai: it answers'", set()),
    ],
)  # fmt: skip
def test_the_key_of_every_client_is_passed_to_the_workflow(
    tmp_path: Path, code: str, variables: set[str]
) -> None:
    assert set(propose(write(tmp_path, {"agent.py": code})).environment) == variables


@pytest.mark.parametrize(
    ("files", "actions", "commands"),
    [
        ({"uv.lock": "", "pyproject.toml": ""}, ["setup-python"], "pipx run uv sync --frozen\n"),
        ({"package.json": "{}", "package-lock.json": ""}, ["setup-node"], "npm ci\n"),
        (
            {"package.json": "{}", "requirements.txt": ""},
            ["setup-python", "setup-node"],
            "pip install -r requirements.txt\nnpm install --no-package-lock\n",
        ),
        (
            {"environment.yml": ""},
            ["setup-python"],
            '"$CONDA/bin/conda" env create --quiet --prefix .venv --file environment.yml\n',
        ),
        ({"a.py": ""}, ["setup-python"], "true # none\n"),
    ],
    ids=["uv", "node", "both", "conda", "nothing"],
)
def test_the_workflow_sets_up_what_the_agent_runs_in(
    tmp_path: Path, files: dict[str, str], actions: list[str], commands: str
) -> None:
    write_setup(write(tmp_path, files), propose(tmp_path))
    workflow = yaml.safe_load((tmp_path / ".github/workflows/replay.yml").read_text())
    steps = workflow["jobs"]["check"]["steps"]
    used = [step["uses"].partition("@")[0].partition("/")[2] for step in steps if "uses" in step]
    assert used == ["checkout", *actions, "upload-artifact"]
    assert next(step for step in steps if step.get("name") == "packages")["run"] == commands
    assert workflow["jobs"]["check"]["timeout-minutes"] == 30
    assert workflow["concurrency"]["cancel-in-progress"] is True


@pytest.mark.parametrize(
    ("requires", "version"), [(">=3.11", "3.12"), (">=3.13", "3.13"), ("==3.11.*", "3.11"), ("odd", "3.12")]
)
def test_the_workflow_sets_up_a_python_that_the_project_allows(
    requires: str, version: str, tmp_path: Path
) -> None:
    write_setup(
        write(tmp_path, {"pyproject.toml": f'[project]\nrequires-python = "{requires}"\n'}), propose(tmp_path)
    )
    assert f'python-version: "{version}"' in (tmp_path / ".github/workflows/replay.yml").read_text()


def test_an_agent_in_a_folder_of_a_repository_has_its_workflow_at_the_top(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    folder = tmp_path / "services" / "desk"
    write(folder, {"package.json": "{}", ".nvmrc": "24"})
    written = write_setup(folder, propose(folder))
    workflow = tmp_path / ".github" / "workflows" / "replay-services-desk.yml"
    assert workflow in [file.path for file in written]
    content = yaml.safe_load(workflow.read_text())
    job = content["jobs"]["check"]
    assert (content["name"], job["defaults"]) == (
        "replay services desk",
        {"run": {"working-directory": "services/desk"}},
    )
    inputs = [step["with"] for step in job["steps"] if "with" in step]
    assert {"node-version-file": "services/desk/.nvmrc"} in inputs
    assert inputs[-1]["path"] == "services/desk/replay-report.xml"


def test_settings_that_are_there_are_read_before_anything_is_written(tmp_path: Path) -> None:
    write(tmp_path, {"replay.toml": "[agent"})
    result = CliRunner().invoke(cli, ["init", str(tmp_path)])
    assert isinstance(result.exception, SettingsError)
    assert [file.name for file in tmp_path.iterdir()] == ["replay.toml"]
