"""What is replayed: samples, and the items drawn from them or from a golden set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from replaydiff.replay.model.case import Expectation, Quarantine
from replaydiff.replay.model.json import JsonObject
from replaydiff.replay.model.lane import Lane
from replaydiff.replay.model.trace import Message, ToolCall
from replaydiff.replay.model.trial import ServedCall


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """A sample as the store keeps it: the same fields over the same traces draw the same items."""

    name: str
    created_at: datetime
    month: str | None
    """`YYYY-MM`, with its time zone where that is not UTC; None for all months."""
    where: str | None
    """The condition on traces, as the person typed it."""
    by: tuple[str, ...]
    """Fields whose values make a stratum: `tool_path`, `model`, `metadata.plan` …"""
    size: int
    """How many items were asked for; the population may have had fewer."""
    seed: int
    population: int
    """How many traces fitted month and condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleItem:
    """One drawn trace or conversation. The weights of a sample add up to its population."""

    sample: str
    trace_id: str
    """Of the trace; of the first trace of a conversation."""
    turns: tuple[str, ...] = ()
    """The ids of the later traces of a conversation, in order."""
    position: int
    """Order of the draw from 0: the first n positions are the sample of size n."""
    stratum: str
    weight: float
    """How many traces, or conversations, of the population this one represents."""


CONTENT_ID = "sha256:"
"""How the id of a case begins that has none of its own."""
_LABEL = 48
"""Characters of an input that name a case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One input to replay, with its tape and its expectation.

    A run keeps a copy of its items, so a later import or an edited golden set does not change it.
    """

    id: str
    """The trace id for a sampled trace, the case id for a case."""
    input: str = ""
    messages: tuple[Message, ...] = ()
    """The conversation up to and with the last user turn; empty where only the text is known."""
    tape: tuple[ToolCall, ...] = ()
    """Recorded calls with their results; answers to tool calls come from here."""
    model: str | None = None
    """The model that production used; None where it was not recorded."""
    started_at: datetime | None = None
    """When production ran it; None for a case."""
    recorded_response: str | None = None
    """What production answered; None for a case without it."""
    expectation: Expectation | None = None
    """What the case expects; None for a sampled trace, which is compared with its recording."""
    trace_id: str | None = None
    case_id: str | None = None
    quarantine: Quarantine | None = None
    """Of a case: reported, and in no figure and no gate; None for every other."""
    session_id: str | None = None
    """Items of one session are one cluster in the statistics."""
    user_id: str | None = None
    """Likewise items of one user, where no session is known."""
    stratum: str = "-"
    weight: float = 1.0
    has_repeat: bool = True
    """Whether the A/A lane of a run, if it has one, replays this item, too."""
    environment: str | None = None
    """Where production ran it; None for a case, and where it was not recorded. Likewise `release`."""
    release: str | None = None
    tags: tuple[str, ...] = ()
    category: str | None = None
    difficulty: str | None = None
    before: tuple[ServedCall, ...] = ()
    """Calls that the same trial made at earlier turns of the user; never stored."""
    conversation: str = ""
    """While a trial of several turns is replayed: what its turns, which share a folder, have in common."""
    metadata: JsonObject = field(default_factory=dict)

    def lanes(self, lanes: Iterable[Lane]) -> list[Lane]:
        """Return those of a run's lanes that replay this item."""
        return [lane for lane in lanes if lane != Lane.OLD2 or self.has_repeat]

    @property
    def excerpt(self) -> str:
        """Return what the user said: of a conversation the first turn, and then the last."""
        texts = [message.text for message in self.messages if message.role == "user" and message.text.strip()]
        return self.input if len(texts) < 2 else f"{texts[0].strip()} … {self.input}"

    @property
    def has_id(self) -> bool:
        """Return whether a person chose its id; a case without one has a hash of its content."""
        return not self.id.startswith(CONTENT_ID)

    @property
    def label(self) -> str:
        """Return the id, or for a case without an id of its own the first words of its input, in quotes."""
        words = " ".join(self.input[: 8 * _LABEL].split())
        if self.has_id or not words:
            return self.id
        return f'"{words if len(words) <= _LABEL else words[: _LABEL - 1].rstrip() + "…"}"'
