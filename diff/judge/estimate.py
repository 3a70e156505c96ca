"""What questions to a judge will cost, before they are asked: by their length, and that of an answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replaydiff.diff.judge import work
from replaydiff.diff.judge.judge import Judge
from replaydiff.diff.stored import JUDGE, PAIRWISE
from replaydiff.replay.llm.base import ModelRequest
from replaydiff.replay.model import Message, Usage
from replaydiff.replay.store.runs import get_run

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BYTES_A_TOKEN = 4
"""Of a usual text …"""
FEWEST_BYTES_A_TOKEN = 2.5
"""… and of one that is dear."""
USUAL_ANSWER = 120
"""Tokens of a score with a sentence or two of reasoning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What grading a run is about to take."""

    votes: int
    """Questions to ask."""
    cost_usd: float | None
    """About what they cost; None where the price of the model is not known."""


def estimate(con: DuckDBPyConnection, run_id: str, judge: Judge) -> Estimate:
    """What it takes to grade a run completely, votes that are known left out."""
    asked = work.questions(con, get_run(con, run_id), judge, work.known_votes(con, judge))
    votes, cost = 0, judge.price(Usage())
    for question in asked:
        votes += 1
        one = _price(judge, question.request, BYTES_A_TOKEN, USUAL_ANSWER)
        cost = None if cost is None or one is None else cost + one
    return Estimate(votes=votes, cost_usd=cost)


def spent(con: DuckDBPyConnection, run_id: str) -> float:
    """US dollars that the judge's grades of a run have cost, as far as it is known."""
    (found,) = con.execute(
        "SELECT coalesce(sum(cost_usd), 0) FROM grades WHERE run_id = ? AND list_contains(?, grader)",
        [run_id, [JUDGE, PAIRWISE]],
    ).fetchall()[0]
    return float(found)


def about(judge: Judge, requests: Iterable[ModelRequest]) -> float | None:
    """About what these questions cost; None where the price of the model is not known."""
    costs = [_price(judge, one, BYTES_A_TOKEN, USUAL_ANSWER) for one in requests]
    return sum(cost for cost in costs if cost is not None) if None not in costs else None


def at_most(judge: Judge, request: ModelRequest) -> float | None:
    """What a question costs if its text is dear and its answer as long as it may be at the first try."""
    return _price(judge, request, FEWEST_BYTES_A_TOKEN, request.max_tokens)


def size_of(request: ModelRequest) -> int:
    """Bytes of a question's texts."""
    texts = [request.system, *(turn.text for turn in request.messages if isinstance(turn, Message))]
    return len(json.dumps(request.schema)) + sum(len(text.encode("utf-8", "replace")) for text in texts)


def _price(judge: Judge, request: ModelRequest, bytes_a_token: float, answer: int) -> float | None:
    return judge.price(Usage(input_tokens=int(size_of(request) / bytes_a_token) + 1, output_tokens=answer))
