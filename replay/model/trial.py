"""One replay of one item in one lane: its trial, its grades and its requests to a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from replaydiff.replay.model.json import Json, JsonObject
from replaydiff.replay.model.lane import Lane
from replaydiff.replay.model.light import light_dataclass
from replaydiff.replay.model.trace import Score, ToolCall, Usage, Witness


class Status(StrEnum):
    """How a trial ended. Failure is data."""

    OK = "ok"
    DIVERGED = "diverged"
    """Stopped at a tool call that the tape could not answer."""
    AGENT_ERROR = "agent_error"
    """The agent raised, or returned something that is no answer."""
    INFRA_ERROR = "infra_error"
    """429, 5xx or the network, after retries: not the agent's doing."""
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    """The worker process died."""
    CANCELLED = "cancelled"
    """Not finished: interrupted, or its block was left out. Never scored."""

    @property
    def is_error(self) -> bool:
        """Return True for the third state: neither a pass nor a fail of the agent's answer."""
        return self not in (Status.OK, Status.DIVERGED)


class Rule(StrEnum):
    """How a tool call was answered during a replay."""

    TAPE = "tape"
    CORPUS = "corpus"
    SIMULATED = "simulated"
    LIVE = "live"
    MISS = "miss"


class MissReason(StrEnum):
    """Why the tape had no answer for a call."""

    NEVER_RECORDED = "never_recorded"
    """No recorded call has its name and arguments."""
    STALE = "stale"
    """It was recorded, but in another state: writes that concern it lie between."""
    USED_UP = "used_up"
    """A write, or a read of what changes by itself, was asked for more often than it was recorded."""
    UNANSWERED = "unanswered"
    """It was recorded without a result or an error."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ServedCall:
    """A tool call of a replay, and how it was answered."""

    call: ToolCall
    rule: Rule
    from_trace_id: str | None = None
    """The trace whose recording answered."""
    note: str | None = None
    """For a miss: why, and the nearest recorded call. For `corpus`: how many recordings agree."""
    miss: MissReason | None = None
    """Why the tape had no answer, whatever rule answered in its place; None where it answered.

    Per lane, count by `rule`; of the calls with `rule = miss`, those with `miss = stale` were recorded in
    another state, and those with `miss = never_recorded` never."""

    @property
    def explanation(self) -> str | None:
        """Return why nothing answered, or which other trace did and why; None where the note says nothing."""
        if self.rule is Rule.CORPUS and self.from_trace_id is not None:
            return f"trace {self.from_trace_id}: {self.note or 'the same call'}"
        return self.note

    @property
    def is_exact(self) -> bool:
        """Return whether the item's own tape answered, with a result that is known to be this call's."""
        return self.rule is Rule.TAPE and self.call.witness != Witness.NAME


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a trial did at one of the user's turns."""

    number: int
    """The turn's place among all turns of the user, from 1."""
    calls: int
    """How many of the trial's tool calls were made at it."""
    response: str | None = None
    user: str | None = None
    """What the simulated user wrote; None where it was the recorded turn."""
    misfit: str | None = None
    """Why the user's next recorded turn does not fit the response, so that the trial ends here; else None."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Something that a trial tried and its boundary kept from happening."""

    what: str
    """`api.stripe.com:443`, the path of a file, `a Unix socket`, `a server of its own`, or `a write by …`."""
    at: str | None = None
    """The line of the agent's code that led to it: `app/pay.py:31`; None where that is not known."""
    in_tool: bool = False
    """A tool that may run (`live`) tried it."""

    def __str__(self) -> str:
        return f"blocked: {self.what}" + (f", {self.at}" if self.at else "")


@light_dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file that a trial wrote, changed or deleted in its own folder."""

    path: str
    """Relative to the version's folder; below `/tmp` for a temporary file."""
    size: int | None = None
    """Bytes; None where it was deleted."""
    sha256: str | None = None
    """Of its content; None where it was deleted, is a folder or pipe, or has more than 1 GiB."""
    has_content: bool = False
    """Its content is in `.replay/files`, under the hash."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A trial, identified by run, item, lane and index."""

    run_id: str
    item_id: str
    lane: Lane
    index: int
    """From 0; never paired with the same index of another lane."""
    status: Status
    reason: str | None = None
    """Why it did not end `ok`, in one sentence."""
    final_response: str | None = None
    served: tuple[ServedCall, ...] = ()
    """The tool calls in the order they were made."""
    usage: Usage | None = None
    cost_usd: float | None = None
    latency_ms: float | None = None
    started_at: datetime | None = None
    attempts: int = 1
    """How often it was tried; more than one after infrastructure errors."""
    scores: dict[str, Score] = field(default_factory=dict)
    """Scores that came with the trace of an observed trial; empty for a replayed one."""
    stderr: str | None = None
    """The tail of what the agent printed during a trial that failed."""
    turns: tuple[Turn, ...] = ()
    """Where several turns of the user were replayed, what was done at each; else empty."""
    blocked: tuple[Blocked, ...] = ()
    """What its boundary kept from happening."""
    files: tuple[WrittenFile, ...] = ()
    """What it wrote in its own folder."""

    @property
    def simulated_turns(self) -> tuple[int, ...]:
        """Return the numbers of the turns at which the user was simulated."""
        return tuple(turn.number for turn in self.turns if turn.user is not None)

    @property
    def misfit(self) -> str | None:
        """Return why a recorded turn of the user no longer fitted, with the turn; None where all did."""
        last = self.turns[-1] if self.turns else None
        return None if last is None or last.misfit is None else f"after turn {last.number}: {last.misfit}"

    @property
    def fidelity(self) -> float | None:
        """Share of its calls answered from the item's own tape by an exact match; None without calls.

        A simulated turn of the user counts as a call that the tape did not answer.
        """
        count = len(self.served) + len(self.simulated_turns)
        return sum(served.is_exact for served in self.served) / count if count else None


class GradeState(StrEnum):
    """Whether there is a score, and if not, why."""

    SCORED = "scored"
    ABSTAINED = "abstained"
    """The grader could not decide."""
    REFUSED = "refused"
    """The judge's model refused."""
    TRUNCATED = "truncated"
    """The judge's answer was cut off."""
    ERROR = "error"
    """The grader failed."""
    EXPIRED = "expired"
    """The judge's batch ended before this was asked."""
    CANCELLED = "cancelled"
    """The judge's batch was cancelled before this was asked."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One answer of the judge."""

    index: int
    state: GradeState
    score: float | None = None
    """0..1; None unless scored."""
    reason: str | None = None


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """A grade, identified by run, item, lane, trial, grader and grader version."""

    run_id: str
    item_id: str
    lane: Lane
    trial: int
    grader: str
    grader_version: str
    state: GradeState
    score: float | None = None
    """0..1; None unless scored."""
    passed: bool | None = None
    reason: str | None = None
    detail: JsonObject = field(default_factory=dict)
    votes: tuple[Vote, ...] = ()
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeId:
    """What a judge's grades and its calibration are bound to."""

    model: str
    prompt_hash: str
    rubric_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """A request to a model, identified by its trial and its index within it.

    Headers, and so keys, are no part of it.
    """

    run_id: str
    item_id: str
    lane: Lane
    trial: int
    index: int
    """From 0, in the order in which the agent asked."""
    api: str
    """`anthropic` or `openai`: whose base URL the agent used."""
    path: str
    """Below the base URL, without its query: `/v1/messages`."""
    request_hash: str
    """Of method, path and body: what is the same request."""
    request: Json
    """The body; text where it is not JSON."""
    status: int | None = None
    """HTTP status; None where no answer came."""
    content_type: str | None = None
    response: str | None = None
    """The body as the agent got it, a stream included; None where it is not whole."""
    error: str | None = None
    """Why there is no whole answer."""
    model: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    """The tools that the model asked for, with their results where a later request contains them."""
    usage: Usage | None = None
    cost_usd: float | None = None
    """By the price table; None where tokens or price are not known."""
    latency_ms: float | None = None
    """From the request to the end of the answer."""
    started_at: datetime
