"""The rule: an answer is right if it names what the request was written from."""

import json
from pathlib import Path

BOOKINGS = json.loads((Path(__file__).parent / "bookings.json").read_text())


def is_right(text, answer):
    """Whether a request was understood in full."""
    booking = BOOKINGS[text]
    return answer.startswith(f"{booking['name']}, ") and answer.endswith(
        f" on {booking['day']} for {booking['people']}."
    )


def right(item, trial):
    """Grade a trial by the rule."""
    return is_right(item.input, trial.final_response or "")
