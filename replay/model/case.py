"""A case's expectation, and what a person decides about an item."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from replaydiff.replay.model.json import Json, JsonObject
from replaydiff.replay.model.trace import Message, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCall:
    """A tool call that a case expects."""

    name: str
    args: JsonObject | None = None
    """Expected arguments; None where only the name counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRule:
    """How the values at one path of a call's arguments are compared: by one of these."""

    tolerance: float | None = None
    """As numbers, which may be this far apart; a text that is a number counts as one. With `relative`, too,
    both are added."""
    relative: float | None = None
    """As numbers, which may be this share of the expected one apart."""
    regex: str | None = None
    """The value made, as text, must hold this pattern (of Python); what is expected there does not count."""
    function: str | None = None
    """`module:function` or `./file.py:function`, given the expected and the made value; true where they
    agree."""

    def __post_init__(self) -> None:
        numeric = [value for value in (self.tolerance, self.relative) if value is not None]
        if bool(numeric) + (self.regex is not None) + (self.function is not None) != 1:
            raise ValueError("one of tolerance, relative, regex and function must be set")
        for value in numeric:
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ValueError(f"tolerance and relative must be numbers from 0 on, not {value!r}")
        if self.regex is not None:
            try:
                re.compile(self.regex)
            except (re.error, TypeError, RecursionError) as error:
                raise ValueError(f"regex {self.regex!r} is not a regular expression: {error}") from None
        _check_function(self.function)


NamedRule = Literal["exact", "ignore", "ignore_case", "date", "time"]
"""`exact` (equal as JSON), `ignore` (never counts), `ignore_case` (texts, at any depth), `date` (the same
calendar day, as written), `time` (the same moment; without an offset UTC)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMatch:
    """How the arguments of calls to one tool are compared."""

    args: Literal["exact", "subset", "ignore"] | None = None
    """In place of `Match.args`."""
    paths: dict[str, NamedRule | PathRule] = field(default_factory=dict)
    """Dotted path → the rule of what is there: `customer.email`, `items.0.price`, `items.*.price`."""
    function: str | None = None
    """`module:function` or `./file.py:function`, given all arguments expected and made; decides alone."""

    def __post_init__(self) -> None:
        _check_function(self.function)


def _check_function(target: object) -> None:
    if target is not None and not (isinstance(target, str) and all(target.rpartition(":"))):
        raise ValueError(f"function must be module:function or ./file.py:function, not {target!r}")


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
    tools: dict[str, str | ToolMatch] = field(default_factory=dict)
    """Per tool, `*` for every tool: an override of `args` (`{"search": "ignore"}`), or all that differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """What must hold of every trial: one table `[[assert]]`, or one entry of a case's `assert`."""

    contains: str | None = None
    """Text that the answer must contain; upper and lower case count."""
    not_contains: str | None = None
    """Text that the answer must not contain."""
    matches: str | None = None
    """A regular expression (RE2, so it always ends in time) that must be found in the answer."""
    json_schema: JsonObject | None = None
    """The answer must be JSON that meets this schema."""
    max_chars: int | None = None
    """The most characters an answer may have."""
    must_call: str | None = None
    """A tool that must be called."""
    must_not_call: str | None = None
    """A tool that must not be called."""
    max_calls: int | None = None
    """The most tool calls a trial may make."""

    def __post_init__(self) -> None:
        kinds = [name for name in ASSERTIONS if getattr(self, name) is not None]
        if len(kinds) != 1:
            raise ValueError(f"an assertion needs exactly one of {', '.join(ASSERTIONS)}")
        for name in ("max_chars", "max_calls"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or value < 0):
                raise ValueError(f"{name} must be a whole number from 0 on, not {value!r}")
        for name in ("contains", "not_contains", "matches", "must_call", "must_not_call"):
            if getattr(self, name) == "":
                raise ValueError(f"{name} must not be empty: it would hold of everything or of nothing")


ASSERTIONS = (
    "contains", "not_contains", "matches", "json_schema", "max_chars", "must_call", "must_not_call",
    "max_calls"
)  # fmt: skip
"""The kinds of assertions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The expectation of an item. Fields that are None are not compared."""

    tool_calls: tuple[ExpectedCall, ...] | None = None
    """Expected calls; an empty tuple means: no call."""
    match: Match = field(default_factory=Match)
    tools: tuple[str, ...] | None = None
    """Names of tools that must be called, order irrelevant, other calls allowed."""
    response_traits: tuple[str, ...] = ()
    """Phrases a judge compares the response with."""
    answer: str | None = None
    tolerance: str | None = None
    """`exact_match`, `numeric_close` or `semantic_similar`; how `answer` is compared."""
    fields: tuple[str, ...] = ()
    criteria: JsonObject = field(default_factory=dict)
    state: Json = None
    """What the tools' effects must come to, as the user's `[grading] end_state` works them out."""
    assertions: tuple[Assertion, ...] | None = None
    """What must hold of every trial, beside the assertions of the settings."""
    max_latency_ms: float | None = None
    max_cost_usd: float | None = None
    threshold: float | None = None
    """The share of its trials that must pass, 0 to 1; None: see `[cases] case_threshold`."""
    extra: JsonObject = field(default_factory=dict)
    """Keys of the case that no built-in reads; kept and written back unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """A case in quarantine (`metadata.quarantine`): replayed and reported, left out of figures and gates."""

    owner: str | None = None
    """Who sees to it."""
    since: str | None = None
    """A date: 2026-11-20."""
    reason: str | None = None


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
    quarantine: Quarantine | None = None
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


class Action(StrEnum):
    """The kinds of decision."""

    PROMOTE = "promote"
    DISMISS = "dismiss"
    SKIP = "skip"
    """Seen, and left for later."""
    LABEL = "label"
    """How good the new lane's answer is, by a person's own reading."""
    UNDO = "undo"
    """Takes back the newest promotion, dismissal or skip of the item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision about an item. Decisions are appended, never changed.

    `effective_decisions` returns those that count.
    """

    item_id: str
    action: Action
    at: datetime
    person: str
    """Git's user name and address, or the login name."""
    run_id: str | None = None
    reason: str | None = None
    case_id: str | None = None
    """The case it became, for a promotion."""
    label: int | None = None
    """1 (poor) to 3 (good), for a label."""


def effective_decisions(decisions: Iterable[Decision]) -> dict[str, Decision]:
    """Return the last promotion, dismissal or skip of each item by its id; an undo removes it.

    Args:
        decisions: oldest first; labels decide nothing.
    """
    effective: dict[str, Decision] = {}
    for decision in decisions:
        if decision.action is Action.UNDO:
            effective.pop(decision.item_id, None)
        elif decision.action is not Action.LABEL:
            effective[decision.item_id] = decision
    return effective
