"""Conversations as agent frameworks save them, rewritten as the chat logs that `sources.openai` reads.

| record | written by |
|---|---|
| `{conversations: [{from, value}], tools}` | ShareGPT files with tools (`function_call`, `observation`) |
| `{messages: [{type, source, content}]}`, a list of these, `{llm_context}`, `{agent_states}` | AutoGen 0.4 |
| `{values: {messages}}`, `{channel_values: {messages}}` | LangGraph's states and checkpoints |
| `{messages: [{message_type, …}]}`, a list of these | Letta |
| `{trajectory, history, info}` | SWE-agent |
| lists of events | OpenHands, see `chat.openhands` |
| `{conversations}` of `function`, `{query, answers, tools}` | ToolBench, xLAM: see `chat.datasets` |

A message of a type that is not listed here rejects its record, so that no call in it is lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

from replaydiff.importers import fields
from replaydiff.importers.base import RecordError
from replaydiff.importers.chat import datasets, openhands
from replaydiff.importers.chat.rewriting import (
    answer,
    first_of,
    list_or_single,
    model_name,
    objects,
    requested,
    times,
    within,
)
from replaydiff.replay.messages import decode
from replaydiff.replay.model import Json, JsonObject, as_list, as_object, objects_in


class Shape(NamedTuple):
    """One way in which conversations are saved."""

    recognises: Callable[[JsonObject], bool]
    """Whether a record is of this shape."""
    chat_log: Callable[[JsonObject], JsonObject]
    """The record with `messages` of the chat API, and fields of a chat log; raises RecordError."""
    searched: Callable[[JsonObject], JsonObject] = lambda record: record
    """What of a record to search for tool calls that were not read."""
    conversation: tuple[str, ...] = ()
    """Plain fields that are the conversation, and no metadata."""


class Rewritten(NamedTuple):
    """A framework's record as a chat log."""

    log: JsonObject
    searched: JsonObject
    """What of the record to search for tool calls that were not read."""


def rewritten(record: JsonObject) -> Rewritten | None:
    """Rewrite a framework's record as a chat log; None where it is of no shape that is known here.

    Plain fields beside the messages stay, so that they become metadata.

    Args:
        record: an object, or `{"messages": […]}` for a list of messages.

    Raises:
        RecordError: a message in it is of a type that is not known.
    """
    if "role" in first_of(record.get("messages")):
        # Most chat logs; no framework here writes roles under this key.
        return None
    shape = next((shape for shape in _SHAPES if shape.recognises(record)), None)
    if shape is None:
        return None
    plain = {
        key: value
        for key, value in record.items()
        if key not in (*_OF_ENVELOPE, *shape.conversation) and isinstance(value, str | int | float)
    }
    return Rewritten({**plain, **shape.chat_log(record)}, shape.searched(record))


_OF_ENVELOPE = ("type", "version", "v", "ts", "system", "stop_reason", "replay_config")
"""Plain fields that are of the format, and say nothing of the conversation."""


def is_framework(record: JsonObject) -> bool:
    """Return whether a record is of one of the shapes."""
    return any(shape.recognises(record) for shape in _SHAPES)


def is_message(value: Json) -> bool:
    """Return whether a value may be the first message of a list that a framework saved."""
    return isinstance(value, dict) and is_framework({"messages": [value]})


# ShareGPT

_SHAREGPT_ROLES = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
}
_CALL_TURNS = ("function_call", "tool_call")
_RESULT_TURNS = ("observation", "function_response", "tool_response", "tool")


def _is_sharegpt(record: JsonObject) -> bool:
    first = first_of(record.get("conversations"))
    return isinstance(first.get("from"), str) and "value" in first


def _sharegpt(record: JsonObject) -> JsonObject:
    turns = objects(record["conversations"], "conversations")
    messages: list[Json] = [_sharegpt_message(turn, number) for number, turn in enumerate(turns)]
    system = record.get("system")
    if isinstance(system, str) and system:
        messages.insert(0, {"role": "system", "content": system})
    remaining_fields = {key: value for key, value in record.items() if key not in ("conversations", "system")}
    return {**remaining_fields, "messages": messages, "tools": decode(record.get("tools"))}


def _sharegpt_message(turn: JsonObject, number: int) -> JsonObject:
    speaker, value = turn.get("from"), turn.get("value")
    if speaker in _CALL_TURNS:
        return answer(None, [_sharegpt_call(call, number) for call in list_or_single(decode(value))])
    if speaker in _RESULT_TURNS:
        return {"role": "tool", "content": value}
    if not isinstance(speaker, str) or speaker not in _SHAREGPT_ROLES:
        raise RecordError(f"conversations[{number}].from is not known: {str(speaker)[:40]!r}")
    if not isinstance(value, str):
        raise RecordError(f"conversations[{number}].value must be text, not {fields.kind(value)}")
    return {"role": _SHAREGPT_ROLES[speaker], "content": value}


def _sharegpt_call(call: Json, number: int) -> JsonObject:
    name = call.get("name") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(name, str):
        raise RecordError(
            f"conversations[{number}].value is no call: looked for JSON with name and arguments"
        )
    arguments = next((call[key] for key in ("arguments", "parameters", "args") if key in call), None)
    if arguments is None:
        raise RecordError(f"the call of {name[:40]!r} in conversations[{number}] has no arguments")
    return {"name": name, "args": arguments, "id": call.get("id")}


# AutoGen

_AUTOGEN_TEXTS = (
    "TextMessage", "StructuredMessage", "ToolCallSummaryMessage", "HandoffMessage", "StopMessage"
)  # fmt: skip
_AUTOGEN_SILENT = (
    *("ThoughtEvent", "MemoryQueryEvent", "ModelClientStreamingChunkEvent", "UserInputRequestedEvent"),
    *("SelectSpeakerEvent", "SelectorEvent"),
)
_AUTOGEN_CALLS = ("ToolCallRequestEvent",)
_AUTOGEN_RESULTS = ("ToolCallExecutionEvent", "FunctionExecutionResultMessage")
_AUTOGEN_CONTEXT = ("SystemMessage", "UserMessage", "AssistantMessage")
_AUTOGEN = {
    *_AUTOGEN_TEXTS, *_AUTOGEN_SILENT, *_AUTOGEN_CALLS, *_AUTOGEN_RESULTS, *_AUTOGEN_CONTEXT
}  # fmt: skip


def _is_autogen(record: JsonObject) -> bool:
    return _is_autogen_state(record) or _is_autogen_message(first_of(record.get("messages")))


def _is_autogen_message(message: JsonObject) -> bool:
    kind = message.get("type")
    return (
        isinstance(kind, str) and kind in _AUTOGEN and {"content"} <= message.keys() and "role" not in message
    )


def _is_autogen_state(record: JsonObject) -> bool:
    kind = record.get("type")
    return (
        isinstance(kind, str)
        and kind.endswith("State")
        and ("llm_context" in record or isinstance(record.get("agent_states"), dict))
    )


def _autogen(record: JsonObject) -> JsonObject:
    messages = objects(_autogen_messages(record), "messages")
    remaining_fields = {
        key: value for key, value in record.items() if key not in ("messages", "agent_states", "llm_context")
    }
    if _is_autogen_state(record):
        # The type and the version are those of the state, not of the agent.
        remaining_fields = {
            key: value for key, value in remaining_fields.items() if key not in ("type", "version")
        }
    usages = [used for sent_message in messages if isinstance(used := sent_message.get("models_usage"), dict)]
    usage: JsonObject = {
        key: sum(fields.count(used, key) for used in usages) for key in ("prompt_tokens", "completion_tokens")
    }
    return {
        **({"usage": usage} if usages else {}),
        **times(messages, "created_at"),
        **remaining_fields,
        "messages": [
            sent_message
            for number, message in enumerate(messages)
            for sent_message in _autogen_message(message, number)
        ],
    }


def _autogen_messages(record: JsonObject) -> Json:
    """Return the messages of a result, of an agent's context, or of the thread that a team's manager
    keeps.
    """
    if not _is_autogen_state(record):
        return record["messages"]
    if "llm_context" in record:
        return fields.mapping(record, "llm_context").get("messages")
    states = objects_in([*fields.mapping(record, "agent_states").values()])
    thread = next((state["message_thread"] for state in states if state.get("message_thread")), None)
    if thread is None:
        raise RecordError("no manager in agent_states has a message_thread")
    return thread


def _autogen_message(message: JsonObject, number: int) -> Iterator[JsonObject]:
    kind, content, where = str(message.get("type")), message.get("content"), f"messages[{number}]"
    if kind in _AUTOGEN_SILENT:
        return
    if kind in _AUTOGEN_CALLS or (kind == "AssistantMessage" and isinstance(content, list)):
        yield answer(
            None, [requested(call, call.get("id"), where) for call in objects(content, f"{where}.content")]
        )
    elif kind in _AUTOGEN_RESULTS:
        for call in objects(content, f"{where}.content"):
            yield {
                "role": "tool",
                "tool_call_id": call.get("call_id"),
                "name": call.get("name"),
                "content": call.get("content"),
                "is_error": call.get("is_error"),
            }
    elif kind == "ToolCallSummaryMessage":
        # It repeats the results, as the agent's answer.
        yield answer(content)
    elif kind == "SystemMessage":
        yield {"role": "system", "content": content}
    elif kind == "UserMessage" or (kind in _AUTOGEN and message.get("source") == "user"):
        yield {"role": "user", "content": content}
    elif kind in _AUTOGEN:
        yield answer(content)
    elif kind.startswith("StructuredMessage"):
        yield answer(json.dumps(content, ensure_ascii=False))
    else:
        raise RecordError(f"{where}.type is not known: {kind[:40]!r}")


# LangGraph


def _is_langgraph(record: JsonObject) -> bool:
    return any(
        isinstance(inner := record.get(key), dict) and isinstance(inner.get("messages"), list)
        for key in ("values", "channel_values")
    )


def _langgraph(record: JsonObject) -> JsonObject:
    state = as_object(record.get("channel_values", record.get("values")))
    config = fields.mapping(record, "config").get("configurable")
    config = config if isinstance(config, dict) else fields.mapping(record, "checkpoint")
    thread = fields.text(config, "thread_id") or fields.text(record, "thread_id")
    return {
        "messages": state.get("messages"),
        **_langchain_model(state.get("messages")),
        "created_at": record.get("created_at", record.get("ts")),
        "id": thread or record.get("id"),
        "session_id": thread,
        "metadata": fields.mapping(record, "metadata"),
    }


def _langchain_model(messages: Json) -> JsonObject:
    """Return the model that wrote the last answer, where its message says so, in any of LangChain's three
    dumps.
    """
    models: list[Json] = []
    for message in reversed(as_list(messages)):
        for holder in (message, within(message, "kwargs"), within(message, "data")):
            answered = within(holder, "response_metadata")
            models += [within(answered, "model_name"), within(answered, "model")]
    return model_name(*models)


# Letta

_LETTA_TEXTS = {"system_message": "system", "user_message": "user", "assistant_message": "assistant"}
_LETTA_SILENT = (
    *("reasoning_message", "hidden_reasoning_message", "internal_monologue", "usage_statistics"),
    *("stop_reason", "ping", "event_message", "summary_message"),
)


def _is_letta(record: JsonObject) -> bool:
    first = first_of(record.get("messages"))
    return isinstance(first.get("message_type"), str) and "role" not in first


def _letta(record: JsonObject) -> JsonObject:
    messages = objects(record["messages"], "messages")
    if len(messages) > 1 and (fields.time(messages[0], "date") or datetime.min) > (
        fields.time(messages[-1], "date") or datetime.max
    ):
        # Pages of the API begin with the newest.
        messages.reverse()
    remaining_fields = {key: value for key, value in record.items() if key not in ("messages", "stop_reason")}
    return {
        **times(messages, "date"),
        **remaining_fields,
        "messages": [
            rewritten_message
            for number, message in enumerate(messages)
            for rewritten_message in _letta_message(message, number)
        ],
    }


def _letta_message(message: JsonObject, number: int) -> Iterator[JsonObject]:
    kind, where = str(message.get("message_type")), f"messages[{number}]"
    if kind in _LETTA_TEXTS:
        yield {"role": _LETTA_TEXTS[kind], "content": message.get("content", message.get("message"))}
    elif kind in ("tool_call_message", "approval_request_message"):
        calls = list_or_single(message.get("tool_calls") or message.get("tool_call"))
        listed = objects(calls, f"{where}.tool_calls")
        yield answer(None, [requested(call, call.get("tool_call_id"), where) for call in listed])
    elif kind == "tool_return_message":
        listed = objects(message.get("tool_returns") or [message], f"{where}.tool_returns")
        yield from map(_letta_result, listed)
    elif kind == "approval_response_message":
        returns = objects(message.get("approvals") or [], f"{where}.approvals")
        yield from (_letta_result(call) for call in returns if "tool_return" in call)
    elif kind not in _LETTA_SILENT:
        raise RecordError(f"{where}.message_type is not known: {kind[:40]!r}")


def _letta_result(returned: JsonObject) -> JsonObject:
    return {
        "role": "tool",
        "tool_call_id": returned.get("tool_call_id"),
        "name": returned.get("name"),
        "content": returned.get("tool_return"),
        "is_error": returned.get("status") == "error",
    }


# SWE-agent


def _is_swe_agent(record: JsonObject) -> bool:
    return isinstance(record.get("trajectory"), list) and isinstance(record.get("history"), list)


def _swe_agent(record: JsonObject) -> JsonObject:
    info = fields.mapping(record, "info")
    stats = fields.mapping(info, "model_stats")
    history = _without_demos(record)
    if any(message.get("action") for message in history) and not any(
        message.get("tool_calls") for message in history
    ):
        raise RecordError("the actions of this trajectory are text, and not tool calls of the model")
    return {
        "id": record.get("instance_id"),
        **model_name(within(decode(record.get("replay_config")), "agent", "model", "name")),
        "messages": [_swe_agent_message(message) for message in history],
        "environment": record.get("environment"),
        "cost_usd": stats.get("instance_cost"),
        "usage": {
            "input_tokens": fields.count(stats, "tokens_sent"),
            "output_tokens": fields.count(stats, "tokens_received"),
        },
        "metadata": {key: info[key] for key in ("exit_status", "submission") if info.get(key) is not None},
    }


def _without_demos(record: JsonObject) -> list[JsonObject]:
    """Return the history without the demonstrations that the prompt begins with."""
    return [
        message for message in objects(record["history"], "history") if message.get("is_demo") is not True
    ]


def _swe_agent_searched(record: JsonObject) -> JsonObject:
    return {"history": list(_without_demos(record))}


def _swe_agent_message(message: JsonObject) -> JsonObject:
    """Return a message, with the id of its call as the chat API writes it."""
    ids = message.get("tool_call_ids")
    chat: JsonObject = {
        key: message[key] for key in ("role", "content", "tool_calls", "tool_call_id") if key in message
    }
    if isinstance(ids, list) and len(ids) == 1 and message.get("role") == "tool":
        chat["tool_call_id"] = ids[0]
    return chat


_SHAPES = (
    # A conversation of ToolBench looks like one of ShareGPT.
    Shape(datasets.is_toolbench, datasets.toolbench),
    Shape(datasets.is_xlam, datasets.xlam, conversation=("query", "answers", "tools")),
    Shape(_is_sharegpt, _sharegpt),
    Shape(_is_autogen, _autogen),
    Shape(_is_langgraph, _langgraph),
    Shape(_is_letta, _letta),
    Shape(_is_swe_agent, _swe_agent, _swe_agent_searched),
    Shape(openhands.recognises, openhands.chat_log, openhands.searched),
)
