"""What a response shows by itself, without a grader."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator

from replaydiff.replay.model import Status, Trial

LONGER, SHORTER = 1.25, 0.8
"""A response this many times as long as the item's usual one is longer, or shorter."""
_SHORTEST = 20
"""Responses of fewer characters have no length worth comparing."""
_READ = 600
"""Characters of a response in which a refusal is looked for."""
_REFUSAL = re.compile(
    r"\b(?:i|we)(?:['’]m| am|['’]re| are)? (?:sorry, but (?:i|we) )?"
    r"(?:can(?:['’]t|not| not)|unable to|not able to|won['’]t|not allowed to)"
    r" (?:be able to )?(?:help|assist|answer|provide|comply|do that|process|share|discuss)",
    re.IGNORECASE,
)


def declines(response: str) -> bool:
    """Return whether a response begins with a refusal, in English."""
    return bool(_REFUSAL.search(response[:_READ]))


def usual_length(trials: Iterable[Trial]) -> float | None:
    """Return the median length of an item's responses; None where no trial ended `ok`.

    Args:
        trials: those of all lanes, so that no lane is the measure of the other.
    """
    lengths = [len(trial.final_response or "") for trial in trials if trial.status is Status.OK]
    return statistics.median(lengths) if lengths else None


def signs(response: str, usual: float | None) -> Iterator[str]:
    """Yield what is unusual: `empty` or `refused`, then `shorter` or `longer` than the usual length."""
    if not response.strip():
        yield "empty"
    elif declines(response):
        yield "refused"
    if usual is not None and usual >= _SHORTEST:
        if len(response) <= SHORTER * usual:
            yield "shorter"
        elif len(response) >= LONGER * usual:
            yield "longer"
