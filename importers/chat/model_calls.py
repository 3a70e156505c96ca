"""Logs with one call of a model a record: the calls of one run of an agent are joined to one trace.

A request carries the whole conversation so far, or (Responses API) names the response it goes on from. So a
call whose request begins with all that another call was asked and answered comes after that one:

| what the later call adds | it is |
|---|---|
| results of tools | the same run, going on |
| a message of the user | the next turn of the same session, a run of its own |
| not known (a stored response has no input) | the same run, where the earlier one ended on a call of a tool |

System prompts are not compared: many hold the time of day. Calls that follow each other may stand anywhere
in the files, so all of them wait on disk until the last record was read, and memory does not depend on their
number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import groupby

import msgspec

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Note
from replaydiff.importers.call_notes import ORPHANS, has_orphan
from replaydiff.importers.convert import guarded, temporary_database
from replaydiff.importers.reading import Record
from replaydiff.replay.messages import canonical_args, final_response, join_results, parse, step_output
from replaydiff.replay.model import Json, Message, Step, StepKind, Trace, total_usage

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
    return Step(
        index=index,
        kind=StepKind.LLM,
        name=trace.model or "model call",
        messages=trace.messages[: call.request_length],
        output=step_output(call.produced),
        model=trace.model,
        usage=trace.usage,
        started_at=trace.started_at,
        ended_at=trace.ended_at,
        error=trace.error,
        source_span_id=trace.trace_id,
    )


class CallSpool:
    """Model calls that wait until all of them were read; `close` it."""

    def __init__(self, source: str, files: Sequence[InputFile], convert: Convert) -> None:
        self._source, self._files, self._convert = source, files, convert
        self._con = temporary_database()
        self._con.executescript(
            "CREATE TABLE call (id INTEGER PRIMARY KEY, file INTEGER, line INTEGER, record BLOB,"
            " response_id TEXT, previous_id TEXT, state BLOB, is_open INTEGER,"
            " after_result INTEGER,"
            " parent INTEGER, same_run INTEGER DEFAULT 0, turn INTEGER DEFAULT 0, shared INTEGER,"
            " followed INTEGER DEFAULT 0,"
            " root INTEGER);"
            "CREATE TABLE beginning (child INTEGER, length INTEGER, state BLOB, after_result INTEGER);"
            "BEGIN;"
        )
        self._started: set[int] = set()
        """First calls of the runs so far."""

    def close(self) -> None:
        """Let go of the calls."""
        self._con.close()

    def add(self, call: LoggedCall, record: Record, file: int) -> None:
        """Keep a call that was made of this record until `traces`; the number is its file's."""
        messages = call.trace.messages
        states = _states(messages)
        added = self._con.execute(
            "INSERT INTO call (file, line, record, response_id, previous_id, state, is_open, after_result)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                file,
                record.line,
                msgspec.json.encode(record.value),
                call.response_id,
                call.previous_id,
                states[-1] if call.request_length and call.produced else None,
                call.is_open,
                call.begins_with_result_at(0),
            ),
        )
        # Each earlier state that it may go on from, and how it goes on there.
        self._con.executemany(
            "INSERT INTO beginning VALUES (?, ?, ?, ?)",
            [
                (added.lastrowid, length, states[length - 1], call.begins_with_result_at(length))
                for length in range(1, call.request_length)
                if messages[length - 1].role == "assistant" and call.previous_id is None
            ],
        )

    def traces(self) -> Iterator[Imported]:
        """Yield the traces of all calls with their notes, in the order of their last calls."""
        self._link()
        ends = self._con.execute(
            "SELECT id, file, line, record FROM call WHERE id NOT IN"
            " (SELECT parent FROM call WHERE same_run) ORDER BY id"
        )
        for end, file, line, text in ends:
            last = Record(line, parse(text))
            yield from guarded(self._source, self._files[file], last, partial(self._run, end))

    def _run(self, end: int, _value: Json, _file: InputFile) -> Iterator[Imported]:
        """Yield the run that ends with this call; one that forks gives its id to one of its ends."""
        rows = [end]
        while (parent := self._parent(rows[-1])) and parent[1]:
            rows.append(parent[0])
        rows.reverse()
        links = [self._parent(row) for row in rows]
        is_fork = rows[0] in self._started
        self._started.add(rows[0])
        members = [
            _Member(self._call(row), link[2] or 0 if link else 0, bool(link) and link[2] is None)  # type: ignore[index]
            for row, link in zip(rows, links, strict=True)
        ]
        history = tuple(
            message for row in self._history(links[0]) for message in self._call(row).trace.messages
        )
        trace = _run(members, history)
        if is_fork:
            trace = replace(trace, trace_id=members[-1].call.trace.trace_id)
        if trace.session_id is None and (root := self._root(rows[0])) is not None:
            first = self._call(root).trace
            trace = replace(trace, session_id=first.session_id or first.trace_id)
        for text in dict.fromkeys(text for member in members for text in member.call.notes):
            yield Note(text)
        if has_orphan(trace):
            yield Note(ORPHANS)
        yield trace

    def _call(self, row: int) -> LoggedCall:
        file, text = self._con.execute("SELECT file, record FROM call WHERE id = ?", (row,)).fetchone()
        items = self._convert(parse(text), self._files[file])
        return next(item for item in items if isinstance(item, LoggedCall))

    def _history(self, link: tuple[int, bool, int | None] | None) -> list[int]:
        """Return the calls before a run that names the response it continues, oldest first."""
        earlier: list[int] = []
        while link is not None and link[2] is None and len(earlier) < LONGEST_HISTORY:
            earlier.append(link[0])
            link = self._parent(link[0])
        return earlier[::-1]

    def _root(self, row: int) -> int | None:
        """Return the first call of a run's session, where there is another run in it."""
        root = self._con.execute("SELECT root FROM call WHERE id = ?", (row,)).fetchone()[0]
        has_turns = self._con.execute(
            "SELECT 1 FROM call WHERE root = ? AND turn LIMIT 1", (root,)
        ).fetchone()
        return int(root) if has_turns else None

    def _parent(self, row: int) -> tuple[int, bool, int | None] | None:
        """Return the call before this one, whether it is of the same run, and how many messages they
        share.
        """
        parent, same_run, shared = self._con.execute(
            "SELECT parent, same_run, shared FROM call WHERE id = ?", (row,)
        ).fetchone()
        return None if parent is None else (parent, bool(same_run), shared)

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
