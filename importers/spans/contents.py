"""What went into a span and what came out, in whichever of the many places it was recorded.

Structured places come before generic ones: messages are better understood than a serialised request. A place
counts if there is something in it; the message recogniser reads what is given back.

| written by | input, output |
|---|---|
| Langfuse SDK | `langfuse.observation.input/output` |
| Vercel AI SDK | `ai.prompt.messages`, `ai.prompt`, `ai.toolCall.args`; `ai.response.text`, `.toolCalls` |
| GenAI conventions since 1.37 | `gen_ai.input.messages`, `gen_ai.output.messages`, on the span or an event |
| GenAI 1.28 to 1.36 | an event (or log record) for each message, `gen_ai.choice` |
| GenAI before | `gen_ai.prompt`, `gen_ai.completion`, on the span or an event |
| OpenLLMetry | `gen_ai.prompt.0.role` …; `traceloop.entity.input/output` |
| OpenInference | `llm.input_messages.0.message.role` …; `input.value`, `output.value` |
| Pydantic AI, ADK, MLflow, Braintrust | names of their own |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from replaydiff.importers.spans.raw import Event, RawSpan, says
from replaydiff.replay.messages import decode
from replaydiff.replay.model import Json, JsonObject

Reader = Callable[[RawSpan], Json]

DETAILS_EVENT = "gen_ai.client.inference.operation.details"
_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE = "gen_ai.choice"


def input_of(span: RawSpan) -> Json:
    """What a model call or an agent was given; None where nothing was recorded."""
    return _first(span, _ASKED)


def output_of(span: RawSpan) -> Json:
    """What a model call or an agent answered."""
    return _first(span, _SAID)


def args(span: RawSpan) -> Json:
    """The arguments of a tool's run."""
    return _out_of_wrapper(_first(span, _ARGS), "inputs", "input_str")


def result(span: RawSpan) -> Json:
    """The result of a tool's run."""
    return _out_of_wrapper(_first(span, _RESULT), "output", "kwargs")


def _first(span: RawSpan, readers: tuple[Reader, ...]) -> Json:
    return next((value for read in readers if says(value := read(span))), None)


def _attribute(*names: str) -> Reader:
    return lambda span: span.first(*names)


def _with_system(messages: Json, system: Json) -> Json:
    """Messages with the instructions that the conventions keep beside them."""
    messages = decode(messages)
    return {"system": decode(system), "messages": messages} if messages and says(system) else messages


def _genai_input(span: RawSpan) -> Json:
    holder = _holder(span, "gen_ai.input.messages")
    return _with_system(holder.get("gen_ai.input.messages"), holder.get("gen_ai.system_instructions"))


def _genai_output(span: RawSpan) -> Json:
    messages = decode(_holder(span, "gen_ai.output.messages").get("gen_ai.output.messages"))
    if isinstance(messages, list) and len(messages) > 1:
        # One message for each choice: alternatives, not turns.
        choices = all(isinstance(one, dict) and one.get("finish_reason") for one in messages)
        return messages[:1] if choices else messages
    return messages


def _holder(span: RawSpan, name: str) -> Mapping[str, Any]:
    """The attributes that have `name`: the span's, else those of its details event."""
    if says(span.attributes.get(name)):
        return span.attributes
    details = (event.attributes for event in span.events if event.name == DETAILS_EVENT)
    return next((found for found in details if says(found.get(name))), {})


def _events(span: RawSpan) -> list[Event]:
    """Events of the span; older Pydantic AI keeps them in an attribute."""
    if any(event.name in _ROLES or event.name == _CHOICE for event in span.events):
        return list(span.events)
    listed = decode(span.first("events", "all_messages_events"))
    return [
        Event(name=str(one["event.name"]), attributes=one)
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, dict) and "event.name" in one
    ]


def _message_events(span: RawSpan) -> Json:
    found: list[Json] = []
    for event in _events(span):
        role = _ROLES.get(event.name)
        if role is None:
            continue
        body = dict(event.attributes)
        message: JsonObject = {
            **body,
            "role": body.get("role") or role,
            "content": _parts(body.get("content")),
        }
        if role == "tool":
            message["tool_call_id"] = body.get("id", body.get("tool_call_id"))
        found.append(message)
    return found or None


def _choice_events(span: RawSpan) -> Json:
    for event in _events(span):
        if event.name == _CHOICE and event.attributes.get("index") in (None, 0, "0"):
            message = decode(event.attributes.get("message", event.attributes))
            if isinstance(message, str):
                return {"role": "assistant", "content": message}
            if isinstance(message, dict):
                return {**message, "role": "assistant", "content": _parts(message.get("content"))}
    return None


def _content_event(name: str, attribute: str) -> Reader:
    def read(span: RawSpan) -> Json:
        found = (event.attributes.get(attribute) for event in span.events if event.name == name)
        return next((value for value in found if says(value)), None)

    return read


def _flattened(name: str) -> Reader:
    """Messages of OpenLLMetry: `gen_ai.prompt.0.tool_calls.1.name`."""

    def read(span: RawSpan) -> Json:
        listed = span.nested(name)
        if not isinstance(listed, list):
            return listed
        return [
            {**message, "content": _parts(message.get("content"))}
            for message in listed
            if isinstance(message, dict)
        ]

    return read


def _parts(content: Json) -> Json:
    """Content that may be the JSON text of its parts."""
    found = decode(content)
    if isinstance(found, list) and found and all(isinstance(part, dict) and "type" in part for part in found):
        return found
    return content


def _openinference(name: str) -> Reader:
    def read(span: RawSpan) -> Json:
        listed = span.nested(name)
        found = [_openinference_message(one) for one in (listed if isinstance(listed, list) else ())]
        return [message for message in found if message] or None

    return read


def _openinference_message(entry: Json) -> JsonObject | None:
    own = entry.get("message") if isinstance(entry, dict) else None
    if not isinstance(own, dict):
        return None
    message: JsonObject = {key: own[key] for key in ("role", "name", "tool_call_id") if key in own}
    message.setdefault("role", "assistant")
    contents = own.get("contents")
    parts: list[Json] = [
        part["message_content"]
        for part in (contents if isinstance(contents, list) else ())
        if isinstance(part, dict) and isinstance(part.get("message_content"), dict)
    ]
    message["content"] = own.get("content") or parts
    calls = own.get("tool_calls")
    message["tool_calls"] = [
        call["tool_call"]
        for call in (calls if isinstance(calls, list) else ())
        if isinstance(call, dict) and isinstance(call.get("tool_call"), dict)
    ]
    if isinstance(own.get("function_call_name"), str):
        message["function_call"] = {
            "name": own["function_call_name"],
            "arguments": own.get("function_call_arguments_json"),
        }
    return message


def _vercel_prompt(span: RawSpan) -> Json:
    prompt = decode(span.first("ai.prompt"))
    if isinstance(prompt, dict) and isinstance(prompt.get("prompt"), list):
        return {**prompt, "messages": prompt["prompt"]}
    return prompt


def _vercel_answer(span: RawSpan) -> Json:
    text = span.first("ai.response.text", "ai.result.text")
    calls = decode(span.first("ai.response.toolCalls", "ai.result.toolCalls"))
    if text is None and not calls:
        made: Json = span.first("ai.response.object", "ai.result.object")
        return made
    return {"role": "assistant", "content": text or "", "tool_calls": calls}


def _schema_aside(span: RawSpan) -> Json:
    """`tool.parameters`: arguments to some instrumentors, the tool's schema to others."""
    found: Json = decode(span.nested("tool.parameters"))
    return None if isinstance(found, dict) and ("properties" in found or "$schema" in found) else found


def _out_of_wrapper(value: Json, key: str, other: str) -> Json:
    """What LangChain's instrumentor of OpenLLMetry wraps: `{"input_str": …, "inputs": {…}}`."""
    decoded = decode(value)
    if isinstance(decoded, dict) and {key, other} <= decoded.keys() and says(decoded[key]):
        return decoded[key]
    return value


_ASKED: tuple[Reader, ...] = (
    _attribute("langfuse.observation.input", "ai.prompt.messages"),
    _vercel_prompt,
    _genai_input,
    _message_events,
    _openinference("llm.input_messages"),
    _content_event("gen_ai.content.prompt", "gen_ai.prompt"),
    _attribute("gen_ai.prompt"),
    _flattened("gen_ai.prompt"),
    _attribute("gcp.vertex.agent.llm_request", "pydantic_ai.all_messages", "all_messages"),
    _attribute("langfuse.trace.input", "mlflow.spanInputs", "braintrust.input_json", "braintrust.input"),
    _attribute("traceloop.entity.input", "input.value", "input"),
)
_SAID: tuple[Reader, ...] = (
    _attribute("langfuse.observation.output"),
    _vercel_answer,
    _genai_output,
    _choice_events,
    _openinference("llm.output_messages"),
    _content_event("gen_ai.content.completion", "gen_ai.completion"),
    _attribute("gen_ai.completion"),
    _flattened("gen_ai.completion"),
    _attribute("gcp.vertex.agent.llm_response", "final_result", "pydantic_ai.all_messages", "all_messages"),
    _attribute("langfuse.trace.output", "mlflow.spanOutputs", "braintrust.output_json", "braintrust.output"),
    _attribute("traceloop.entity.output", "output.value", "output"),
)
_ARGS: tuple[Reader, ...] = (
    _attribute("gen_ai.tool.call.arguments", "ai.toolCall.args", "tool_arguments"),
    _attribute("gcp.vertex.agent.tool_call_args", "langfuse.observation.input", "mlflow.spanInputs"),
    _attribute("braintrust.input_json", "braintrust.input", "traceloop.entity.input", "input.value", "input"),
    _schema_aside,
)
_RESULT: tuple[Reader, ...] = (
    _attribute("gen_ai.tool.call.result", "ai.toolCall.result", "tool_response"),
    _attribute("gcp.vertex.agent.tool_response", "langfuse.observation.output", "mlflow.spanOutputs"),
    _attribute("braintrust.output_json", "braintrust.output", "traceloop.entity.output"),
    _attribute("output.value", "output"),
)
