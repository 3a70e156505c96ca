"""What the writers share: scenarios, tools, clients' loops, and a file of spans.

A writer is a program of a foreign interpreter: `WRITER.py MODEL_URL FILE MODE`. It runs the scenarios through a
genuine library under a genuine instrumentation, and leaves the traces in FILE. What happens is known
beforehand: the prompt holds the model's plan, and a tool's result follows from its arguments.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SCENARIOS: dict[str, Any] = {
    "none": [],
    "one": [[["get_weather", {"city": "Oslo"}]]],
    "parallel": [
        [["get_weather", {"city": "Oslo"}], ["get_weather", {"city": "Lima"}], ["get_time", {"city": "Oslo"}]]
    ],
    "chain": [[["get_weather", {"city": "Rome"}]], [["get_time", {"city": "Rome"}]]],
    "repeat": [[["get_weather", {"city": "Oslo"}]], [["get_weather", {"city": "Oslo"}]]],
    "unicode": [[["get_weather", {"city": 'Ünï "çødé"\n注文 🚚'}]]],
    "toolerror": [[["get_weather", {"city": "Atlantis"}]], [["get_weather", {"city": "Oslo"}]]],
    "image": [[["get_weather", {"city": "Oslo"}]]],
}
INNER = 'inner: please help. PLAN [[["get_weather", {"city": "Oslo"}]]]'
"""What the agent asks its sub-agent in the scenario `nested`."""
SCENARIOS["nested"] = [[["ask_expert", {"input": INNER}]]]
SCENARIOS["boom"] = None
SPELLINGS: dict[str, dict[str, str]] = {
    "adk_agents": {'{"input"': '{"request"'},
    "claude_sdk": {
        '"get_': '"mcp__shop__get_',
        '"ask_expert", {"input"': '"Agent", {"description": "ask", "subagent_type": "expert", "run_in_background": false, "prompt"',
    },
    "mastra_agents": {'"ask_expert", {"input"': '"agent-ask_expert", {"prompt"'},
    "smolagents_agents": {'{"input"': '{"task"'},
}
"""Writer → how its framework spells tools and arguments of the plans."""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = f"data:image/png;base64,{PIXEL}"


def plan_of(name: str, writer: str) -> str:
    """The plan of a scenario as JSON, in the spelling of a writer's framework."""
    plan = json.dumps(SCENARIOS[name])
    for general, spelling in SPELLINGS.get(writer, {}).items():
        plan = plan.replace(general, spelling).replace(_within(general), _within(spelling))
    return plan


def _within(text: str) -> str:
    """The text as it stands within a JSON string."""
    return json.dumps(text)[1:-1]


def prompt(name: str, writer: str = Path(sys.argv[0]).stem) -> str:
    """The user's message of a scenario."""
    return f"{name}: please help. PLAN {plan_of(name, writer)}"


def content(kind: str, text: str) -> list[dict[str, Any]]:
    """A user's message with an image, as an API takes it."""
    return {
        "chat": [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": IMAGE}}],
        "responses": [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": IMAGE}],
        "messages": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
            {"type": "text", "text": text},
        ],
    }[kind]


def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: its name.
    """
    # Calls that begin together do not end in their order.
    time.sleep(0.03 if city == "Oslo" else 0.0)
    if city == "Atlantis":
        raise ValueError("no such city")
    return f"{len(city)} degrees in {city}"


def get_time(city: str) -> dict[str, Any]:
    """The time in a city.

    Args:
        city: its name.
    """
    return {"city": city, "hour": len(city), "zones": [1, {"dst": None}]}


TOOLS: dict[str, Callable[..., Any]] = {"get_weather": get_weather, "get_time": get_time}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OPENAI_TOOLS: list[Any] = [
    {"type": "function", "function": {"name": name, "description": tool.__doc__, "parameters": SCHEMA}}
    for name, tool in TOOLS.items()
]
RESPONSES_TOOLS: list[Any] = [{"type": "function", **tool["function"]} for tool in OPENAI_TOOLS]
ANTHROPIC_TOOLS: list[Any] = [
    {"name": name, "description": tool.__doc__, "input_schema": SCHEMA} for name, tool in TOOLS.items()
]


def called(tools: dict[str, Callable[..., Any]], name: str, args: dict[str, Any]) -> tuple[str, bool]:
    """What a tool says to the model, and whether it failed."""
    try:
        result = tools[name](**args)
    except Exception as error:  # noqa: BLE001 - the model is told of it
        return f"Error: {error}", True
    return result if isinstance(result, str) else json.dumps(result), False


def all_called(
    tools: dict[str, Callable[..., Any]], wanted: list[tuple[str, dict[str, Any]]]
) -> list[tuple[str, bool]]:
    """The calls of a round at once, each in a thread that knows the span around it."""
    from contextvars import copy_context

    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(copy_context().run, called, tools, *one) for one in wanted]
        return [one.result() for one in running]


def chat_loop(client: Any, text: str, tools: dict[str, Callable[..., Any]], *, stream: bool = False) -> str:
    """An agent on chat completions."""
    messages: list[Any] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": text}]
    while True:
        asked: dict[str, Any] = {"model": "gpt-5.2-mini", "messages": messages, "tools": OPENAI_TOOLS}
        if stream:
            message = _streamed(
                client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
            )
        else:
            answer = client.chat.completions.create(**asked)
            message = json.loads(answer.choices[0].message.model_dump_json(exclude_none=True))
        messages.append(
            {key: message.get(key) for key in ("role", "content", "tool_calls") if message.get(key)}
        )
        calls = message.get("tool_calls") or []
        if not calls:
            return str(message["content"])
        wanted = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]
        for call, (result, _) in zip(calls, all_called(tools, wanted), strict=True):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def _streamed(chunks: Any) -> dict[str, Any]:
    text = ""
    calls: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for part in choice.delta.tool_calls or ():
                call = calls.setdefault(
                    part.index, {"id": part.id, "type": "function", "function": {"name": "", "arguments": ""}}
                )
                call["function"]["name"] += part.function.name or ""
                call["function"]["arguments"] += part.function.arguments or ""
    return {"role": "assistant", "content": text, "tool_calls": list(calls.values())}


def responses_loop(
    client: Any, text: str, tools: dict[str, Callable[..., Any]], *, stream: bool = False
) -> str:
    """An agent on the Responses API."""
    items: list[Any] = [{"role": "user", "content": text}]
    while True:
        asked: dict[str, Any] = {
            "model": "gpt-5.2-mini",
            "instructions": "Be kind.",
            "input": items,
            "tools": RESPONSES_TOOLS,
        }
        if stream:
            answer = None
            for event in client.responses.create(**asked, stream=True):
                answer = event.response if event.type == "response.completed" else answer
        else:
            answer = client.responses.create(**asked)
        assert answer is not None
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return str(answer.output_text)
        items += [json.loads(item.model_dump_json(exclude_none=True)) for item in answer.output]
        wanted = [(call.name, json.loads(call.arguments)) for call in calls]
        for call, (result, _) in zip(calls, all_called(tools, wanted), strict=True):
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})


def messages_loop(
    client: Any, text: str, tools: dict[str, Callable[..., Any]], *, stream: bool = False
) -> str:
    """An agent on Anthropic's Messages."""
    messages: list[Any] = [{"role": "user", "content": text}]
    while True:
        asked: dict[str, Any] = {
            "model": "claude-sonnet-5",
            "max_tokens": 500,
            "system": "Be kind.",
            "messages": messages,
            "tools": ANTHROPIC_TOOLS,
        }
        if stream:
            with client.messages.stream(**asked) as running:
                answer = running.get_final_message()
        else:
            answer = client.messages.create(**asked)
        content = [json.loads(block.model_dump_json(exclude_none=True)) for block in answer.content]
        messages.append({"role": "assistant", "content": content})
        calls = [block for block in content if block["type"] == "tool_use"]
        if not calls:
            return str(content[0]["text"])
        told = all_called(tools, [(call["name"], call["input"]) for call in calls])
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": text, "is_error": failed}
            for call, (text, failed) in zip(calls, told, strict=True)
        ]
        messages.append({"role": "user", "content": results})


LOOPS: dict[str, Callable[..., str]] = {
    "chat": chat_loop,
    "responses": responses_loop,
    "messages": messages_loop,
}


def langchain_agent(model: Any, tools: Any = None) -> Any:
    """An agent of LangChain's on this model, which is told of a tool that failed."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import wrap_tool_call
    from langchain_core.messages import ToolMessage

    @wrap_tool_call
    def forgiving(request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except ValueError as error:
            call = request.tool_call
            return ToolMessage(f"Error: {error}", tool_call_id=call["id"], name=call["name"], status="error")

    return create_agent(
        model, list(tools or TOOLS.values()), system_prompt="Be kind.", middleware=[forgiving]
    )


def openai_client(url: str) -> Any:
    """A genuine client of OpenAI's that asks the stand-in."""
    import openai

    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def anthropic_client(url: str) -> Any:
    """A genuine client of Anthropic's that asks the stand-in."""
    import anthropic

    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)


def arguments() -> tuple[str, Path, str]:
    """The model's address, the file to write, and how to work."""
    return sys.argv[1], Path(sys.argv[2]), sys.argv[3]


def each(
    run: Callable[[str], Any],
    image: Callable[[str], Any] | None = None,
    nested: Callable[[str], Any] | None = None,
) -> None:
    """Run the scenarios, each as a trace of its own; a model that fails is not the end.

    `image` runs an agent on text and an image, `nested` one that has the tool `ask_expert`, another agent.
    """
    for name in SCENARIOS:
        chosen = {"image": image, "nested": nested}.get(name, run)
        if chosen is None:
            continue
        try:
            chosen(prompt(name))
        except Exception as error:  # noqa: BLE001 - the trace is what counts
            if name != "boom":
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)


_LOOP = asyncio.new_event_loop()
"""One for all runs: clients keep connections, which are of a loop."""


def waited(run: Callable[[str], Any]) -> Callable[[str], Any]:
    """A coroutine function as a plain one."""
    return lambda text: _LOOP.run_until_complete(run(text))


def spans_to(path: Path) -> Any:
    """A tracer provider of OpenTelemetry's whose spans go to a file as OTLP JSON, one request a line."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

    class ToFile(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            _append(path, encode_spans(spans))
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ToFile()))
    return provider


def logs_to(path: Path) -> Any:
    """A logger provider of OpenTelemetry's whose log records go to the same file."""
    from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import (
        LogRecordExporter,
        LogRecordExportResult,
        SimpleLogRecordProcessor,
    )

    class ToFile(LogRecordExporter):
        def export(self, batch: Any) -> LogRecordExportResult:
            _append(path, encode_logs(batch))
            return LogRecordExportResult.SUCCESS

        def shutdown(self) -> None:
            pass

        def force_flush(self, timeout_millis: int = 0) -> bool:
            return True

    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(ToFile()))
    return provider


def _append(path: Path, request: Any) -> None:
    from google.protobuf.json_format import MessageToDict

    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(_hexed(MessageToDict(request))) + "\n")


def _hexed(value: Any) -> Any:
    """OTLP's JSON has ids in hexadecimal, unlike that of protobuf."""
    if isinstance(value, list):
        return [_hexed(part) for part in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {key: base64.b64decode(part).hex() if key in ids else _hexed(part) for key, part in value.items()}


def traced_by(tracer: Any, kind: dict[str, str]) -> Callable[[Callable[[str], Any]], Callable[[str], Any]]:
    """A decorator that puts a plain root span around a run, as an app's own span is."""

    def around(run: Callable[[str], Any]) -> Callable[[str], Any]:
        def inner(text: str) -> Any:
            with tracer.start_as_current_span("POST /chat", attributes=kind):
                return run(text)

        return inner

    return around
