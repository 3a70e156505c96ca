"""What the model gateway saw of a trial, added to its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from replaydiff.replay.agents.base import Outcome
from replaydiff.replay.model import ModelCall, Rule, ServedCall, Status, total_usage

if TYPE_CHECKING:
    from replaydiff.replay.gateway.recording import Line


def with_recording(outcome: Outcome, line: Line, *, take_calls: bool) -> Outcome:
    """Return the outcome of a trial with what the agent did not report itself, from its requests to models.

    Args:
        outcome: as the agent's adapter saw it.
        line: the trial's requests; they end here.
        take_calls: the agent's tools run by themselves, so its calls are those that its model asked for.
    """
    calls = line.end()
    if line.unrecorded is not None:
        outcome = replace(outcome, status=Status.AGENT_ERROR, reason=line.unrecorded, final_response=None)
    if not calls:
        return outcome
    if outcome.cost_usd is None:
        outcome = replace(outcome, cost_usd=sum_of_costs(calls))
    if outcome.usage is None:
        outcome = replace(outcome, usage=total_usage(call.usage for call in calls))
    if take_calls and not outcome.served:
        tool_calls = [call for model_call in calls for call in model_call.tool_calls]
        numbered = (replace(call, index=index) for index, call in enumerate(tool_calls))
        served = tuple(ServedCall(call=call, rule=Rule.LIVE) for call in numbered)
        outcome = replace(outcome, served=served)
    return replace(outcome, model_calls=calls) if line.keeps else outcome


def sum_of_costs(calls: Sequence[ModelCall]) -> float | None:
    """Sum costs; None where one of them is not known: part of a cost would look like all of it."""
    costs = [call.cost_usd for call in calls]
    return None if None in costs else sum(cost for cost in costs if cost)
