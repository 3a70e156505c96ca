"""Claude Code sessions: the files under `~/.claude/projects`, one or a folder of them, and stream-json.

A session has many turns of its user, and each turn is a trace: `SESSION:UUID`, with the uuid of the user's
line. What was said in earlier turns stands before it in its messages, without their tools. The release is
the version of Claude Code. What sub-agents did between is left out: it came back as the result of the call
that started them. So are turns that the user took back by editing the prompt.

The output of `claude --output-format stream-json`, and what the Agent SDK yields, is read too; it holds
neither times nor the prompt.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Skipped
from replaydiff.importers.convert import guarded, refused, reject
from replaydiff.importers.reading import Broken, Record, records
from replaydiff.importers.sources.claude_code.session import (
    BOOKKEEPING,
    SessionTurn,
    is_bookkeeping,
    is_message,
    is_of_subagent,
    session_of,
    taken_back,
    turns,
)
from replaydiff.importers.sources.claude_code.trace import notes, trace
from replaydiff.importers.spool import Group, Spool
from replaydiff.replay.model import Json, Message, Trace

NAME = "claude-code"
SUMMARY = "Claude Code and Agent SDK sessions: files of ~/.claude/projects, stream-json output"
TELL = "records are lines of a Claude Code session"

_LINE = "line"
_STREAM = {"system": "subtype", "result": "subtype", "assistant": "message", "user": "message"}
"""Type of a line of stream-json → what it has beside its session_id."""


def recognises(record: Json) -> float:
    """By the ids that each line of a session repeats, by bookkeeping lines, by stream-json's types."""
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
    """One trace for each turn of each session; the lines of a session may stand in any of the files."""
    with tempfile.TemporaryDirectory(prefix="replay-claude-") as folder:
        spool = Spool(Path(folder) / "lines.sqlite")
        try:
            for number, file in enumerate(files):
                for record in records(file):
                    if isinstance(record, Broken):
                        yield reject(NAME, file, record)
                    else:
                        yield from _spooled(spool, file, number, record)
            for group in spool.groups():
                source = Record(group.line, group.rows[0].value)
                yield from guarded(NAME, files[group.file], source, partial(_traces, group))
        finally:
            spool.close()


def _spooled(spool: Spool, file: InputFile, number: int, record: Record) -> Iterator[Imported]:
    value = record.value
    if not isinstance(value, dict):
        reason = f"a line of a session must be an object, not {fields.kind(value)}"
        yield refused(NAME, file, record, reason)
        return
    if is_bookkeeping(value) or file.name.endswith((".meta.json", "sessions-index.json")):
        yield Skipped(BOOKKEEPING)
        return
    session = session_of(value)
    if session is None or not isinstance(value.get("type"), str):
        yield refused(NAME, file, record, "it is no line of a session: looked for sessionId and type")
        return
    if not is_message(value):
        yield Skipped(BOOKKEEPING)
        return
    if is_of_subagent(value):
        yield Skipped("messages of sub-agents: what they found is the result of the call that started them")
        return
    uuid = value.get("uuid")
    row_id = uuid if isinstance(uuid, str) else f"{number}:{record.line}"
    spool.add(session, _LINE, row_id, value, file=number, line=record.line)


def _traces(group: Group, _value: Json, file: InputFile) -> Iterator[Imported]:
    lines = [line for line in group.of(_LINE) if isinstance(line, dict)]
    kept = taken_back(lines)
    for _ in range(len(lines) - len(kept)):
        yield Skipped("lines of turns that the user took back by editing the prompt")
    found = turns(kept)
    if not found:
        yield Skipped("sessions without a prompt that was answered")
    before: list[Message] = []
    for number, turn in enumerate(found):
        if not turn.is_answered:
            yield Skipped("prompts that were not answered")
            continue
        made = list(_made(group, number, before, turn, file))
        yield from made
        # What was said, without the tools between: a session would be stored once for each of its turns.
        for one in made:
            if isinstance(one, Trace):
                exchange = (_message("user", one.input), _message("assistant", one.final_response))
                before += [message for message in exchange if message]


def _made(
    group: Group, number: int, before: Sequence[Message], turn: SessionTurn, file: InputFile
) -> Iterator[Imported]:
    """The trace of a turn with its notes; a field that cannot be read costs its own turn alone."""

    def convert(_value: Json, file: InputFile) -> Iterator[Imported]:
        yield from notes(turn)
        yield trace(NAME, group.key, number, before, turn, file)

    return guarded(NAME, file, Record(group.line, turn.first), convert)


def _message(role: str, text: str | None) -> Message | None:
    return Message(role=role, text=text) if text else None
