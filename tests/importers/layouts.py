"""A conversation as each format writes it that carries sessions: a trace, or a file, for all or each turn.

Every writer gets the session and its turns, and returns records in the order in which they are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

Call = tuple[str, dict[str, Any], str]
"""Name, arguments, result."""
Record = dict[str, Any]


class Turn(NamedTuple):
    """What a user wrote, the calls of each model call, and the answer."""

    user: str
    rounds: Sequence[Sequence[Call]]
    answer: str


class Clock:
    """Times a second apart."""

    def __init__(self) -> None:
        self.now = datetime(2026, 10, 5, 8, tzinfo=UTC)

    def tick(self) -> datetime:
        """Return the next time."""
        self.now += timedelta(seconds=1)
        return self.now

    def text(self) -> str:
        """Return the next time as text."""
        return self.tick().strftime("%Y-%m-%dT%H:%M:%SZ")


def rounds_of(number: int, turn: Turn) -> Iterator[list[tuple[str, Call]]]:
    """Yield the calls of each model call of a turn with an id each."""
    for step, calls in enumerate(turn.rounds):
        yield [(f"k{number}-{step}-{place}", call) for place, call in enumerate(calls)]


def claude_code(session: str, turns: Sequence[Turn]) -> list[Record]:
    """A line for each message."""
    clock, lines = Clock(), list[Record]()

    def line(kind: str, content: Any, **message: Any) -> None:
        lines.append(
            {
                "type": kind,
                "uuid": f"{session}-{len(lines)}",
                "parentUuid": lines[-1]["uuid"] if lines else None,
                "sessionId": session,
                "timestamp": clock.text(),
                "message": {"role": kind, "content": content, **message},
            }
        )

    for number, turn in enumerate(turns):
        line("user", turn.user)
        for step, calls in enumerate(rounds_of(number, turn)):
            uses = [{"type": "tool_use", "id": key, "name": call[0], "input": call[1]} for key, call in calls]
            line("assistant", uses, id=f"{session}-{number}-{step}", model="m")
            results = [{"type": "tool_result", "tool_use_id": key, "content": call[2]} for key, call in calls]
            line("user", results)
        line("assistant", [{"type": "text", "text": turn.answer}], id=f"{session}-{number}-end", model="m")
    return lines


def codex(session: str, turns: Sequence[Turn]) -> list[Record]:
    """Items of the Responses API, a line each."""
    clock = Clock()

    def line(kind: str, **payload: Any) -> Record:
        return {"timestamp": clock.text(), "type": kind, "payload": payload}

    def message(role: str, text: str) -> Record:
        kind = "input_text" if role == "user" else "output_text"
        return line("response_item", type="message", role=role, content=[{"type": kind, "text": text}])

    lines = [line("session_meta", id=session)]
    for number, turn in enumerate(turns):
        lines.append(message("user", turn.user))
        for calls in rounds_of(number, turn):
            for key, (name, args, _) in calls:
                fields = {"name": name, "arguments": json.dumps(args), "call_id": key}
                lines.append(line("response_item", type="function_call", **fields))
            for key, call in calls:
                lines.append(line("response_item", type="function_call_output", call_id=key, output=call[2]))
        lines.append(message("assistant", turn.answer))
    return lines


def gemini_cli(session: str, turns: Sequence[Turn]) -> list[Record]:
    """One object with all messages."""
    clock, messages = Clock(), list[Record]()

    def message(kind: str, content: str, calls: Sequence[Record] = ()) -> None:
        messages.append(
            {
                "id": f"m{len(messages)}",
                "timestamp": clock.text(),
                "type": kind,
                "content": content,
                "toolCalls": list(calls),
            }
        )

    for number, turn in enumerate(turns):
        message("user", turn.user)
        for calls in rounds_of(number, turn):
            called = []
            for key, (name, args, result) in calls:
                response = {"functionResponse": {"id": key, "name": name, "response": result}}
                called.append(
                    {"id": key, "name": name, "args": args, "result": [response], "status": "success"}
                )
            message("gemini", "", called)
        message("gemini", turn.answer)
    return [{"sessionId": session, "projectHash": "h", "messages": messages}]


def adk(session: str, turns: Sequence[Turn]) -> list[Record]:
    """One object with all events."""
    clock, events = Clock(), list[Record]()

    def event(author: str, role: str, *parts: Record) -> None:
        content = {"role": role, "parts": list(parts)}
        events.append({"author": author, "timestamp": clock.tick().timestamp(), "content": content})

    for number, turn in enumerate(turns):
        event("user", "user", {"text": turn.user})
        for calls in rounds_of(number, turn):
            event(
                "agent",
                "model",
                *(
                    {"functionCall": {"id": key, "name": name, "args": args}}
                    for key, (name, args, _) in calls
                ),
            )
            event(
                "agent",
                "user",
                *(
                    {"functionResponse": {"id": key, "name": call[0], "response": call[2]}}
                    for key, call in reversed(calls)
                ),
            )
        event("agent", "model", {"text": turn.answer})
    return [{"id": session, "appName": "shop", "userId": "u1", "events": events}]


Exchange = tuple[list[Record], Record]
"""What a model was given, and what it answered, as messages of chat completions."""


def exchanges(turns: Sequence[Turn]) -> Iterator[tuple[int, Turn, list[Exchange], list[tuple[str, Call]]]]:
    """Yield each turn with its number, its model calls, whose history are all turns before, and its tools."""
    messages: list[Record] = []
    for number, turn in enumerate(turns):
        messages.append({"role": "user", "content": turn.user})
        asked: list[Exchange] = []
        tools: list[tuple[str, Call]] = []
        for calls in rounds_of(number, turn):
            requests = [
                {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
                for key, (name, args, _) in calls
            ]
            answer: Record = {"role": "assistant", "content": None, "tool_calls": requests}
            asked.append(([*messages], answer))
            results = [{"role": "tool", "tool_call_id": key, "content": call[2]} for key, call in calls[::-1]]
            messages += [answer, *results]
            tools += calls
        answer = {"role": "assistant", "content": turn.answer}
        asked.append(([*messages], answer))
        messages.append(answer)
        yield number, turn, asked, tools


def jsonl(session: str, turns: Sequence[Turn]) -> list[Record]:
    """A trace for each turn, without any history."""
    clock = Clock()
    return [
        {
            "trace_id": f"{session}-{number}",
            "session_id": session,
            "started_at": clock.text(),
            "ended_at": clock.text(),
            "input": turn.user,
            "tool_calls": [
                {"id": key, "name": name, "args": args, "result": result}
                for key, (name, args, result) in tools
            ],
            "final_response": turn.answer,
        }
        for number, turn, _, tools in exchanges(turns)
    ]


def openai(session: str, turns: Sequence[Turn]) -> list[Record]:
    """A record for each model call, as a gateway logs them."""
    clock = Clock()
    return [
        {
            "session_id": session,
            "request": {"model": "m", "messages": messages},
            "response": {
                "id": f"{session}-{number}-{step}",
                "object": "chat.completion",
                "created": int(clock.tick().timestamp()),
                "model": "m",
                "choices": [{"index": 0, "message": answer}],
            },
        }
        for number, _, asked, _ in exchanges(turns)
        for step, (messages, answer) in enumerate(asked)
    ]


def anthropic(session: str, turns: Sequence[Turn]) -> list[Record]:
    """A record for each model call, in the shape of the Messages API."""
    clock = Clock()

    def blocks(message: Record) -> Record:
        if message["role"] == "tool":
            result = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
            return {"role": "user", "content": [{**result, "content": message["content"]}]}
        uses = [
            {
                "type": "tool_use",
                "id": call["id"],
                "name": call["function"]["name"],
                "input": json.loads(call["function"]["arguments"]),
            }
            for call in message.get("tool_calls", ())
        ]
        text = [{"type": "text", "text": message["content"]}] if message["content"] else []
        return {"role": message["role"], "content": [*text, *uses]}

    return [
        {
            "session_id": session,
            "timestamp": clock.text(),
            "request": {"model": "m", "messages": [blocks(message) for message in messages]},
            "response": {
                "id": f"{session}-{number}-{step}",
                "type": "message",
                "model": "m",
                **blocks(answer),
            },
        }
        for number, _, asked, _ in exchanges(turns)
        for step, (messages, answer) in enumerate(asked)
    ]


def litellm(session: str, turns: Sequence[Turn]) -> list[Record]:
    """A payload for each model call."""
    clock = Clock()
    return [
        {
            "id": f"{session}-{number}-{step}",
            "session_id": session,
            "call_type": "acompletion",
            "status": "success",
            "startTime": clock.tick().timestamp(),
            "model": "m",
            "messages": messages,
            "response": {
                "id": "r",
                "object": "chat.completion",
                "choices": [{"index": 0, "message": answer}],
            },
        }
        for number, _, asked, _ in exchanges(turns)
        for step, (messages, answer) in enumerate(asked)
    ]


Part = tuple[str, str, Any, Any, str]
"""What a span is, its name, what went in and came out, and the id of a tool's call."""


def parts_of(turn: Turn, asked: Sequence[Exchange], tools: Sequence[tuple[str, Call]]) -> Iterator[Part]:
    """Yield the spans of a turn, its root first, in the order of their start."""
    yield "agent", "agent", turn.user, turn.answer, ""
    waiting = [*tools]
    for messages, answer in asked:
        yield "llm", "chat", messages, answer, ""
        for _ in answer.get("tool_calls", ()):
            key, (name, args, result) = waiting.pop(0)
            yield "tool", name, args, result, key


def langfuse(session: str, turns: Sequence[Turn]) -> list[Record]:
    """A trace for each turn, an observation a line."""
    clock, rows = Clock(), list[Record]()
    kinds = {"agent": "AGENT", "llm": "GENERATION", "tool": "TOOL"}
    for number, turn, asked, tools in exchanges(turns):
        for place, (kind, name, given, output, key) in enumerate(parts_of(turn, asked, tools)):
            rows.append(
                {
                    "id": f"{session}-{number}-{place}",
                    "traceId": f"{session}-{number}",
                    "sessionId": session,
                    "type": kinds[kind],
                    "name": name,
                    "parentObservationId": f"{session}-{number}-0" if place else None,
                    "startTime": clock.text(),
                    "endTime": clock.text(),
                    "input": given if isinstance(given, str) else json.dumps(given),
                    "output": output if isinstance(output, str) else json.dumps(output),
                    "metadata": {"tool_call_id": key} if key else {},
                }
            )
    return rows


def otlp(session: str, turns: Sequence[Turn]) -> list[Record]:
    """A trace for each turn, with the attributes of OpenInference."""
    clock, records = Clock(), list[Record]()
    kinds = {"agent": "AGENT", "llm": "LLM", "tool": "TOOL"}

    def listed(attributes: Record) -> list[Record]:
        return [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]

    def message(prefix: str, recorded: Record) -> Record:
        attributes = {f"{prefix}.role": recorded["role"]}
        if recorded.get("content"):
            attributes[f"{prefix}.content"] = recorded["content"]
        if "tool_call_id" in recorded:
            attributes[f"{prefix}.tool_call_id"] = recorded["tool_call_id"]
        for place, call in enumerate(recorded.get("tool_calls", ())):
            inner = f"{prefix}.tool_calls.{place}.tool_call"
            attributes[f"{inner}.id"] = call["id"]
            attributes[f"{inner}.function.name"] = call["function"]["name"]
            attributes[f"{inner}.function.arguments"] = call["function"]["arguments"]
        return attributes

    for number, turn, asked, tools in exchanges(turns):
        spans = []
        for place, (kind, name, given, output, key) in enumerate(parts_of(turn, asked, tools)):
            attributes = {"openinference.span.kind": kinds[kind], "session.id": session}
            if kind == "llm":
                for position, recorded in enumerate(given):
                    attributes |= message(f"llm.input_messages.{position}.message", recorded)
                attributes |= message("llm.output_messages.0.message", output)
            else:
                attributes["input.value"] = given if isinstance(given, str) else json.dumps(given)
                attributes["output.value"] = output
            if key:
                attributes["tool.name"] = name
            spans.append(
                {
                    "traceId": f"{session}-{number}",
                    "spanId": f"{session}-{number}-{place}",
                    "parentSpanId": f"{session}-{number}-0" if place else "",
                    "name": name,
                    "startTimeUnixNano": str(int(clock.tick().timestamp()) * 10**9),
                    "endTimeUnixNano": str(int(clock.tick().timestamp()) * 10**9),
                    "attributes": listed(attributes),
                }
            )
        records.append({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    return records


def langsmith(session: str, turns: Sequence[Turn]) -> list[Record]:
    """A trace for each turn, a run a line."""
    clock, rows = Clock(), list[Record]()
    kinds = {"agent": "chain", "llm": "llm", "tool": "tool"}
    for number, turn, asked, tools in exchanges(turns):
        for place, (kind, name, given, output, key) in enumerate(parts_of(turn, asked, tools)):
            shown = {"generations": [[{"message": output}]]} if kind == "llm" else {"output": output}
            rows.append(
                {
                    "id": f"{session}-{number}-{place}",
                    "trace_id": f"{session}-{number}-0",
                    "parent_run_id": f"{session}-{number}-0" if place else None,
                    "run_type": kinds[kind],
                    "name": name,
                    "start_time": clock.text(),
                    "end_time": clock.text(),
                    "inputs": {"messages": given} if kind == "llm" else {"input": given},
                    "outputs": {**shown, "tool_call_id": key} if key else shown,
                    "extra": {"metadata": {"thread_id": session}},
                }
            )
    return rows


SESSION_FILES = {"claude-code": claude_code, "codex": codex, "gemini-cli": gemini_cli, "adk": adk}
"""Formats whose files hold whole sessions."""
TRACES_BY_TURN = {
    "jsonl": jsonl,
    "openai": openai,
    "anthropic": anthropic,
    "litellm": litellm,
    "langfuse": langfuse,
    "otlp": otlp,
    "langsmith": langsmith,
}
"""Formats in which each turn of the user is a trace of its own."""
