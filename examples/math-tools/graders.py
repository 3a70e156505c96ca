"""A grader of one's own, named in replay.toml: replay calls it with each case and trial that ended well."""

from __future__ import annotations

from replaydiff.replay.model import Item, Trial


def correctness(item: Item, trial: Trial) -> tuple[bool, str | None] | None:
    """Whether the result is the answer to five places; an error text never is."""
    if item.expectation is None or item.expectation.answer is None:
        return None
    answer = float(item.expectation.answer)
    try:
        prediction = float(trial.final_response or "")
    except ValueError:
        return False, f"no number: {trial.final_response}"
    right = abs(prediction - answer) < 1e-5
    return right, None if right else f"{prediction} is not {answer}"
