"""Messages are recognised as Langfuse recognises them: its own reading of each model call, `*.chatml.json`.

Where published downloads are at hand: REPLAY_TEST_FORMAT_SAMPLES=/path/to/format-samples.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.messages import canonical_args, decode, read_args, read_messages
from replaydiff.replay.model import Message, ToolCall

FOLDER = Path(os.environ.get("REPLAY_TEST_FORMAT_SAMPLES", "")) / "langfuse"
pytestmark = pytest.mark.skipif(
    "REPLAY_TEST_FORMAT_SAMPLES" not in os.environ, reason="REPLAY_TEST_FORMAT_SAMPLES names no folder"
)


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
