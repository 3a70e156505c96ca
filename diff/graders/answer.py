"""Grade whether a response equals or contains the expected answer.

`exact_match`    the response equals the answer; letter case, outer punctuation and runs of white space do not
                 count
`numeric_close`  a number of the response lies within 1 % of the expected one (of 0: within 0.01); `1,234.50`,
                 `$1234.5` and `12 %` are read as numbers

Without `tolerance`, an answer that is a number is compared as a number, any other exactly.
`semantic_similar` needs a model and is the judge's.
"""

from __future__ import annotations

import re

from replaydiff.diff.graders.base import Grader, clipped, scored
from replaydiff.replay.model import Grade, Item, Status, Trial
from replaydiff.replay.settings import Settings

NAME, VERSION = "answer", "1"
RELATIVE = 0.01
"""`numeric_close` allows this share of the expected value, and this much absolutely where that is 0."""

_NUMBER = re.compile(r"[-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?|[-+−]?\.\d+")
_OUTER = " \t\r\n.,;:!?\"'`()[]*"


def applies(item: Item, settings: Settings) -> bool:  # noqa: ARG001
    """Return whether a case has an answer that can be compared without a model."""
    expectation = item.expectation
    return (
        expectation is not None
        and expectation.answer is not None
        and expectation.tolerance != "semantic_similar"
        and not (expectation.tolerance == "numeric_close" and not numbers(expectation.answer))
    )


def grade(item: Item, trial: Trial, settings: Settings) -> Grade | None:  # noqa: ARG001
    """Compare the response of a finished trial with the expected answer."""
    if trial.status is not Status.OK or item.expectation is None or item.expectation.answer is None:
        return None
    expected, response = item.expectation.answer, trial.final_response or ""
    as_number = item.expectation.tolerance == "numeric_close" or (
        item.expectation.tolerance is None and _NUMBER.fullmatch(expected.strip()) is not None
    )
    if as_number:
        target = numbers(expected)[0]
        passed = any(close(number, target) for number in numbers(response))
    else:
        passed = _plain(response) == _plain(expected)
    reason = None if passed else f"expected the answer {expected!r}, got {clipped(response)!r}"
    return scored(trial, NAME, VERSION, float(passed), reason=reason)


def numbers(text: str) -> list[float]:
    """Return the numbers in a text, in order."""
    return [float(match.replace(",", "").replace("−", "-")) for match in _NUMBER.findall(text)]


def close(number: float, target: float) -> bool:
    """Return whether a number is within 1 % of the target, or within 0.01 of a target of 0."""
    return abs(number - target) <= RELATIVE * (abs(target) or 1.0) * (1 + 1e-12)


def _plain(text: str) -> str:
    return " ".join(text.split()).strip(_OUTER).casefold()


GRADER = Grader(name=NAME, version=VERSION, applies=applies, grade=grade)
