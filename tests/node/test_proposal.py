"""What `replay init` proposes for an agent in JavaScript or TypeScript, by its text."""

import json
from pathlib import Path

import pytest

from replaydiff.replay.agents.locate import locate
from replaydiff.replay.api.proposal import propose

FRAMEWORK = """\
import { generateText, tool } from "ai";

export function makeTools() {
  return { get_order: tool({ execute: async () => fetch(process.env.SHOP_URL) }), cancel_order: tool({}) };
}

export async function runAgent(prompt: string) {
  return generateText({ model: model(process.env["MODEL_KEY"]), tools: makeTools(), prompt });
}
"""
PLAIN = """\
const TOOLS = [{ name: "cancel_order", description: "", input_schema: { type: "object" } }];

async function cancelOrder({ orderId }) {
  return shop.cancel(orderId);
}

async function reply(message) {
  const response = await client.messages.create({ tools: TOOLS, messages: [message] });
  return cancelOrder(response.content[0].input);
}

module.exports = { reply };
"""


def project(folder: Path, file: str, text: str) -> Path:
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(text)
    (folder / "package.json").write_text(json.dumps({"scripts": {"start": f"node {file}"}}))
    modules = folder / "node_modules" / "ai"
    modules.mkdir(parents=True)
    (modules / "index.js").write_text("export function runAgent(prompt) { generateText({}) }")
    return folder


def test_a_framework_and_its_entrypoint_are_proposed(tmp_path: Path) -> None:
    proposal = propose(project(tmp_path, "src/agent.ts", FRAMEWORK))
    assert (proposal.entrypoint, proposal.entrypoints[0].location) == (
        "./src/agent.ts#runAgent",
        "src/agent.ts:7",
    )
    assert proposal.tools == ("ai",)
    assert proposal.effects == {"get_order": "read", "cancel_order": "write"}
    assert proposal.environment == ("SHOP_URL", "MODEL_KEY")


def test_functions_are_proposed_by_the_name_that_the_model_has_for_them(tmp_path: Path) -> None:
    proposal = propose(project(tmp_path, "agent.js", PLAIN))
    assert proposal.entrypoint == "./agent.js#reply"
    assert proposal.tools == ("./agent.js#cancelOrder as cancel_order",)


@pytest.mark.parametrize(
    "parameters",
    ["sessionId: string, message: string", "{ threadId, message }: Turn", "message: string, session_id"],
)
def test_a_function_that_keeps_the_conversation_is_proposed(parameters: str, tmp_path: Path) -> None:
    text = f"const SESSIONS = new Map();\nexport async function reply({parameters}) {{ return post(SESSIONS); }}\n"
    assert propose(project(tmp_path, "src/agent.mjs", text)).entrypoint == "./src/agent.mjs#reply"


def test_a_route_handler_is_proposed(tmp_path: Path) -> None:
    text = FRAMEWORK.replace("runAgent(prompt: string)", "POST(request: Request)")
    proposal = propose(project(tmp_path, "app/api/chat/route.ts", text))
    assert proposal.entrypoint == "./app/api/chat/route.ts#POST"


@pytest.mark.parametrize(
    ("text", "value", "factory"),
    [
        ("export class Concierge {\n  constructor(model = new Model()) {}\n\n  stream(messages) {", "Concierge.stream", False),
        ("module.exports.handleMessage = async function handleMessage(message, options = {}) {", "handleMessage", False),
        ("exports.reply = async (message) => {", "reply", False),
        ("export default async function (prompt) {", "default", False),
        ("export default async function answer(prompt) {", "default", False),
        ("export function build() {\n  return createReactAgent({ llm });\n", "build", True),
    ],
)  # fmt: skip
def test_what_answers_may_be_written_in_any_way(text: str, value: str, factory: bool, tmp_path: Path) -> None:
    source = f'import {{ streamText }} from "ai";\n{text}\n  return streamText({{ }});\n  }}\n}}\n'
    proposal = propose(project(tmp_path, "src/agent.js", source))
    assert (proposal.entrypoint, proposal.entrypoints[0].factory) == (f"./src/agent.js#{value}", factory)


def test_an_agent_of_openai_is_no_entrypoint_by_itself(tmp_path: Path) -> None:
    text = 'import { Agent } from "@openai/agents";\nexport const agent = new Agent({ name: "shop" });\n'
    assert propose(project(tmp_path, "src/agent.mjs", text)).entrypoint is None


def test_variables_with_a_default_are_left_to_it(tmp_path: Path) -> None:
    text = (
        "const url = process.env.SHOP_URL ?? LOCAL, key = process.env.SHOP_KEY || '';\n"
        "if (process.env.NODE_ENV === 'test' || !process.env['FAKE']) serve(process.env.PORT);\n"
        "if (process.env.QUICK) connect(process.env.SHOP_REGION!, process.env['MODEL'] ? 1 : 2);\n"
    )
    assert propose(project(tmp_path, "src/agent.ts", text)).environment == ("SHOP_KEY", "FAKE", "SHOP_REGION")


def test_a_name_is_located_in_the_text(tmp_path: Path) -> None:
    folder = project(tmp_path, "agent.js", PLAIN)
    found = locate("./agent.js#cancelOrder as cancel_order", folder, search_installed=False)
    assert found.position == "agent.js:3"
    assert locate("./agent.js#gone", folder, search_installed=False).position is None
    assert "there is no file" in str(locate("./a.js#x", folder, search_installed=False).problem)
