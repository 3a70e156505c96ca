"""Real records of other tools, where a folder of them is at hand: REPLAY_TEST_FORMAT_SAMPLES=/path/to/samples.

What a person reads in each file, in figures.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from replaydiff.importers.base import Reject
from replaydiff.replay.messages import conversation, read_messages
from replaydiff.replay.model import Trace
from tests.importers.reading import items

FOLDER = os.environ.get("REPLAY_TEST_FORMAT_SAMPLES")
pytestmark = pytest.mark.skipif(not FOLDER, reason="REPLAY_TEST_FORMAT_SAMPLES names no folder")


@dataclass(frozen=True)
class Seen:
    """What one trace of a sample is, in figures."""

    path: str
    asked: bool = True
    said: bool = True
    answered: int = 0
    """Calls with a result."""
    failed: int = 0
    tokens: tuple[int, int, int] | None = None
    """Input, output, read from cache."""


SAMPLES: dict[tuple[str, str], list[Seen]] = {
    ("openai", "openai-chat-completion-objects.json"): [
        Seen("-", asked=False, tokens=(663, 225, 0)),
        Seen("duckduckgo_search", asked=False, said=False, tokens=(163, 20, 0)),
    ],
    ("openai", "openai-responses-input-items-and-response.json"): [
        Seen("get_weather", answered=1, tokens=(140, 44, 0)),
    ],
    ("openai", "openai-chat-finetune-drone.trimmed.jsonl"): [
        Seen("takeoff_drone", said=False),
        Seen("land_drone", said=False),
    ],
    ("openai", "tau-bench-gpt-4o-airline-one.json"): [
        Seen("get_reservation_details>transfer_to_human_agents", said=False, answered=2),
    ],
    ("anthropic", "anthropic-messages.synthetic.jsonl"): [
        Seen("get_order>get_carrier", answered=2, failed=1, tokens=(510, 21, 200)),
    ],
    ("claude-code", "claude-code-representative-2025.jsonl"): [
        Seen("-", tokens=(25, 120, 0)),
        Seen("Edit", answered=1, tokens=(123, 180, 0)),
        Seen("Bash", answered=1, tokens=(70, 145, 0)),
    ],
    ("claude-code", "claude-code-showcase-2026.trimmed.jsonl"): [
        Seen(
            "mcp__plugin_showcase_example__inspect_repository_structure>Agent>Agent",
            answered=3,
            tokens=(360, 120, 0),
        ),
    ],
    ("codex", "codex-cli-rollout.jsonl"): [
        Seen("exec_command>apply_patch>mcp__synthetic__lookup", answered=3),
    ],
}


def _seen(trace: Trace) -> Seen:
    usage = trace.usage
    return Seen(
        trace.tool_path,
        asked=bool(trace.input),
        said=trace.final_response is not None,
        answered=sum(call.answered for call in trace.tool_calls),
        failed=sum(call.error is not None for call in trace.tool_calls),
        tokens=(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) if usage else None,
    )


@pytest.mark.parametrize(("source", "name"), SAMPLES)
def test_chat_logs_are_what_a_person_reads_in_them(source: str, name: str) -> None:
    found = items(source, Path(FOLDER or "") / "chat-logs" / name)
    assert [_seen(one) for one in found if isinstance(one, Trace)] == SAMPLES[source, name]
    assert not [one for one in found if isinstance(one, Reject)]
    for trace in (one for one in found if isinstance(one, Trace)):
        assert all("_raw" not in call.args or call.name == "apply_patch" for call in trace.tool_calls)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("otel/semconv-genai-tool-round-trip.messages.json", "gen_ai.input.messages"),
        ("otel/traceloop-v0.40-flattened-attributes.synthetic.json", "attributes"),
        ("openinference/openinference_client_span_tool_calls.json", None),
    ],
)
def test_attributes_of_spans_are_conversations(name: str, part: str | None) -> None:
    record = json.loads((Path(FOLDER or "") / name).read_text())
    messages = read_messages(record if part is None else record[part])
    assert messages is not None
    run = conversation(messages)
    assert run.input == "Weather in Paris?"
    (call,) = run.tool_calls
    assert (call.name, list(call.args.values()), call.answered) == ("get_weather", ["Paris"], True)
