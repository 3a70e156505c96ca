"""Records that others published, where they are at hand: REPLAY_TEST_FORMAT_SAMPLES=/path/to/format-samples.

What is expected was written down by reading the records. For messages Langfuse's own reading of each model
call (`*.chatml.json` beside a download) is held against the recogniser.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replaydiff.importers.base import Note, Skipped
from replaydiff.replay.messages import canonical_args, decode, read_args, read_messages
from replaydiff.replay.model import Message, ToolCall, Trace, Usage
from tests.importers.reading import items, others, traces

FOLDER = Path(os.environ.get("REPLAY_TEST_FORMAT_SAMPLES", "")) / "langfuse"
pytestmark = pytest.mark.skipif(
    "REPLAY_TEST_FORMAT_SAMPLES" not in os.environ, reason="REPLAY_TEST_FORMAT_SAMPLES names no folder"
)

Call = tuple[str, dict[str, Any], str]
"""Name, arguments, and how the result begins."""

DOWNLOADS: dict[str, dict[str, Any]] = {
    "autogen-2025-06-06.trace.json": {
        "input": "Say 'Hello World!'",
        "final": "Hello World!",
        "model": "gpt-4o",
        "usage": (41, 3),
        "roles": ["user", "assistant"],
        "session": "session_abc",
    },
    "claude-agent-2025-12-22.trace.json": {
        "input": "What's the weather like in Berlin and New York?",
        "final": "Great! Here's the current weather for both cities:",
        "model": "claude-sonnet-4-5-20250929",
        "usage": (34, 232),
        "calls": [
            (
                "mcp__weather__get_weather",
                {"city": "Berlin"},
                '{"content":[{"type":"text","text":"Weather in Berlin',
            ),
            (
                "mcp__weather__get_weather",
                {"city": "New York"},
                '{"content":[{"type":"text","text":"Weather in New',
            ),
        ],
    },
    "google-adk-2025-08-28.trace.json": {
        "input": "hi",
        "final": "Hello Langfuse 👋!",
        "model": "gemini-2.0-flash",
        "usage": (67, 9),
        "calls": [("say_hello", {}, '{"greeting": "Hello Langfuse')],
        "session": "demo-session",
    },
    "koog-2025-08-26.trace.json": {
        "input": "Greet and say goodbye to the user in the same message.",
        "final": "Hello my darling Bob! And, bye my dear Bob!",
        "model": "gpt-4o",
        "usage": (215, 125),
        "calls": [
            ("HelloTool", {"name": "Bob"}, "Hello my darling Bob!"),
            ("ByeTool", {"name": "Bob"}, "Bye my dear Bob!"),
        ],
    },
    "langgraph-python-2025-08-22.trace.json": {
        "input": "Search the web for 'example' and summarize.",
        "final": 'The search for "example" primarily leads to',
        "model": "gpt-4o-2024-08-06",
        "usage": (168, 66),
        "calls": [("Web-Search", {"query": "example"}, '[{"url": "https://example.com"')],
        "roles": ["user", "user", "assistant", "tool", "assistant"],
    },
    "microsoft-agent-2025-12-17.trace.json": {
        "input": "What's the weather in Tokyo?",
        "final": "Current conditions in Tokyo, Japan: stormy",
        "model": "gpt-5-mini-2025-08-07",
        "usage": (293, 106),
        "calls": [("get_weather", {"location": "Tokyo, Japan"}, "The weather in Tokyo, Japan is stormy")],
        "roles": ["system", "user", "assistant", "tool", "assistant"],
    },
    "openai-agents-2025-09-30.trace.json": {
        "input": "What's the weather in Tokyo?",
        "final": "The weather in Tokyo is currently sunny.",
        "model": "gpt-4.1-2025-04-14",
        "usage": (140, 44),
        "calls": [("get_weather", {"city": "Tokyo"}, "The weather in Tokyo is sunny.")],
        "roles": ["user", "assistant", "tool", "assistant"],
    },
    "pydantic-ai-tools-2025-12-04.trace.json": {
        "input": "programming",
        "final": "Why do programmers hate nature?",
        "model": "gpt-4o-mini-2024-07-18",
        "usage": (1315, 209),
        "calls": [
            ("get_pun_suggestion", {"topic": "programming"}, "Pun idea: Play on words"),
            ("get_dad_joke_suggestion", {"topic": "programming"}, "Dad joke idea: Use a classic"),
            ("get_one_liner_suggestion", {"topic": "programming"}, "One-liner idea: Make a quick"),
            # How the evaluator hands in its structured answer; nothing runs, so nothing answers.
            ("final_result", {"quality": "good"}, ""),
        ],
    },
    "vercel-aisdk-2025-11-17.trace.json": {
        "input": "What is the weather like today in San Francisco?",
        "final": None,
        "model": "gpt-5",
        "usage": (62, 85),
        "calls": [("getWeather", {"location": "San Francisco"}, '{"location":"San Francisco","temperature"')],
    },
    "openai-assistants-2024-05-29.seed.json": {
        "input": "I need to solve the equation `3x + 11 = 14`.",
        "final": "Sure, first subtract 11 from both sides",
        "model": "gpt-4",
        "usage": (49, 40),
        "roles": ["assistant", "user", "assistant"],
    },
}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("name", DOWNLOADS)
def test_a_download_is_read_as_a_person_reads_it(name: str) -> None:
    want = DOWNLOADS[name]
    (trace,) = items("langfuse", FOLDER / "trace-download" / name)
    assert isinstance(trace, Trace)
    assert trace.input.startswith(want["input"])
    if want["final"] is None:
        assert trace.final_response is None
    else:
        assert (trace.final_response or "").startswith(want["final"])
    assert trace.model == want["model"]
    assert trace.usage is not None
    assert (trace.usage.input_tokens, trace.usage.output_tokens) == want["usage"]
    assert trace.session_id == want.get("session")
    wanted: list[Call] = want.get("calls", [])
    assert [call.name for call in trace.tool_calls] == [name for name, _, _ in wanted]
    for call, (_, args, result) in zip(trace.tool_calls, wanted, strict=True):
        assert {key: call.args.get(key) for key in args} == args
        assert _text(call.result).startswith(result)
        assert call.answered is bool(result)
        assert call.call_id
    if "roles" in want:
        assert [message.role for message in trace.messages] == want["roles"]


def _oracles() -> Iterator[Any]:
    for path in sorted((FOLDER / "trace-download").glob("*.chatml.json")):
        for observation, sides in json.loads(path.read_text()).items():
            for side, reading in sides.items():
                if reading.get("success"):
                    yield pytest.param(
                        path, observation, side, reading["data"], id=f"{path.name}-{observation}-{side}"
                    )


Heard = tuple[str, str, list[tuple[str, str, str | None]]]
"""Role, text, and calls with name, arguments and id."""


def _calls(calls: Any) -> list[tuple[str, str, str | None]]:
    return [(call.name, canonical_args(call.args), call.call_id) for call in calls]


def _ours(message: Message) -> Heard:
    text = json.dumps(decode(message.text)) if message.role == "tool" else message.text
    return message.role, text, _calls(message.tool_calls)


def _theirs(message: dict[str, Any]) -> Heard:
    """Langfuse's reading, and within it what it leaves to its screens: blocks, and requests told as text."""
    role = {"model": "assistant"}.get(message["role"], message["role"])
    content = message.get("content")
    asked = [
        ToolCall(name=call["name"], args=read_args(call["arguments"]), call_id=call["id"] or None)
        for call in message.get("tool_calls", ())
    ]
    if role == "tool" and not (isinstance(content, str) and content.startswith('[{"function"')):
        return role, json.dumps(decode(content)), _calls(asked)
    parts = decode(content) if isinstance(content, str) and content.startswith('[{"function"') else content
    texts = [content] if isinstance(parts, str) else []
    for part in parts if isinstance(parts, list) else ():
        if part["type"] == "text":
            texts.append(part["text"])
        else:
            role = "assistant"
            made = part.get("function", part)
            args = read_args(made.get("arguments", made.get("input")))
            asked.append(ToolCall(name=made["name"], args=args, call_id=part["id"]))
    return role, "\n".join(texts), _calls(asked)


def test_there_are_oracles() -> None:
    assert len(list(_oracles())) >= 50


@pytest.mark.parametrize(("path", "observation", "side", "data"), list(_oracles()))
def test_messages_are_recognised_as_langfuse_recognises_them(
    path: Path, observation: str, side: str, data: list[dict[str, Any]]
) -> None:
    if any("role" not in message for message in data):
        pytest.skip("Langfuse took a value for a message that is none: the output of a tool, or a state")
    download = json.loads(path.with_name(path.name.replace(".chatml", ".trace")).read_text())
    (record,) = (one for one in download["observations"] if one["id"] == observation)
    ours = [_ours(message) for message in read_messages(record[side]) or ()]
    theirs = [_theirs(message) for message in data]
    for got, want in zip(ours, theirs, strict=True):
        # Gemini's results of functions stand under the user; ours are a tool's.
        if (got[0], want[0]) == ("tool", "user") and "function_response" in record[side]:
            want = ("tool", json.dumps(decode(want[1])), want[2])
        assert got == want


@pytest.mark.parametrize(
    "name",
    [
        "observations_v2.synthetic.jsonl",
        *(f"ui-table-export-events.synthetic.{end}" for end in ("json", "jsonl", "csv")),
    ],
)
def test_exports_of_one_trace_say_the_same(name: str) -> None:
    (trace,) = items("langfuse", FOLDER / "blob-export" / name)
    assert isinstance(trace, Trace)
    assert (trace.input, trace.final_response) == (
        "Where is order 4411?",
        "Your order 4411 shipped yesterday.",
    )
    assert (trace.model, trace.release, trace.environment) == (
        "gpt-4o-2024-08-06",
        "git-4f2a1c",
        "production",
    )
    assert (trace.session_id, trace.user_id, trace.tags) == ("sess-9", "u-17", ("prod", "eu"))
    assert trace.usage == Usage(input_tokens=120, output_tokens=18, cache_read_tokens=0, cache_write_tokens=0)
    assert trace.cost_usd == pytest.approx(0.00048)
    found, failed = trace.tool_calls
    assert (found.name, found.args, found.call_id) == ("get_order", {"order_id": 4411}, "call_1")
    assert (found.result, found.duration_ms) == ('{"status": "shipped", "eta": "2026-11-03"}', 390.0)
    assert (failed.name, failed.args, failed.error) == (
        "get_carrier",
        {"order_id": 4411},
        "TimeoutError: carrier api",
    )


def test_scores_are_joined_from_files_and_pages_of_the_api() -> None:
    observations = FOLDER / "blob-export" / "observations_v2.synthetic.jsonl"
    (trace,) = traces("langfuse", observations, FOLDER / "blob-export" / "scores.synthetic.jsonl")
    assert trace.scores == {"user-feedback": 1.0, "outcome": "resolved"}
    (trace,) = traces("langfuse", observations, FOLDER / "api" / "v3-scores-page.synthetic.json")
    assert trace.scores == {"user-feedback": 1.0, "resolved": False}
    assert trace.metadata["corrected_response"] == "The refund takes 5 days."


SERVER = {
    # Answers of one server, saved: release → tool calls, conversation's length.
    "v4-observations.json.gz": {
        "25-trial-0": (7, 31),
        "25-trial-1": (9, 33),
        "25-trial-2": (11, 37),
        "25-trial-3": (14, 47),
        "26-trial-0": (8, 31),
        "26-trial-1": (10, 41),
    }
}


def test_saved_pages_of_a_real_server_give_its_traces() -> None:
    found = items("langfuse", FOLDER / "real-server" / "v4-observations.json.gz")
    whole = [item for item in found if isinstance(item, Trace) and item.input]
    assert {
        f"{(item.session_id or '').removeprefix('task-')}-{item.release}": (
            len(item.tool_calls),
            len(item.messages),
        )
        for item in whole
    } == SERVER["v4-observations.json.gz"]
    assert all(call.answered for item in whole for call in item.tool_calls)
    assert all((item.model, item.tags) == ("gpt-4o-2024-05-13", ("airline",)) for item in whole)
    left = [item for item in others(found) if isinstance(item, Skipped)]
    assert [item.reason for item in left] == [
        "traces of evaluations and experiments (environment sdk-experiment)"
    ]


@pytest.mark.parametrize(
    ("name", "calls"),
    [("25-0", 7), ("25-1", 9), ("25-2", 11), ("25-3", 14), ("26-0", 8)],
)
def test_one_trace_of_an_older_server_is_whole(name: str, calls: int) -> None:
    (trace,) = items("langfuse", FOLDER / "real-server" / f"v2-trace-{name}.json.gz")
    assert isinstance(trace, Trace)
    assert len(trace.tool_calls) == calls
    assert all(call.answered for call in trace.tool_calls)
    assert (trace.release, trace.user_id) == (f"trial-{name[-1]}", "aarav_ahmed_6699")
    assert "reward" in trace.scores


def test_tables_of_an_older_server_are_joined() -> None:
    names = ("v2-traces.json", "v2-observations.json.gz", "v2-scores.json")
    found = items("langfuse", *(FOLDER / "real-server" / name for name in names))
    assert others(found) == []
    assert sorted(
        (item.release or "", len(item.tool_calls)) for item in found if isinstance(item, Trace)
    ) == [
        ("trial-0", 7),
        ("trial-0", 8),
        ("trial-1", 9),
        ("trial-2", 11),
        ("trial-3", 14),
    ]
    alone = items("langfuse", FOLDER / "real-server" / names[0])
    assert sum(isinstance(item, Note) for item in alone) == 5
