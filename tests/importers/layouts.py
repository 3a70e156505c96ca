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
                response = {"functionResponse": {"id": key, "name": name, "response": {"output": result}}}
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
                    for key, call in calls
                ),
            )
        event("agent", "model", {"text": turn.answer})
    return [{"id": session, "appName": "shop", "userId": "u1", "events": events}]


SESSION_FILES = {"claude-code": claude_code, "codex": codex, "gemini-cli": gemini_cli, "adk": adk}
"""Formats whose files hold whole sessions."""
