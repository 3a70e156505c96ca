"""What went into a span and what came out, in whichever of the many places it was recorded.

Structured places come before generic ones: messages are better understood than a serialised request. A place
counts if there is something in it; the message recogniser reads what is returned.

| written by | input, output |
|---|---|
| Langfuse SDK | `langfuse.observation.input/output` |
| Vercel AI SDK | `ai.prompt.messages`, `ai.prompt`, `ai.toolCall.args`; `ai.response.text`, `.toolCalls` |
| GenAI conventions since 1.37 | `gen_ai.input.messages`, `gen_ai.output.messages`, on the span or an event |
| GenAI 1.28 to 1.36 | an event (or log record) for each message, `gen_ai.choice` |
| GenAI before | `gen_ai.prompt`, `gen_ai.completion`, on the span or an event |
| OpenLLMetry | `gen_ai.prompt.0.role` …; `traceloop.entity.input/output` |
| OpenInference | `llm.input_messages.0.message.role` …; `input.value`, `output.value` |
| LiteLLM | GenAI's; `llm.PROVIDER.messages` and `.choices` as Python reprs on a span of its own |
| Pydantic AI, ADK, MLflow, Braintrust, Mastra | names of their own |

`RawSpan` is a span as it was recorded, whatever file or server it came from: flat attributes, times, parent.
Attributes are looked up by dotted names. What an instrumentor nests, some exporters flatten
(`llm.input_messages.0.message.role`) and others keep (`{"llm.input_messages": [{…}]}`): `nested` gives the
same value for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from replaydiff.importers.chat.streams import of_pieces
from replaydiff.replay.messages import count_requests, decode, is_media, parse, read_messages
from replaydiff.replay.model import Json, JsonObject, as_list, as_object, objects_in
from replaydiff.replay.result_form import scalar_of

REDACTED = "__REDACTED__"
"""What OpenInference writes in place of a masked value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened within a span; or a log record that belongs to it."""

    name: str
    attributes: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSpan:
    """One span."""

    id: str
    parent: str | None
    name: str
    started_at: datetime
    ended_at: datetime | None
    scope: str = ""
    """Name of the instrumentation that wrote it."""
    failed: bool = False
    message: str | None = None
    """The status message: of an error, why."""
    attributes: JsonObject = field(default_factory=dict)
    resource: JsonObject = field(default_factory=dict)
    """Attributes of the process that ran it."""
    events: tuple[Event, ...] = ()

    def first(self, *names: str) -> Any:
        """Return the first of these attributes that is set."""
        attributes = self.attributes
        return next((value for name in names if name in attributes and says(value := attributes[name])), None)

    def nested(self, name: str) -> Json:
        """Return the attribute of this name, put together where it was flattened; None where there is
        none.
        """
        value = self.attributes.get(name)
        return value if says(value) else nested(self.attributes, name)


def says(value: Json) -> bool:
    """Return whether a value was recorded, and not masked."""
    return value is not None and value != "" and value != REDACTED


def nested(attributes: Mapping[str, Any], name: str) -> Json:
    """Return what stands under `name.…`, put together; None where nothing does.

    Numbers in names are places in a list: in numeric order, and with the gaps that filtered messages leave.
    """
    prefix = name + "."
    names = [key for key in attributes if key.startswith(prefix)]
    if not names:
        return None
    tree: dict[str, Any] = {}
    # Sorted, since a server gives the same attributes in another order each time.
    for key in sorted(names):
        value = attributes[key]
        # Empty arguments of a call are those of a tool that takes none.
        if not says(value) and not (value == "" and key.endswith("arguments")):
            continue
        *path, last = key[len(prefix) :].split(".")
        branch = tree
        for part in path:
            inner = branch.setdefault(part, {})
            if not isinstance(inner, dict):
                inner = branch[part] = {}
            branch = inner
        branch[last] = value
    return _lists(tree) if tree else None


def _lists(tree: Json) -> Json:
    if not isinstance(tree, dict):
        return tree
    if tree and all(key.isdecimal() and key.isascii() and len(key) < 10 for key in tree):
        return [_lists(tree[key]) for key in sorted(tree, key=int)]
    return {key: _lists(value) for key, value in tree.items()}


def flat(value: Json, name: str = "") -> JsonObject:
    """Return dotted names for what is nested; lists of plain values stay, nulls go.

    Data frames hold `[{"message.role": …}]` in one column, with each key of each row as null.
    """
    flattened: JsonObject = {}
    _flatten(value, name, flattened)
    return flattened


def _flatten(value: Json, name: str, flattened: JsonObject) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten(inner, f"{name}.{key}" if name else str(key), flattened)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for index, item in enumerate(value):
            _flatten(item, f"{name}.{index}", flattened)
    elif value is not None:
        flattened[name] = value


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
    """Return what a model call or an agent was given; None where nothing was recorded."""
    return _first(span, _INPUT_READERS)


def output_of(span: RawSpan) -> Json:
    """Return what a model call or an agent answered."""
    return _first(span, _OUTPUT_READERS)


def args(span: RawSpan) -> Json:
    """Return the arguments of a tool's run."""
    value = _by_names(span, _out_of_wrapper(_first(span, _ARGS), "inputs", "input_str"))
    if _is_of_llama_index(span):
        call = decode(value)
        return call["kwargs"] if isinstance(call, dict) and call.keys() == {"kwargs"} else value
    return value


def result(span: RawSpan) -> Json:
    """Return the result of a tool's run."""
    if (run := llama_index_run(span)) is not None:
        return run.get("raw_output")
    value = _out_of_wrapper(_first(span, _RESULT), "output", "kwargs")
    if "gcp.vertex.agent.event_id" in span.attributes:
        return adk_result(decode(value))
    return _text_of_parts(value) if span.scope.endswith(".claude_agent_sdk") else value


def adk_result(response: Json) -> Json:
    """Return what a tool of Google's ADK returned: ADK puts whatever is no object into one, as `result`."""
    if isinstance(response, dict) and response.keys() == {"result"}:
        inner = response["result"]
        # Of a tool that returned nothing, the object shows that it ran.
        return response if inner is None or isinstance(inner, dict) else inner
    return response


def _is_of_llama_index(span: RawSpan) -> bool:
    return span.scope.endswith((".llama_index", ".llamaindex"))


def llama_index_run(span: RawSpan) -> JsonObject | None:
    """Return LlamaIndex's `ToolOutput` in the span of a tool's run; OpenLLMetry has the id of the call
    beside it.
    """
    output = (
        decode(span.first("traceloop.entity.output", "output.value")) if _is_of_llama_index(span) else None
    )
    if not isinstance(output, dict):
        return None
    run = output.get("tool_output", output)
    return (
        {**run, "tool_id": output.get("tool_id")} if isinstance(run, dict) and "raw_output" in run else None
    )


def _text_of_parts(value: Json) -> Json:
    """Return the text of a result that Claude Code keeps as content parts, or in an object with them."""
    decoded = decode(value)
    parts = decoded.get("content") if isinstance(decoded, dict) else decoded
    if not isinstance(parts, list) or not parts:
        return value
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return "\n".join(map(str, texts)) if len(texts) == len(parts) else value


def _first(span: RawSpan, readers: tuple[Reader, ...]) -> Json:
    return next((value for read in readers if says(value := read(span))), None)


def _attribute(*names: str) -> Reader:
    return lambda span: span.first(*names)


def _with_system(messages: Json, system: Json) -> Json:
    """Return messages with the instructions that the conventions keep beside them."""
    messages = decode(messages)
    return {"system": decode(system), "messages": messages} if messages and says(system) else messages


def _genai_input(span: RawSpan) -> Json:
    holder = _holder(span, "gen_ai.input.messages")
    return _with_system(holder.get("gen_ai.input.messages"), holder.get("gen_ai.system_instructions"))


def _genai_output(span: RawSpan) -> Json:
    messages = of_pieces(decode(_holder(span, "gen_ai.output.messages").get("gen_ai.output.messages")))
    if isinstance(messages, dict) and read_messages(messages) is None:
        return None
    if isinstance(messages, list) and not any(map(_has_content, messages)):
        # LiteLLM leaves the calls of a stream out of its messages.
        return None
    if isinstance(messages, list) and len(messages) > 1:
        # One message for each choice: alternatives, not turns. OpenLLMetry writes the items of one answer of
        # the Responses API so, too, which no request for several choices asked for.
        choices = all(isinstance(message, dict) and message.get("finish_reason") for message in messages)
        several = span.attributes.get("gen_ai.request.choice.count") not in (None, 1, "1")
        items = not several and len(messages) > 1 and count_requests(messages) > 0
        return messages[:1] if choices and not items else messages
    return messages


_CONTENT_KEYS = ("parts", "content", "contents", "text", "tool_calls", "function_call")


def _has_content(message: Json) -> bool:
    message = decode(message)
    if isinstance(message, list):
        return any(map(_has_content, message))
    if not isinstance(message, dict):
        return bool(message)
    return any(decode(message.get(key)) for key in _CONTENT_KEYS)


RAW_REQUEST = "raw_gen_ai_request"
"""LiteLLM's span of what it sent and got, with attributes `llm.PROVIDER.messages`, `.choices`, `.usage`."""


def raw_request(span: RawSpan, *fields: str) -> Json:
    """Return a field of LiteLLM's raw span, out of its Python repr; None where there is none that can be
    read.
    """
    if span.name != RAW_REQUEST:
        return None
    for name, value in span.attributes.items():
        first, _, key = name.partition(".")
        request = decode(value) if first == "llm" and key.partition(".")[2] in fields else None
        if isinstance(request, list | dict) and request:
            return request
    return None


def _raw_choices(span: RawSpan) -> Json:
    choices = raw_request(span, "choices")
    return {"choices": choices} if choices else raw_request(span, "output", "content")


def _holder(span: RawSpan, name: str) -> Mapping[str, Any]:
    """Return the attributes that have `name`: the span's, else those of its details event."""
    if says(span.attributes.get(name)):
        return span.attributes
    details = (event.attributes for event in span.events if event.name == DETAILS_EVENT)
    return next((detail for detail in details if says(detail.get(name))), {})


def _events(span: RawSpan) -> list[Event]:
    """Return events of the span; older Pydantic AI keeps them in an attribute."""
    if any(event.name in _ROLES or event.name == _CHOICE for event in span.events):
        return list(span.events)
    return [
        Event(name=str(recorded_event["event.name"]), attributes=recorded_event)
        for recorded_event in objects_in(decode(span.first("events", "all_messages_events")))
        if "event.name" in recorded_event
    ]


def _message_events(span: RawSpan) -> Json:
    messages: list[Json] = []
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
        messages.append(message)
    return messages or None


def _choice_events(span: RawSpan) -> Json:
    for event in _events(span):
        if event.name == _CHOICE and event.attributes.get("index") in (None, 0, "0"):
            message = decode(event.attributes.get("message", event.attributes))
            if isinstance(message, str | list):
                return {"role": "assistant", "content": message}
            if isinstance(message, dict):
                return {**message, "role": "assistant", "content": _parts(message.get("content"))}
    return None


def _content_event(name: str, attribute: str) -> Reader:
    def read(span: RawSpan) -> Json:
        values = (event.attributes.get(attribute) for event in span.events if event.name == name)
        return next((value for value in values if says(value)), None)

    return read


def _flattened(name: str) -> Reader:
    """Return messages of OpenLLMetry: `gen_ai.prompt.0.tool_calls.1.name`."""

    def read(span: RawSpan) -> Json:
        listed = span.nested(name)
        if not isinstance(listed, list):
            return listed
        return [{**message, "content": _parts(message.get("content"))} for message in objects_in(listed)]

    return read


def _parts(content: Json) -> Json:
    """Return content that may be the JSON text of its parts."""
    parts = decode(content)
    inner = objects_in(parts)
    is_whole = isinstance(parts, list) and 0 < len(parts) == len(inner)
    return parts if is_whole and all("type" in part or _CONVERSE & part.keys() for part in inner) else content


_CONVERSE = {"text", "toolUse", "toolResult", "json", "image", "document", "reasoningContent", "cachePoint"}
"""Keys of parts as Bedrock's Converse API and Strands write them, which have no type."""


def _tool_event(name: str, attribute: str) -> Reader:
    """Return the arguments or the result in an event of a tool run."""

    def read(span: RawSpan) -> Json:
        for event in span.events:
            if event.name == name and says(event.attributes.get(attribute)):
                return _out_of_parts(event.attributes[attribute])
        return None

    return read


def _out_of_parts(value: Json) -> Json:
    """Return the text or data in the parts of a result."""
    parts = decode(value)
    if not isinstance(parts, list) or any(
        not isinstance(part, dict) or not _CONVERSE & part.keys() or is_media(part) for part in parts
    ):
        return value
    values = [part.get("json", part.get("text")) for part in parts if isinstance(part, dict)]
    return values[0] if len(values) == 1 else values


def _openinference(name: str) -> Reader:
    def read(span: RawSpan) -> Json:
        messages = [_openinference_message(entry) for entry in (as_list(span.nested(name)))]
        return [message for message in messages if message] or None

    return read


def _openinference_message(entry: Json) -> JsonObject | None:
    inner_message = as_object(entry).get("message")
    if not isinstance(inner_message, dict):
        return None
    message: JsonObject = {
        key: inner_message[key] for key in ("role", "name", "tool_call_id") if key in inner_message
    }
    message.setdefault("role", "assistant")
    parts: list[Json] = [
        part["message_content"]
        for part in objects_in(inner_message.get("contents"))
        if isinstance(part.get("message_content"), dict)
    ]
    message["content"] = inner_message.get("content") or parts
    message["tool_calls"] = [
        _openinference_call(call["tool_call"])
        for call in objects_in(inner_message.get("tool_calls"))
        if isinstance(call.get("tool_call"), dict)
    ]
    if isinstance(inner_message.get("function_call_name"), str):
        message["function_call"] = {
            "name": inner_message["function_call_name"],
            "arguments": inner_message.get("function_call_arguments_json"),
        }
    return message


def _openinference_call(call: Json) -> Json:
    """Return a requested call; of one without arguments none are recorded."""
    function = as_object(as_object(call).get("function"))
    if function.keys() != {"name"}:
        return call
    return {**as_object(call), "function": {**function, "arguments": "{}"}}


def _vercel_prompt(span: RawSpan) -> Json:
    prompt = decode(span.first("ai.prompt"))
    if isinstance(prompt, dict) and isinstance(prompt.get("prompt"), list):
        return {**prompt, "messages": prompt["prompt"]}
    return prompt


def _vercel_answer(span: RawSpan) -> Json:
    text = span.first("ai.response.text", "ai.result.text")
    calls = decode(span.first("ai.response.toolCalls", "ai.result.toolCalls"))
    if text is None and not calls:
        generated: Json = span.first("ai.response.object", "ai.result.object")
        return generated
    return {"role": "assistant", "content": text or "", "tool_calls": calls}


def _encoded(*names: str) -> Reader:
    """Read results of a convention that writes JSON for every result: what is text in the JSON was text."""

    def read(span: RawSpan) -> Json:
        text: Json = span.first(*names)
        try:
            return parse(text) if isinstance(text, str) else text
        except ValueError:
            return text

    return read


def _encoded_unless_text(*names: str) -> Reader:
    """Read results of a convention that writes JSON for every result but texts.

    Booleans, numbers and null are read as such. Whether an object was returned as an object or as text is not
    known, and it stays text.
    """
    return lambda span: scalar_of(span.first(*names))


_VERCEL_RESULT = (_encoded("ai.toolCall.result"), _encoded("gen_ai.tool.call.result"))


def _schema_aside(span: RawSpan) -> Json:
    """Return `tool.parameters`: arguments to some instrumentors, the tool's schema to others."""
    parameters: Json = decode(span.nested("tool.parameters"))
    return (
        None
        if isinstance(parameters, dict) and ("properties" in parameters or "$schema" in parameters)
        else parameters
    )


def _out_of_wrapper(value: Json, key: str, sibling: str) -> Json:
    """Return what LangChain's instrumentor of OpenLLMetry wraps: `{"input_str": …, "inputs": {…}}`."""
    decoded = decode(value)
    if isinstance(decoded, dict) and {key, sibling} <= decoded.keys() and says(decoded[key]):
        return decoded[key]
    return value


def _by_names(span: RawSpan, value: Json) -> Json:
    """Give positional arguments of a Python call the names that smolagents writes as `tool.parameters`."""
    call = decode(value)
    positional = call.get("args") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(positional, list) or not positional:
        return value
    names, named = decode(span.nested("tool.parameters")), call.get("kwargs")
    if not isinstance(names, dict) or not isinstance(named, dict) or len(positional) > len(names):
        return value
    return {**call, "args": [], "kwargs": {**dict(zip(names, positional, strict=False)), **named}}


_STEP_OUTPUT = "mastra.model_step.output"


def with_steps(spans: Sequence[RawSpan]) -> list[RawSpan]:
    """Return the spans, those of Mastra's model calls with the answer that it writes on the step around them.

    A call's own span has the text of the answer alone, without the tool calls that it requests.
    """
    steps = {span.id: span.attributes[_STEP_OUTPUT] for span in spans if _STEP_OUTPUT in span.attributes}
    return [
        replace(span, attributes={**span.attributes, _STEP_OUTPUT: steps[span.parent]})
        if span.parent in steps and span.attributes.get("mastra.span.type") == "model_inference"
        else span
        for span in spans
    ]


def _mastra_answer(span: RawSpan) -> Json:
    answer = decode(span.first(_STEP_OUTPUT))
    if not isinstance(answer, dict):
        return None
    return {"role": "assistant", "content": answer.get("text") or "", "tool_calls": answer.get("toolCalls")}


_INPUT_READERS: tuple[Reader, ...] = (
    _attribute("langfuse.observation.input", "ai.prompt.messages"),
    _vercel_prompt,
    _genai_input,
    _message_events,
    _openinference("llm.input_messages"),
    _content_event("gen_ai.content.prompt", "gen_ai.prompt"),
    _attribute("gen_ai.prompt", "gen_ai.input"),
    _flattened("gen_ai.prompt"),
    lambda span: raw_request(span, "messages", "input"),
    _attribute("gcp.vertex.agent.llm_request", "pydantic_ai.all_messages", "all_messages"),
    _attribute("langfuse.trace.input", "mlflow.spanInputs", "braintrust.input_json", "braintrust.input"),
    _attribute("mastra.agent_run.input", "mastra.workflow_run.input"),
    _attribute("traceloop.entity.input", "input.value", "input"),
)
_OUTPUT_READERS: tuple[Reader, ...] = (
    _mastra_answer,
    _attribute("langfuse.observation.output"),
    _vercel_answer,
    _genai_output,
    _choice_events,
    _openinference("llm.output_messages"),
    _content_event("gen_ai.content.completion", "gen_ai.completion"),
    _attribute("gen_ai.completion", "gen_ai.output"),
    _flattened("gen_ai.completion"),
    _raw_choices,
    _attribute("gcp.vertex.agent.llm_response", "final_result", "pydantic_ai.all_messages", "all_messages"),
    _attribute("langfuse.trace.output", "mlflow.spanOutputs", "braintrust.output_json", "braintrust.output"),
    _attribute("mastra.agent_run.output", "mastra.workflow_run.output"),
    _attribute("traceloop.entity.output", "output.value", "output"),
)
_ARGS: tuple[Reader, ...] = (
    _attribute("gen_ai.tool.call.arguments", "gen_ai.tool.args", "ai.toolCall.args", "tool_arguments"),
    _attribute("tool.arguments"),
    _tool_event("gen_ai.tool.message", "content"),
    _attribute("gcp.vertex.agent.tool_call_args", "langfuse.observation.input", "mlflow.spanInputs"),
    _attribute("braintrust.input_json", "braintrust.input", "traceloop.entity.input", "input.value", "input"),
    _schema_aside,
)
_RESULT: tuple[Reader, ...] = (
    lambda span: _VERCEL_RESULT[span.scope == "gen_ai"](span),
    _encoded_unless_text("gen_ai.tool.call.result", "tool_response"),
    _attribute("gen_ai.tool.output", "gen_ai.output"),
    _tool_event("gen_ai.choice", "message"),
    _attribute("gcp.vertex.agent.tool_response"),
    _encoded_unless_text("langfuse.observation.output"),
    _attribute("mlflow.spanOutputs"),
    _encoded("braintrust.output_json"),
    _attribute("braintrust.output"),
    _encoded("traceloop.entity.output"),
    _attribute("output.value", "output"),
)
