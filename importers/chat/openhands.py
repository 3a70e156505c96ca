"""Event lists of OpenHands, rewritten as chat logs: those of its server (0.x) and those of its SDK (1.x).

Events of 0.x are actions and observations. With native tool calls both have `tool_call_metadata`, whose
response of the model has the arguments; without them the action is the call, and `cause` joins the
observation with it. Events of 1.x are named by `kind`, and have the id of their call.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaydiff.importers import fields
from replaydiff.importers.base import RecordError
from replaydiff.importers.chat.rewriting import (
    answer,
    first_of,
    model_name,
    objects,
    requested,
    times,
    within,
)
from replaydiff.replay.model import Json, JsonObject, objects_in

_LISTS = ("messages", "trajectory", "history", "events")
"""Where a record has its events: a bare list, an export, the output of an evaluation."""
_NO_CALLS = (
    *("message", "system", "recall", "change_agent_state", "null", "condensation", "condensation_request"),
    *("start", "loop_recovery", "pause", "resume", "stop"),
)
"""Actions of 0.x that no tool carries out."""
_BESIDE = ("thought", "security_risk", "confirmation_state", "is_confirmed", "hidden", "blocking")
"""Arguments of actions that no model gave."""
_METADATA = "tool_call_metadata"
_FINISH = "finish"
"""The tool whose argument is the agent's answer."""
_EVENT = "event "
"""Beginning of the ids of calls that have none of their own."""
_ROLES = {"user": "user", "system": "system"}
_OBSERVATIONS = {"ObservationEvent": "observation", "AgentErrorEvent": "error"}
_SILENT = (
    *("ConversationStateUpdateEvent", "CondensationRequest", "Condensation", "CondensationSummaryEvent"),
    *("PauseEvent", "LLMCompletionLogEvent", "TokenEvent", "ConversationErrorEvent"),
)


def recognises(record: JsonObject) -> bool:
    """Return whether a record is a list of events of OpenHands."""
    return any(_is_event(first_of(record.get(key))) for key in _LISTS)


def _is_event(event: JsonObject) -> bool:
    if "source" not in event or "timestamp" not in event or "role" in event:
        return False
    kind = event.get("kind")
    return isinstance(kind, str) or isinstance(event.get("action", event.get("observation")), str)


def chat_log(record: JsonObject) -> JsonObject:
    """Rewrite a list of events as a chat log.

    Raises:
        RecordError: an event is of a kind that is not known, or a call has no arguments.
    """
    key = next(key for key in _LISTS if _is_event(first_of(record.get(key))))
    events = objects(record[key], key)
    metrics = fields.mapping(record, "metrics")
    total = metrics.get("accumulated_token_usage")
    return {
        **times(events, "timestamp"),
        "id": record.get("instance_id", record.get("conversation_id")),
        **_model(record, events),
        "messages": [
            message
            for number, event in enumerate(events)
            for message in (_of_sdk if "kind" in event else _of_server)(event, f"{key}[{number}]")
        ],
        "error": record.get("error"),
        "cost_usd": metrics.get("accumulated_cost"),
        "usage": total if isinstance(total, dict) else None,
    }


def _model(record: JsonObject, events: list[JsonObject]) -> JsonObject:
    """Return the model of the last response in the events, else that of the evaluation's settings."""
    responded = [
        within(event, "model_name")
        if event.get("kind") == "LLMCompletionLogEvent"
        else within(event, _METADATA, "model_response", "model")
        for event in reversed(events)
    ]
    return model_name(*responded, within(record, "metadata", "llm_config", "model"))


def searched(record: JsonObject) -> JsonObject:
    """Return the events with the response of the model alone in place of `tool_call_metadata`."""
    key = next(key for key in _LISTS if _is_event(first_of(record.get(key))))
    events: list[Json] = []
    for event in objects(record[key], key):
        called = fields.mapping(event, _METADATA)
        events.append({**event, _METADATA: called.get("model_response")} if called else event)
    return {key: events}


def _of_server(event: JsonObject, where: str) -> Iterator[JsonObject]:
    action, arguments = event.get("action"), fields.mapping(event, "args")
    called = fields.mapping(event, _METADATA)
    if "observation" in event:
        yield from _observation(event, called)
    elif not isinstance(action, str):
        raise RecordError(f"{where} has no action and no observation")
    elif action == "message" or (action == "system" and not called):
        speaker = "system" if action == "system" else str(event.get("source"))
        yield {
            "role": _ROLES.get(speaker, "assistant"),
            "content": arguments.get("content", event.get("message")),
        }
    elif called or (action not in _NO_CALLS and event.get("source") == "agent"):
        yield answer(arguments.get("thought") or None, [_call(event, called, where)])
        if action == _FINISH:
            yield answer(arguments.get("final_thought"))


def _call(event: JsonObject, called: JsonObject, where: str) -> JsonObject:
    """Return the call of an action: as the model requested it, else the action itself."""
    if called:
        return _native(called, where)
    if not isinstance(recorded_args := event.get("args"), dict):
        raise RecordError(f"{where}.args must be an object, not {fields.kind(recorded_args)}")
    arguments: JsonObject = {key: value for key, value in recorded_args.items() if key not in _BESIDE}
    return requested({"name": event["action"], "arguments": arguments}, f"{_EVENT}{event.get('id')}", where)


def _observation(event: JsonObject, called: JsonObject) -> Iterator[JsonObject]:
    """Yield the result of a call; events of the environment answer none."""
    cause = event.get("cause")
    call_id = called.get("tool_call_id") or (f"{_EVENT}{cause}" if cause is not None else None)
    if call_id is None or event["observation"] in ("agent_state_changed", "recall", "null", "condense"):
        return
    yield {
        "role": "tool",
        "tool_call_id": call_id,
        "content": event.get("content"),
        "is_error": event["observation"] == "error",
    }


def _native(called: JsonObject, where: str) -> JsonObject:
    """Return the call of an action, as the model requested it."""
    call_id = called.get("tool_call_id")
    choice = first_of(fields.mapping(called, "model_response").get("choices"))
    for call in objects_in(fields.mapping(choice, "message").get("tool_calls")):
        if call.get("id") == call_id:
            return requested(fields.mapping(call, "function"), call_id, where)
    raise RecordError(f"{where}: the model's response has no tool call {str(call_id)[:40]!r}")


def _of_sdk(event: JsonObject, where: str) -> Iterator[JsonObject]:
    kind = str(event.get("kind"))
    if kind == "SystemPromptEvent":
        yield {"role": "system", "content": fields.mapping(event, "system_prompt").get("text")}
    elif kind == "MessageEvent":
        message = fields.mapping(event, "llm_message")
        yield {key: message[key] for key in ("role", "content") if key in message}
    elif kind == "ActionEvent":
        call = fields.mapping(event, "tool_call")
        yield answer(event.get("thought"), [requested(call, event.get("tool_call_id"), where)])
    elif kind in _OBSERVATIONS:
        observation = event.get(_OBSERVATIONS[kind])
        inner = observation if isinstance(observation, dict) else {"content": observation, "is_error": True}
        yield _result(event, inner.get("content"), failed=inner.get("is_error") is True)
        if event.get("tool_name") == _FINISH:
            yield answer(inner.get("content"))
    elif kind == "UserRejectObservation":
        yield _result(event, event.get("rejection_reason"), failed=True)
    elif kind not in _SILENT:
        raise RecordError(f"{where}.kind is not known: {kind[:40]!r}")


def _result(event: JsonObject, content: Json, *, failed: bool) -> JsonObject:
    return {
        "role": "tool",
        "tool_call_id": event.get("tool_call_id"),
        "name": event.get("tool_name"),
        "content": content,
        "is_error": failed,
    }
