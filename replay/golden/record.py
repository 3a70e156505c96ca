"""A case as the record it is written as: keys in a fixed order, what is not expected left out."""

from __future__ import annotations

import json
from typing import Any

from replaydiff.replay.model import Case, Match, Message, ToolCall


def case_to_json(case: Case) -> dict[str, Any]:
    """The case as the object of its line, keys in a fixed order, what is not expected left out."""
    import msgspec

    expected = case.expectation
    record: dict[str, Any] = {"id": case.id, "input": case.input}
    if case.messages:
        record["messages"] = [_message(message) for message in case.messages]
    if expected.tool_calls is not None:
        record["expected_tool_calls"] = [
            {"name": call.name} if call.args is None else {"name": call.name, "args": call.args}
            for call in expected.tool_calls
        ]
    if expected.match != Match():
        plain = msgspec.to_builtins(Match())
        record["match"] = {k: v for k, v in msgspec.to_builtins(expected.match).items() if v != plain[k]}
        if "tools" in record["match"]:
            record["match"]["tools"] = _known(record["match"]["tools"])
    optional = {
        "expected_tools": None if expected.tools is None else list(expected.tools),
        "expected_response_traits": list(expected.response_traits) or None,
        "expected_answer": expected.answer,
        "tolerance": expected.tolerance,
        "expected_fields": list(expected.fields) or None,
        "criteria": expected.criteria or None,
        "expected_state": expected.state,
        "max_latency_ms": expected.max_latency_ms,
        "max_cost_usd": expected.max_cost_usd,
        "threshold": expected.threshold,
        "tape": [_taped(call) for call in case.tape] or None,
        "tags": list(case.tags) or None,
        "category": case.category,
        "difficulty": case.difficulty,
    }
    record |= {key: value for key, value in optional.items() if value is not None} | expected.extra
    provenance = msgspec.to_builtins(case.provenance)
    extra = provenance.pop("extra")
    if case.provenance.quarantine is not None:
        provenance["quarantine"] = _known(provenance["quarantine"])
    metadata = {key: value for key, value in provenance.items() if value is not None} | extra
    if metadata:
        record["metadata"] = metadata
    return record


def _message(message: Message) -> dict[str, Any]:
    """In OpenAI's shape."""
    record: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.tool_calls:
        record["tool_calls"] = [
            {
                "id": call.call_id or f"call_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.args, ensure_ascii=False)},
            }
            for index, call in enumerate(message.tool_calls)
        ]
    named = {"tool_call_id": message.tool_call_id, "name": message.name}
    return record | {key: value for key, value in named.items() if value is not None}


def _taped(call: ToolCall) -> dict[str, Any]:
    recorded: dict[str, Any] = {"name": call.name, "args": call.args}
    if call.error is not None:
        return recorded | {"error": call.error}
    return recorded | ({"result": call.result} if call.answered else {})


def _known(value: Any) -> Any:
    """What is there of an object, without the keys that say nothing."""
    if not isinstance(value, dict):
        return value
    return {key: _known(item) for key, item in value.items() if item is not None and item != {}}
