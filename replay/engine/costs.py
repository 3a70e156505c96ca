"""What a trial cost."""

from __future__ import annotations

from collections.abc import Mapping

from replaydiff.replay.agents import Outcome
from replaydiff.replay.llm import prices
from replaydiff.replay.model import Version
from replaydiff.replay.settings import Price


def cost_of(version: Version, outcome: Outcome, own: Mapping[str, Price]) -> float | None:
    """What the agent says it cost, else what its tokens cost with the model it was told to use; US dollars.

    `own` are the user's prices, before the built-in table's. None where neither is known.
    """
    if outcome.cost_usd is not None or outcome.usage is None or version.model is None:
        return outcome.cost_usd
    return prices.cost(version.model, outcome.usage, own)
