"""Sessions of several turns of a user: each turn is a trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Note, RecordError, Skipped
from replaydiff.importers.call_notes import ORPHANS, UNKNOWN_CALLS, has_orphan, has_unread_calls
from replaydiff.replay.messages import final_response, join_results
from replaydiff.replay.model import JsonObject, Message, Trace, Usage, total_usage

NO_PROMPT = "sessions without a message of their user"
NO_TIME = "no time in the record: the file's modification time was taken"


@dataclass(frozen=True, slots=True)
class SessionMessage:
    """One recorded message or event of a session."""

    recorded: JsonObject
    """As it was recorded; its `timestamp` is its time."""
    messages: tuple[Message, ...]
    """What it is in a conversation; a user's message begins a turn."""
    model: str | None = None
    usage: Usage | None = None
    error: str | None = None
    """Why the turn failed here."""


def turns(
    source: str,
    session: str,
    recorded: Sequence[SessionMessage],
    file: InputFile,
    *,
    name: str | None = None,
    user_id: str | None = None,
    metadata: JsonObject | None = None,
) -> Iterator[Imported]:
    """Yield a trace for each turn of a session, with notes of what was not read.

    The trace's id is `SESSION:NUMBER`; each names the one that it continues.

    Args:
        source: name of the importer.
        session: id of the session.
        recorded: what was recorded, in order.
        file: where the session is.
        name: name of each trace.
        user_id: whose session it is.
        metadata: what is known of the session.

    Raises:
        RecordError: the agent called a tool, or a tool answered, before the first message of a user.
    """
    continues: str | None = None
    divided = list(_divided(recorded))
    if not divided:
        yield Skipped(NO_PROMPT)
    for number, turn in enumerate(divided):
        produced = [message for entry in turn for message in entry.messages]
        prompt = produced.pop(next(at for at, entry in enumerate(produced) if entry.role == "user"))
        if not produced and not any(entry.error for entry in turn):
            yield Skipped("prompts that were not answered")
            continue
        times = [time for entry in turn if (time := fields.time(entry.recorded, "timestamp")) is not None]
        started_at, ended_at = min(times, default=None), max(times, default=None)
        if started_at is None:
            yield Note(NO_TIME)
            started_at = file.modified_at
        response = final_response(produced)
        errors = [entry.error for entry in turn if entry.error]
        trace = Trace(
            trace_id=f"{session}:{number}",
            source=source,
            started_at=started_at,
            ended_at=ended_at,
            name=name,
            session_id=session,
            user_id=user_id,
            model=next((entry.model for entry in reversed(turn) if entry.model), None),
            input=prompt.text,
            messages=(prompt, *produced),
            continues=continues,
            final_response=response,
            tool_calls=join_results(produced),
            usage=total_usage(entry.usage for entry in turn),
            latency_ms=fields.elapsed_ms(started_at, ended_at),
            error=errors[-1] if errors and response is None else None,
            metadata=metadata or {},
        )
        if has_unread_calls((entry.recorded for entry in turn), trace):
            yield Note(UNKNOWN_CALLS)
        if has_orphan(trace):
            yield Note(ORPHANS)
        yield trace
        continues = trace.trace_id


def _divided(recorded: Sequence[SessionMessage]) -> Iterator[list[SessionMessage]]:
    """Yield what was recorded, by the user's message that it follows."""
    turn: list[SessionMessage] = []
    for entry in recorded:
        if any(message.role == "user" for message in entry.messages):
            if turn:
                yield turn
            turn = [entry]
        elif turn:
            turn.append(entry)
        elif any(message.tool_calls or message.role == "tool" for message in entry.messages):
            raise RecordError("a tool call or result before the first message of a user")
    if turn:
        yield turn
