"""From the judge's answers to one grade.

    vote    score = points / 3 (points 1, 2 or 3); or a state: abstained (the judge gave null), refused,
            truncated (cut off, also with more room), error (no answer, or one that is not what was asked
            for), expired and cancelled (its batch ended before it was asked)
    grade   the mean of the scored votes, if they are more than half of those asked for; passes at 2 of 3,
            and at `SIMILAR` of 1 where the response is to mean what an expected answer does
            (`semantic_similar`). Else abstained; or refused, truncated, error, expired, cancelled where all
            failed votes agree on that

The spread (largest less smallest score) is the judge's own noise on this response, and is kept.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from replaydiff.diff.judge.prompt import PASS, POINTS
from replaydiff.replay.llm.base import Model, ModelFailure, ModelReply, ModelRequest, Stop
from replaydiff.replay.model import GradeState, Vote

SIMILAR = 0.8
"""The score from which a response means what it should."""
MORE_ROOM = 4
"""An answer that was cut off is asked for once more, with this many times the tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """A vote and what it cost."""

    vote: Vote
    cost_usd: float | None
    """None where the model's price is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What the votes on one response come to."""

    state: GradeState
    score: float | None
    passed: bool | None
    reason: str | None
    """Of the scored vote nearest to the mean, the lower of two; else of the first failed one."""
    spread: float | None


async def cast(
    model: Model,
    request: ModelRequest,
    index: int,
    reading: Callable[[ModelReply, int], Vote] | None = None,
) -> Cast:
    """Ask for one vote. What fails becomes the vote's state; only what concerns every call is raised.

    `reading` makes the vote of an answer; without it, points do (`read`).
    """
    try:
        reply = await model.complete(request)
        cost = reply.cost_usd
        if reply.stop is Stop.TRUNCATED:
            reply = await model.complete(replace(request, max_tokens=request.max_tokens * MORE_ROOM))
            cost = None if cost is None or reply.cost_usd is None else cost + reply.cost_usd
    except ModelFailure as failure:
        return Cast(vote=Vote(index=index, state=GradeState.ERROR, reason=str(failure)), cost_usd=0.0)
    return Cast(vote=(reading or read)(reply, index), cost_usd=cost)


def tally(votes: Sequence[Vote], asked: int, mark: float = PASS / POINTS[-1]) -> Tally:
    """Make one grade of the votes; `asked` is how many there should be, `mark` the score that passes."""
    scored = [vote for vote in votes if vote.score is not None]
    if 2 * len(scored) > asked:
        scores = [vote.score for vote in scored if vote.score is not None]
        mean = math.fsum(scores) / len(scores)
        nearest = min(scored, key=lambda vote: (abs((vote.score or 0.0) - mean), vote.score))
        return Tally(
            state=GradeState.SCORED,
            score=mean,
            passed=mean >= mark - 1e-9,
            reason=nearest.reason,
            spread=max(scores) - min(scores),
        )
    failed = [vote for vote in votes if vote.score is None]
    states = Counter(vote.state for vote in failed)
    state = next(iter(states)) if len(states) == 1 and not scored else GradeState.ABSTAINED
    reason = next((vote.reason for vote in failed if vote.reason), None)
    if len(scored) or len(votes) < asked:
        reason = f"only {len(scored)} of {asked} votes have a score" + (f": {reason}" if reason else "")
    return Tally(state=state, score=None, passed=None, reason=reason, spread=None)


def read_answer(reply: ModelReply, index: int, key: str) -> tuple[Any, str] | Vote:
    """What an answer has under `key`, and its reasoning; or the vote that it comes to without either."""
    if reply.stop is Stop.REFUSED:
        return Vote(index=index, state=GradeState.REFUSED, reason="the judge's model refused to grade this")
    if reply.stop is Stop.TRUNCATED:
        return Vote(
            index=index,
            state=GradeState.TRUNCATED,
            reason="the judge's answer was cut off, with more room too",
        )
    try:
        answer = json.loads(reply.text)
    except (ValueError, RecursionError):
        return unreadable(index, reply.text)
    if not isinstance(answer, dict) or not isinstance(answer.get("reasoning"), str) or key not in answer:
        return unreadable(index, reply.text)
    return answer[key], " ".join(answer["reasoning"].split())


def read(reply: ModelReply, index: int) -> Vote:
    """The vote of an answer that gives points; what fails becomes its state."""
    answer = read_answer(reply, index, "score")
    if isinstance(answer, Vote):
        return answer
    points, reason = answer
    if points is None:
        return Vote(index=index, state=GradeState.ABSTAINED, reason=reason)
    if isinstance(points, bool) or points not in POINTS:
        return unreadable(index, reply.text)
    return Vote(index=index, state=GradeState.SCORED, score=points / POINTS[-1], reason=reason)


def unreadable(index: int, text: str) -> Vote:
    """The vote of an answer that is not what was asked for."""
    shown = " ".join(text.split())
    shown = shown if len(shown) <= 120 else shown[:119] + "…"
    reason = f"the judge's answer is not what was asked for: {shown or 'it is empty'}"
    return Vote(index=index, state=GradeState.ERROR, reason=reason)
