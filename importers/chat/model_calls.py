"""Logs with one call of a model a record: the calls of one run of an agent are joined to one trace.

A request carries the whole conversation so far, or (Responses API) names the response it goes on from. So a
call whose request begins with all that another call was asked and answered comes after that one:

| what the later call adds | it is |
|---|---|
| results of tools | the same run, going on |
| a message of the user | the next turn of the same session, a run of its own |
| not known (a stored response has no input) | the same run, where the earlier one ended on a call of a tool |

System prompts are not compared: many hold the time of day. Calls that follow each other may stand anywhere
in the files, so all of them wait in a temporary SQLite file until the last record was read, and memory does
not depend on their number.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Job, Note, Position
from replaydiff.importers.call_notes import ORPHANS, has_orphan
from replaydiff.importers.convert import guarded
from replaydiff.importers.reading import Record
from replaydiff.replay.messages import canonical_args, final_response, join_results, parse
from replaydiff.replay.model import Json, Message, Step, StepKind, Trace, total_usage

RUNS_A_JOB = 16
"""Runs whose calls are given to another process at a time."""
LONGEST_HISTORY = 1_000
"""Calls whose messages are put before those of a call that names the response it goes on from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCall:
    """One call of a model, as a log has it."""

    trace: Trace
    """What is known of it; its messages are what it was asked with, then what it answered."""
    request_length: int
    """How many of the messages it was asked with."""
    response_id: str | None = None
    previous_id: str | None = None
    """The response it goes on from; its messages are then only what is new."""
    notes: tuple[str, ...] = ()

    @property
    def produced(self) -> tuple[Message, ...]:
        """Return what it answered."""
        return self.trace.messages[self.request_length :]

    @property
    def is_open(self) -> bool:
        """Return whether it ended on a call of a tool, so that its run must go on."""
        return bool(self.produced and self.produced[-1].tool_calls)

    def begins_with_result_at(self, position: int) -> bool | None:
        """Return whether its request begins with a tool's result at a position, None if it ends there."""
        roles = (
            message.role
            for message in self.trace.messages[position : self.request_length]
            if message.role != "system"
        )
        role = next(roles, None)
        return None if role is None else role == "tool"


Convert = Callable[[Json, InputFile], Iterable[Imported | LoggedCall]]


@dataclass(frozen=True, slots=True)
class _Member:
    """A call of a run, and what came before it."""

    call: LoggedCall
    new: int = 0
    """Where in its messages begins what the earlier call does not have."""
    by_id: bool = False
    """It was found by the response that it names, so its messages are only what is new."""


def run_of(call: LoggedCall) -> Trace:
    """Return the trace of a run of a single call."""
    return _run([_Member(call)], ())


def _run(members: Sequence[_Member], history: tuple[Message, ...]) -> Trace:
    """Return the trace of a run from its calls, oldest first; `history` are earlier turns that they do not
    carry.
    """
    calls = [member.call for member in members]
    first, last = calls[0].trace, calls[-1].trace
    request = first.messages[: calls[0].request_length]
    turn = next((index for index in range(len(request) - 1, -1, -1) if request[index].role == "user"), None)
    turn_messages = [
        *first.messages[turn or 0 :],
        *(message for member in members[1:] for message in _new(member)),
    ]
    whole = first.messages
    if history:
        # Each response brings its own system prompt: the newest counts.
        system_messages = tuple(message for message in whole if message.role == "system")
        whole = (*system_messages, *(message for message in (*history, *whole) if message.role != "system"))
    for member in members[1:]:
        whole = (*whole, *_new(member)) if member.by_id else member.call.trace.messages
    trace = replace(
        last,
        trace_id=first.trace_id,
        started_at=first.started_at,
        name=_common_field(calls, "name"),
        session_id=_common_field(calls, "session_id"),
        user_id=_common_field(calls, "user_id"),
        environment=_common_field(calls, "environment"),
        release=_common_field(calls, "release"),
        tags=first.tags or last.tags,
        input="" if turn is None else request[turn].text,
        messages=whole,
        final_response=final_response(calls[-1].produced),
        tool_calls=join_results(turn_messages),
        scores={**first.scores, **last.scores},
        metadata={**first.metadata, **last.metadata},
    )
    if len(calls) == 1:
        return trace
    costs = [call.trace.cost_usd for call in calls if call.trace.cost_usd is not None]
    return replace(
        trace,
        steps=tuple(_step(index, call) for index, call in enumerate(calls)),
        usage=total_usage(call.trace.usage for call in calls),
        cost_usd=sum(costs) if costs else None,
        latency_ms=fields.elapsed_ms(first.started_at, last.ended_at),
    )


def _new(member: _Member) -> tuple[Message, ...]:
    new = member.call.trace.messages[member.new :]
    return tuple(message for message in new if message.role != "system") if member.by_id else new


def _common_field(calls: Sequence[LoggedCall], field: str) -> str | None:
    return next((value for call in calls if (value := getattr(call.trace, field)) is not None), None)


def _step(index: int, call: LoggedCall) -> Step:
    trace = call.trace
    asks: list[Json] = [
        {"name": tool_call.name, "args": tool_call.args}
        for message in call.produced
        for tool_call in message.tool_calls
    ]
    return Step(
        index=index,
        kind=StepKind.LLM,
        name=trace.model or "model call",
        messages=trace.messages[: call.request_length],
        output=asks or final_response(call.produced),
        model=trace.model,
        usage=trace.usage,
        started_at=trace.started_at,
        ended_at=trace.ended_at,
        error=trace.error,
        source_span_id=trace.trace_id,
    )


@contextmanager
def waiting(folder: Path, source: str, files: Sequence[InputFile], convert: Convert) -> Iterator[CallSpool]:
    """Return a spool of model calls for the time of an import."""
    spool = CallSpool(folder / "calls.sqlite", source, files, convert)
    try:
        yield spool
    finally:
        spool.close()


class CallRecord(NamedTuple):
    """A call of a model, and what other calls know it by."""

    line: int
    text: bytes
    response_id: str | None
    previous_id: str | None
    state: bytes | None
    """The digest of the conversation up to its end."""
    is_open: bool
    after_result: bool | None
    beginnings: list[tuple[int, bytes, bool | None]]
    """Of each earlier state that it may go on from: number of messages, digest, and how it goes on there."""


def call_record(call: LoggedCall, record: Record) -> CallRecord:
    """Return a call that was made of this record, to be joined with others."""
    messages = call.trace.messages
    states = _states(messages)
    return CallRecord(
        line=record.line,
        text=msgspec.json.encode(record.value),
        response_id=call.response_id,
        previous_id=call.previous_id,
        state=states[-1] if call.request_length and call.produced else None,
        is_open=call.is_open,
        after_result=call.begins_with_result_at(0),
        beginnings=[
            (length, states[length - 1], call.begins_with_result_at(length))
            for length in range(1, call.request_length)
            if messages[length - 1].role == "assistant" and call.previous_id is None
        ],
    )


class _CallText(NamedTuple):
    """The record of a call, and what `_Member` knows of it."""

    file: int
    text: bytes
    new: int = 0
    by_id: bool = False


class _LoggedRun(NamedTuple):
    """The calls of one run, for another process."""

    members: list[_CallText]
    history: list[_CallText]
    root: _CallText | None
    """The first call of its session, where there is another run in it."""
    is_fork: bool
    """Its first call is that of a run before it, too."""


_read_run = msgspec.msgpack.Decoder(_LoggedRun).decode


def _joined(
    source: str, files: Mapping[int, InputFile], convert: Convert, position: Position, text: bytes
) -> Iterator[Imported]:
    """Return the trace of a run with its notes."""
    assert isinstance(position, tuple)  # noqa: S101 - as `CallSpool.jobs` gave it
    run = _read_run(text)
    last = Record(position[1], parse(run.members[-1].text))
    return guarded(source, files[position[0]], last, lambda _value, _file: _joined_run(run, files, convert))


def _joined_run(run: _LoggedRun, files: Mapping[int, InputFile], convert: Convert) -> Iterator[Imported]:
    def read(call_text: _CallText) -> LoggedCall:
        items = convert(parse(call_text.text), files[call_text.file])
        return next(item for item in items if isinstance(item, LoggedCall))

    members = [_Member(read(call_text), call_text.new, call_text.by_id) for call_text in run.members]
    history = tuple(message for call_text in run.history for message in read(call_text).trace.messages)
    trace = _run(members, history)
    if run.is_fork:
        trace = replace(trace, trace_id=members[-1].call.trace.trace_id)
    if trace.session_id is None and run.root is not None:
        first = read(run.root).trace
        trace = replace(trace, session_id=first.session_id or first.trace_id)
    for text in dict.fromkeys(text for member in members for text in member.call.notes):
        yield Note(text)
    if has_orphan(trace):
        yield Note(ORPHANS)
    yield trace


class CallSpool:
    """Model calls that wait until all of them were read. Files without any never touch the disk."""

    def __init__(self, path: Path, source: str, files: Sequence[InputFile], convert: Convert) -> None:
        self._path, self._source, self._files, self._convert = path, source, files, convert
        self._opened: sqlite3.Connection | None = None

    def close(self) -> None:
        """Let go of the file."""
        if self._opened is not None:
            self._opened.close()

    def add(self, call: CallRecord, file: int) -> None:
        """Keep a call until `jobs`; the number is its file's."""
        added = self._con.execute(
            "INSERT INTO call (file, line, record, response_id, previous_id, state, is_open, after_result)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (file, *call[:-1]),
        )
        self._con.executemany(
            "INSERT INTO beginning VALUES (?, ?, ?, ?)",
            [(added.lastrowid, *beginning) for beginning in call.beginnings],
        )

    def jobs(self) -> Iterator[Job]:
        """Yield jobs of the traces of all calls, in the order of their last calls."""
        if self._opened is None:
            return
        self._link()
        started: set[int] = set()
        ends = self._con.execute(
            "SELECT id, file, line FROM call WHERE id NOT IN"
            " (SELECT parent FROM call WHERE same_run) ORDER BY id"
        )
        while rows := ends.fetchmany(RUNS_A_JOB):
            runs = [((file, line), self._run(end, started)) for end, file, line in rows]
            calls = (call_text for _, run in runs for call_text in (*run.members, *run.history, run.root))
            files = {
                call_text.file: self._files[call_text.file] for call_text in calls if call_text is not None
            }
            convert = partial(_joined, self._source, files, self._convert)
            yield Job(convert, [(position, msgspec.msgpack.encode(run)) for position, run in runs])

    def _run(self, end: int, started: set[int]) -> _LoggedRun:
        """Return the run that ends with this call; one that forks gives its id to one of its ends."""
        rows = [end]
        while (parent := self._parent(rows[-1])) and parent[1]:
            rows.append(parent[0])
        rows.reverse()
        links = [self._parent(row) for row in rows]
        members = [
            self._text(row, link[2] or 0 if link else 0, bool(link) and link[2] is None)  # type: ignore[index]
            for row, link in zip(rows, links, strict=True)
        ]
        is_fork = rows[0] in started
        started.add(rows[0])
        return _LoggedRun(members, self._history(links[0]), self._root(rows[0]), is_fork)

    def _history(self, link: tuple[int, bool, int | None] | None) -> list[_CallText]:
        """Return the calls before a run that names the response it continues, oldest first."""
        earlier: list[_CallText] = []
        while link is not None and link[2] is None and len(earlier) < LONGEST_HISTORY:
            row = link[0]
            earlier.append(self._text(row))
            link = self._parent(row)
        return earlier[::-1]

    def _root(self, row: int) -> _CallText | None:
        """Return the first call of a run's session, where there is another run in it."""
        root = self._con.execute("SELECT root FROM call WHERE id = ?", (row,)).fetchone()[0]
        if not self._con.execute("SELECT 1 FROM call WHERE root = ? AND turn LIMIT 1", (root,)).fetchone():
            return None
        return self._text(root)

    def _parent(self, row: int) -> tuple[int, bool, int | None] | None:
        """Return the call before this one, whether it is of the same run, and how many messages they
        share.
        """
        parent, same_run, shared = self._con.execute(
            "SELECT parent, same_run, shared FROM call WHERE id = ?", (row,)
        ).fetchone()
        return None if parent is None else (parent, bool(same_run), shared)

    def _text(self, row: int, new: int = 0, by_id: bool = False) -> _CallText:
        file, text = self._con.execute("SELECT file, record FROM call WHERE id = ?", (row,)).fetchone()
        return _CallText(file, text, new, by_id)

    def _link(self) -> None:
        """Find the call before each call."""
        con = self._con
        con.execute("CREATE INDEX by_response ON call (response_id)")
        con.execute("CREATE INDEX by_state ON call (state)")
        con.execute("CREATE INDEX by_state_and_fate ON call (state, followed)")
        con.execute("CREATE INDEX by_child ON beginning (child, length)")
        # Of responses with one id the last; a response that names itself has none before it.
        con.execute(
            "UPDATE call SET parent = before.id, shared = NULL,"
            " same_run = coalesce(after_result, before.was_open),"
            " turn = NOT coalesce(after_result, before.was_open)"
            " FROM (SELECT response_id AS named, max(id) AS id, is_open AS was_open FROM call"
            "  WHERE response_id IS NOT NULL GROUP BY response_id) AS before"
            " WHERE call.previous_id = before.named AND before.id != call.id"
        )
        beginnings_by_child = con.execute(
            "SELECT child, length, state, after_result FROM beginning ORDER BY child, length DESC"
        )
        for child, beginnings in groupby(beginnings_by_child, key=lambda row: row[0]):
            for _, length, state, after_result in beginnings:
                parent = self._nearest(child, state, bool(after_result))
                if parent is not None:
                    con.execute(
                        "UPDATE call SET parent = ?, same_run = ?, turn = ?, shared = ? WHERE id = ?",
                        (parent, bool(after_result), not after_result, length, child),
                    )
                    con.execute("UPDATE call SET followed = 1 WHERE id = ?", (parent,))
                    break
        self._find_roots()

    def _nearest(self, child: int, state: bytes, after_result: bool) -> int | None:
        """Return, of the calls that end as this one begins, the newest before it, else the first after it.

        Many conversations begin with the same words, so each is followed by one turn of a user where that can
        be. Ids of tool calls tell runs apart; what follows twice on the same call was tried again.
        """
        for followed in (0, 1):
            condition = "" if after_result else f"AND followed = {followed}"
            for nearest in ("id < ? ORDER BY id DESC", "id > ? ORDER BY id"):
                row = self._con.execute(
                    f"SELECT id FROM call WHERE state = ? {condition} AND {nearest} LIMIT 1", (state, child)
                ).fetchone()
                if row:
                    return int(row[0])
        return None

    def _find_roots(self) -> None:
        self._con.execute("CREATE INDEX by_parent ON call (parent)")
        self._con.execute(
            "WITH RECURSIVE chain(id, root) AS (SELECT id, id FROM call WHERE parent IS NULL"
            " UNION ALL SELECT call.id, chain.root FROM call JOIN chain ON call.parent = chain.id)"
            " UPDATE call SET root = chain.root FROM chain WHERE chain.id = call.id"
        )
        # Ids that name each other in a circle lead nowhere.
        self._con.execute(
            "UPDATE call SET parent = NULL, same_run = 0, turn = 0, root = id WHERE root IS NULL"
        )
        self._con.execute("CREATE INDEX by_root ON call (root) WHERE turn")

    @property
    def _con(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = sqlite3.connect(self._path, isolation_level=None)
            self._opened.executescript(
                "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;"
                "CREATE TABLE call (id INTEGER PRIMARY KEY, file INTEGER, line INTEGER, record BLOB,"
                " response_id TEXT, previous_id TEXT, state BLOB, is_open INTEGER,"
                " after_result INTEGER,"
                " parent INTEGER, same_run INTEGER DEFAULT 0, turn INTEGER DEFAULT 0, shared INTEGER,"
                " followed INTEGER DEFAULT 0,"
                " root INTEGER);"
                "CREATE TABLE beginning (child INTEGER, length INTEGER, state BLOB, after_result INTEGER);"
                "BEGIN;"
            )
        return self._opened


def _states(messages: Sequence[Message]) -> list[bytes]:
    """Return for each message a digest of the conversation up to and with it, however it is cut."""
    states = []
    state = b""
    for message in messages:
        for part in _parts(message):
            state = blake2b(state + part.encode("utf-8", "replace"), digest_size=16).digest()
        states.append(state)
    return states


def _parts(message: Message) -> Iterator[str]:
    if message.role == "system":
        return
    # A result that is no text may have its keys in another order when it is sent back.
    text = message.text.strip() if message.data is None else canonical_args({"": message.data})
    if text:
        yield f"{message.role}\n{text}"
    for call in message.tool_calls:
        yield f"call\n{call.call_id}\n{call.name}\n{canonical_args(call.args)}"
