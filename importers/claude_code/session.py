"""A session's lines as the turns of its user.

Lines name their parents. A prompt that was edited leaves its old branch in the file: of two prompts with one
parent the later counts. Other forks stay whole, since results of parallel tool calls hang beside each other;
and so do lines without parents, as after a compaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from replaydiff.importers.claude_code.lines import SYNTHETIC, is_command, is_interruption, message_of, prompt
from replaydiff.replay.model import JsonObject


@dataclass(slots=True)
class Answer:
    """One answer of the model; Claude Code writes its blocks on lines of their own."""

    lines: list[JsonObject] = field(default_factory=list)


@dataclass(slots=True)
class Turn:
    """What the user typed, and all that came of it."""

    asked: JsonObject | None = None
    """The user's line; None where it is not recorded (stream-json)."""
    first: JsonObject = field(default_factory=dict)
    """The first line of the turn."""
    events: list[Answer | JsonObject] = field(default_factory=list)
    """Answers, and lines with results, in order."""
    errors: list[JsonObject] = field(default_factory=list)
    """Lines that Claude Code wrote in the model's place."""
    result: JsonObject | None = None
    """The line with which stream-json ends."""
    interrupted: bool = False
    ended: JsonObject = field(default_factory=dict)
    """The last line of the turn."""

    @property
    def answers(self) -> list[Answer]:
        """The answers of the model."""
        return [event for event in self.events if isinstance(event, Answer)]

    @property
    def is_answered(self) -> bool:
        """Whether anything came of it."""
        return bool(self.answers or self.errors or self.result)


def taken_back(lines: Sequence[JsonObject]) -> list[JsonObject]:
    """The lines without those of prompts that were edited later."""
    newest: dict[str, str] = {}
    """Parent → its newest prompt."""
    for line in lines:
        parent, uuid = line.get("parentUuid"), line.get("uuid")
        if isinstance(parent, str) and isinstance(uuid, str) and prompt(line) is not None:
            newest[parent] = uuid
    gone: set[str] = set()
    kept = []
    for line in lines:
        parent, uuid = line.get("parentUuid"), line.get("uuid")
        if isinstance(parent, str) and isinstance(uuid, str):
            edited = prompt(line) is not None and newest[parent] != uuid
            if parent in gone or edited:
                gone.add(uuid)
                continue
        kept.append(line)
    return kept


def turns(lines: Sequence[JsonObject]) -> list[Turn]:
    """The turns of a session, in order; commands that Claude Code carried out by itself are none."""
    return [turn for turn in _turns(lines) if turn.is_answered or _is_asked(turn)]


def _is_asked(turn: Turn) -> bool:
    return turn.asked is not None and not is_command(turn.asked)


def _turns(lines: Sequence[JsonObject]) -> Iterator[Turn]:
    turn = Turn()
    answers: dict[str, Answer] = {}
    for line in lines:
        kind, typed = line.get("type"), prompt(line)
        if typed is not None or (kind == "system" and line.get("subtype") == "init"):
            yield turn
            turn = Turn(asked=line if typed is not None else None, first=line)
            answers = {}
        elif kind == "result":
            turn.result = line
            turn.first = turn.first or line
            turn.ended = line
            yield turn
            turn, answers = Turn(), {}
            continue
        elif kind == "assistant":
            _answer(turn, line, answers)
        elif kind == "user" and not (line.get("isMeta") or line.get("isCompactSummary")):
            turn.interrupted = turn.interrupted or is_interruption(line)
            turn.events.append(line)
        else:
            continue
        turn.first = turn.first or line
        turn.ended = line
    yield turn


def _answer(turn: Turn, line: JsonObject, answers: dict[str, Answer]) -> None:
    message = message_of(line)
    if message.get("model") == SYNTHETIC:
        turn.errors.append(line)
        return
    message_id = message.get("id")
    found = answers.get(message_id) if isinstance(message_id, str) else None
    if found is None:
        found = Answer()
        turn.events.append(found)
        if isinstance(message_id, str):
            answers[message_id] = found
    found.lines.append(line)
