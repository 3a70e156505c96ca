"""Two responses side by side: the judge says which is better, and is asked twice, in both orders.

    vote    who was better, seen from the new version: 1 (new), 0.5 (neither), 0 (old). Vote 0 saw the old
            response first, vote 1 the new one
    grade   what both votes say; where they disagree, the order decided and not the responses: a tie, 0.5

Models prefer what stands first (or last) by a margin that differs from pair to pair, so one order alone says
little. The judged text is escaped as for single grades (`diff.judge.prompt`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path

from replaydiff.diff.judge import prompt
from replaydiff.diff.judge.votes import Tally, read_answer, unreadable
from replaydiff.replay.llm.base import ModelReply
from replaydiff.replay.model import GradeState, Item, JsonObject, Trial, Vote

INSTRUCTIONS = Path(__file__).with_name("pairwise.md")
ORDERS = 2
TIE = 0.5
FIRST, SECOND = "first", "second"

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string"},
        "better": {"anyOf": [{"type": "string", "enum": [FIRST, SECOND, "tie"]}, {"type": "null"}]},
    },
    "required": ["reasoning", "better"],
    "additionalProperties": False,
}


def system_prompt(rubric: str) -> str:
    """The judge's system prompt with this rubric."""
    return _instructions().replace("{rubric}", rubric.strip())


def prompt_hash() -> str:
    """Names the wording, the answer's schema and the layout of the data; a change makes another judge."""
    return prompt.digest(json.dumps([_instructions(), SCHEMA, prompt.LAYOUT], sort_keys=True))


@functools.cache
def _instructions() -> str:
    return INSTRUCTIONS.read_text(encoding="utf-8").strip()


def document(item: Item, first: Trial, second: Trial) -> JsonObject:
    """The judged material of one pair, in this order."""
    data = prompt.document(item, first)
    other = prompt.document(item, second)
    # Of several turns, each response has a conversation of its own: the answers before it are its version's.
    shared = [key for key in ("conversation",) if data[key] == other[key]]
    own = [key for key in ("conversation", "tool_calls", "response") if key not in shared]
    return {
        **{key: data[key] for key in shared},
        FIRST: {key: data[key] for key in own},
        SECOND: {key: other[key] for key in own},
        **{key: value for key, value in data.items() if key not in (*own, *shared)},
    }


def same(item: Item, old: Trial, new: Trial) -> bool:
    """Whether a judge would see no difference."""
    return prompt.document(item, old) == prompt.document(item, new)


def read(reply: ModelReply, index: int) -> Vote:
    """The vote of an answer; what fails becomes its state."""
    answer = read_answer(reply, index, "better")
    if isinstance(answer, Vote):
        return answer
    better, reason = answer
    if better is None:
        return Vote(index=index, state=GradeState.ABSTAINED, reason=reason)
    if better not in (FIRST, SECOND, "tie"):
        return unreadable(index, reply.text)
    new = SECOND if index == 0 else FIRST
    score = TIE if better == "tie" else float(better == new)
    return Vote(index=index, state=GradeState.SCORED, score=score, reason=reason)


def tally(votes: Sequence[Vote]) -> Tally:
    """One grade of both votes, seen from the new version."""
    failed = [vote for vote in votes if vote.score is None]
    if failed or len(votes) < ORDERS:
        states = {vote.state for vote in failed}
        state = failed[0].state if len(failed) == ORDERS and len(states) == 1 else GradeState.ABSTAINED
        reason = failed[0].reason if failed else "only one order was asked"
        return Tally(state=state, score=None, passed=None, reason=reason, spread=None)
    scores = [vote.score for vote in votes if vote.score is not None]
    agreed = min(scores) == max(scores)
    reason = votes[0].reason if agreed else "the two orders disagree, so neither is better"
    score = scores[0] if agreed else TIE
    return Tally(
        state=GradeState.SCORED,
        score=score,
        passed=score >= TIE,
        reason=reason,
        spread=max(scores) - min(scores),
    )
