"""A case: an expectation under version control."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from replay.model.json import Json, JsonObject
from replay.model.trace import Message, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCall:
    """A tool call that a case expects."""

    name: str
    args: JsonObject | None = None
    """Expected arguments; None where only the name counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """How actual calls are compared with expected ones."""

    mode: str = "strict"
    """`strict` (same calls, same order), `in_order` (expected calls in order, others between),
    `unordered` (same calls, any order), `subset` (actual calls are all expected ones), `superset`
    (every expected call was made, others allowed)."""
    args: str = "subset"
    """`exact` (equal objects), `subset` (only the expected keys count), `ignore` (names alone)."""
    only_tools: tuple[str, ...] = ()
    """Where not empty, calls to other tools are left out before comparing."""
    ignore_tools: tuple[str, ...] = ()
    """Calls to these tools are left out before comparing."""
    ignore_args: tuple[str, ...] = ()
    """Arguments that never count."""
    tools: dict[str, str] = field(default_factory=dict)
    """Per-tool override of `args`: `{"search": "ignore"}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What an item's answer is held against. A field that is None is not expected."""

    tool_calls: tuple[ExpectedCall, ...] | None = None
    """Expected calls; an empty tuple means: no call."""
    match: Match = field(default_factory=Match)
    tools: tuple[str, ...] | None = None
    """Names of tools that must be called, order irrelevant, other calls allowed."""
    response_traits: tuple[str, ...] = ()
    """Phrases a judge holds the response against."""
    answer: str | None = None
    tolerance: str | None = None
    """`exact_match`, `numeric_close` or `semantic_similar`; how `answer` is compared."""
    fields: tuple[str, ...] = ()
    criteria: JsonObject = field(default_factory=dict)
    max_latency_ms: float | None = None
    extra: JsonObject = field(default_factory=dict)
    """Keys of the case that no built-in reads; kept and written back unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a case came from. It never counts in the content id."""

    source: str | None = None
    trace_id: str | None = None
    sample: str | None = None
    run: str | None = None
    old: Json = None
    """Fingerprint of the old version of the run it was promoted from."""
    new: Json = None
    reviewer: str | None = None
    promoted_at: datetime | None = None
    last_reviewed: str | None = None
    owner: str | None = None
    extra: JsonObject = field(default_factory=dict)
    """Other metadata of the case, kept and written back unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One line of a golden set."""

    id: str
    input: str = ""
    messages: tuple[Message, ...] = ()
    expectation: Expectation = field(default_factory=Expectation)
    tape: tuple[ToolCall, ...] = ()
    tags: tuple[str, ...] = ()
    category: str | None = None
    difficulty: str | None = None
    provenance: Provenance = field(default_factory=Provenance)
