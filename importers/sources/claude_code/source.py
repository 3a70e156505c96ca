"""Claude Code sessions: the files under `~/.claude/projects`, one or a folder of them, and stream-json.

A session has many turns of its user, and each turn is a trace: `SESSION:UUID`, with the uuid of the user's
line; it names the trace that it continues. The release is the version of Claude Code. What sub-agents did
between is left out: it came back as the result of the call that started them. So are turns that the user took
back by editing the prompt. A resumed session holds copies of its earlier turns under new uuids; the ids of
the model's messages show them, and each turn is taken once.

The output of `claude --output-format stream-json`, and what the Agent SDK yields, is read too; it holds
neither times nor the prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Note, RecordError, Skipped
from replaydiff.importers.call_notes import UNKNOWN_CALLS, has_unread_calls
from replaydiff.importers.convert import Group, Spool, grouped, guarded
from replaydiff.importers.reading import Record
from replaydiff.importers.sources.claude_code.session import (
    BOOKKEEPING,
    AnswerBlocks,
    SessionTurn,
    is_bookkeeping,
    is_message,
    is_of_subagent,
    message_of,
    prompt,
    session_of,
    taken_back,
    turns,
)
from replaydiff.replay.messages import final_response, join_results, read_content, read_messages, step_output
from replaydiff.replay.model import Json, JsonObject, Message, Step, StepKind, ToolCall, Trace, total_usage

_METADATA = {"cwd": "cwd", "gitBranch": "git_branch", "entrypoint": "entrypoint", "slug": "slug"}
"""Fields of a line → what the trace's metadata calls them."""


def notes(turn: SessionTurn) -> Iterator[Note]:
    """Yield what a person should know of the trace of a turn."""
    if turn.prompt_line is None:
        yield Note("the prompt is not recorded (stream-json holds the answers alone): the input is not known")
    if fields.time(turn.first, "timestamp") is None:
        yield Note("no time in the lines: the file's modification time was taken")


def trace(
    source: str, session: str, number: int, continues: str | None, turn: SessionTurn, file: InputFile
) -> Trace:
    """Return the trace of a session's turn of this number; `continues` is the id of the one before it."""
    started_at = fields.time(turn.first, "timestamp") or file.modified_at
    messages, times = _messages(turn)
    result = turn.result or {}
    final = final_response(messages)
    ended_at = fields.time(turn.ended, "timestamp")
    duration = fields.number(result, "duration_ms")
    answers = [_AnswerMessage(answer) for answer in turn.answers]
    models = [answer.model for answer in answers if answer.model]
    versions = (_text(line, "version", "claude_code_version") for line in (turn.first, turn.ended))
    question = prompt(turn.prompt_line) or "" if turn.prompt_line is not None else ""
    return Trace(
        trace_id=f"{session}:{_turn_id(turn, number)}",
        source=source,
        started_at=started_at,
        ended_at=ended_at,
        session_id=session,
        release=next(filter(None, versions), None),
        model=models[-1] if models else None,
        input=question,
        messages=(*((Message(role="user", text=question),) if question else ()), *messages),
        continues=continues,
        final_response=final if final is not None else _text(result, "result"),
        steps=tuple(_steps(answers)),
        tool_calls=_calls(messages, times),
        usage=total_usage(answer.usage for answer in answers),
        cost_usd=fields.number(result, "total_cost_usd"),
        latency_ms=duration if duration is not None else fields.elapsed_ms(started_at, ended_at),
        error=_error(turn, final),
        metadata=_metadata(turn),
    )


def _text(line: JsonObject, *keys: str) -> str | None:
    """Return the first of these fields that is there, where it is text."""
    value = next((line[key] for key in keys if key in line), None)
    return value if isinstance(value, str) and value else None


def _turn_id(turn: SessionTurn, number: int) -> str:
    """Return the uuid of the turn's first line; its number in the session where lines have none."""
    uuids = (_text(line or {}, "uuid") for line in (turn.prompt_line, turn.first, turn.result))
    return next(filter(None, uuids), str(number))


def _metadata(turn: SessionTurn) -> JsonObject:
    metadata: JsonObject = {
        name: turn.first[key]
        for key, name in _METADATA.items()
        if isinstance(turn.first.get(key), str) and turn.first[key]
    }
    if turn.interrupted:
        metadata["interrupted"] = True
    return metadata


def _error(turn: SessionTurn, final: str | None) -> str | None:
    """Return the error of the run, or of the API at its end."""
    result = turn.result or {}
    if result.get("is_error"):
        message = result.get("result") or result.get("terminal_reason") or result.get("subtype")
        return message if isinstance(message, str) else "the run failed"
    if turn.errors and final is None:
        text = read_content(message_of(turn.errors[-1]).get("content")).text
        return text or "the API answered with an error"
    return None


class _AnswerMessage:
    """A response as one message, with its metadata."""

    def __init__(self, answer: AnswerBlocks) -> None:
        blocks: list[Json] = []
        for line in answer.lines:
            content: Any = message_of(line).get("content")
            blocks.extend(content if isinstance(content, list) else [content])
        last = message_of(answer.lines[-1])
        self.messages = read_messages({"role": "assistant", "content": blocks}) or ()
        # Each line repeats the usage of the whole answer, and the last has its end.
        self.usage = fields.usage(last.get("usage"))
        model = last.get("model")
        self.model = model if isinstance(model, str) else None
        self.started_at = fields.time(answer.lines[0], "timestamp")
        self.ended_at = fields.time(answer.lines[-1], "timestamp")
        message_id = last.get("id")
        self.id = message_id if isinstance(message_id, str) else None


def _messages(turn: SessionTurn) -> tuple[list[Message], list[datetime | None]]:
    """Return what followed on the prompt, each with its time."""
    messages: list[Message] = []
    times: list[datetime | None] = []
    for event in turn.events:
        if isinstance(event, AnswerBlocks):
            answer = _AnswerMessage(event)
            answer_messages, at = answer.messages, answer.started_at
        else:
            message = message_of(event)
            read = read_messages({"role": "user", "content": message.get("content")}) or ()
            answer_messages = tuple(result for result in read if result.role == "tool")
            at = fields.time(event, "timestamp")
        messages.extend(answer_messages)
        times.extend([at] * len(answer_messages))
    return messages, times


def _calls(messages: Sequence[Message], times: Sequence[datetime | None]) -> tuple[ToolCall, ...]:
    """Return the calls of the turn, with the time between the request and its result."""
    requested_at: list[datetime | None] = []
    answered: dict[str, datetime | None] = {}
    for message, at in zip(messages, times, strict=True):
        requested_at.extend([at] * len(message.tool_calls))
        if message.role == "tool" and message.tool_call_id is not None:
            answered[message.tool_call_id] = at
    return tuple(
        replace(call, started_at=at, duration_ms=fields.elapsed_ms(at, answered.get(call.call_id or "")))
        for call, at in zip(join_results(messages), requested_at, strict=True)
    )


def _steps(answers: Sequence[_AnswerMessage]) -> Iterator[Step]:
    for index, answer in enumerate(answers):
        yield Step(
            index=index,
            kind=StepKind.LLM,
            name=answer.model or "model call",
            output=step_output(answer.messages),
            model=answer.model,
            usage=answer.usage,
            started_at=answer.started_at,
            ended_at=answer.ended_at,
            source_span_id=answer.id,
        )


NAME = "claude-code"
RECOGNISED_BY = "records are lines of a Claude Code session"

_LINE = "line"
_STREAM = {"system": "subtype", "result": "subtype", "assistant": "message", "user": "message"}
"""Type of a line of stream-json → what it has beside its session_id."""


def recognises(record: Json) -> float:
    """Recognise the ids that each line of a session repeats, bookkeeping lines, stream-json's types."""
    if not isinstance(record, dict):
        return 0.0
    kind = record.get("type")
    if "sessionId" in record and "uuid" in record and isinstance(kind, str):
        return 0.95
    if is_bookkeeping(record):
        return 0.9
    if isinstance(kind, str) and "session_id" in record and _STREAM.get(kind, "") in record:
        return 0.95
    return 0.0


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """Yield one trace for each turn of each session; the lines of a session may stand in any of the files."""
    answers: dict[str, _Holder] = {}
    return grouped(NAME, files, _keep, partial(_traces, answers))


def _keep(spool: Spool, number: int, file: InputFile, record: Record) -> Iterator[Imported]:
    value = fields.object_of(record.value, "a line of a session")
    if is_bookkeeping(value) or file.name.endswith((".meta.json", "sessions-index.json")):
        yield Skipped(BOOKKEEPING)
        return
    session = session_of(value)
    if session is None or not isinstance(value.get("type"), str):
        raise RecordError("it is not a line of a session: looked for sessionId and type")
    if not is_message(value):
        yield Skipped(BOOKKEEPING)
        return
    if is_of_subagent(value):
        yield Skipped("messages of sub-agents: what they found is the result of the call that started them")
        return
    uuid = value.get("uuid")
    row_id = uuid if isinstance(uuid, str) else f"{number}:{record.line}"
    spool.add(session, _LINE, row_id, value, file=number, line=record.line)


COPIES = "turns of a resumed session that are copies of turns that were read already"


class _Holder(NamedTuple):
    """Where a turn was taken from first."""

    session: str
    trace_id: str | None
    """None where no trace could be made of it."""


def _traces(answers: dict[str, _Holder], group: Group, _value: Json, file: InputFile) -> Iterator[Imported]:
    """Yield the traces of a session; `answers` is message id → who has it, of all turns so far."""
    lines = [line for line in group.of(_LINE) if isinstance(line, dict)]
    lines_left = taken_back(lines)
    for _ in range(len(lines) - len(lines_left)):
        yield Skipped("lines of turns that the user took back by editing the prompt")
    session_turns = turns(lines_left)
    if not session_turns:
        yield Skipped("sessions without a prompt that was answered")
    continues: str | None = None
    every: list[Trace] = []
    for number, turn in enumerate(session_turns):
        if not turn.is_answered:
            yield Skipped("prompts that were not answered")
            continue
        ids = turn.message_ids
        holder = next((answers[message_id] for message_id in ids if message_id in answers), None)
        if holder is not None and holder.session == group.key:
            yield Skipped(COPIES)
            continue
        items = list(_turn_items(group, number, continues, turn, file))
        traces = [item for item in items if isinstance(item, Trace)]
        every += traces
        if holder is None:
            holder = _Holder(group.key, traces[-1].trace_id if traces else None)
            answers.update(dict.fromkeys(ids, holder))
            yield from items
        else:
            yield Skipped(COPIES)
        continues = holder.trace_id or continues
    if every and has_unread_calls((line for line in lines_left if line.get("type") == "assistant"), *every):
        yield Note(UNKNOWN_CALLS)


def _turn_items(
    group: Group, number: int, continues: str | None, turn: SessionTurn, file: InputFile
) -> Iterator[Imported]:
    """Yield the trace of a turn with its notes; a field that cannot be read costs its own turn alone."""

    def convert(_value: Json, file: InputFile) -> Iterator[Imported]:
        yield from notes(turn)
        yield trace(NAME, group.key, number, continues, turn, file)

    return guarded(NAME, file, Record(group.line, turn.first), convert)
