"""The Claude Agent SDK and the program of Claude Code, the genuine package, on a model behind HTTP."""

from __future__ import annotations

from pathlib import Path

from replaydiff.replay.model import Status
from tests.agents.running import calls, recorded
from tests.frameworks.replaying import Calls, Replays, interpreter
from tests.node.model import model

interpreter("claude-agent-sdk")

GET, CANCEL = "mcp__shop__get_order", "mcp__shop__cancel_order"
ROUNDS: list[Calls] = [[(GET, {"order_id": "7"}), (GET, {"order_id": "8"})], [(CANCEL, {"order_id": "7"})]]
READS = [
    recorded(GET, "open", order_id="7"),
    recorded(GET, [{"type": "text", "text": "closed"}], order_id="8"),
]


def test_tools_of_a_server_in_the_process_are_answered(tmp_path: Path) -> None:
    replays = Replays("claude-agent-sdk", tmp_path / "canary")
    failed = recorded(CANCEL, error="too late", order_id="7")
    with model() as url:
        variables = {"MODEL_URL": url, "ANTHROPIC_BASE_URL": url}
        [outcome] = replays.run("claude_agent_sdk_agents:run_agent", ROUNDS, *READS, failed, env=variables)
        [unrecorded] = replays.run("claude_agent_sdk_agents:run_agent", ROUNDS, *READS, env=variables)
    assert outcome.status is Status.OK, outcome.reason
    assert (outcome.final_response or "").startswith("open closed too late")
    assert [(name, rule) for name, _, rule in calls(outcome)] == [
        (GET, "tape"),
        (GET, "tape"),
        (CANCEL, "tape"),
    ]
    assert unrecorded.status is Status.DIVERGED
    assert replays.real_calls == []
