"""What turns of a dialogue do, and whether the user's next one fits another answer."""

from __future__ import annotations

import pytest

from replaydiff.replay.dialogue import CONFIRM, UserAct, misfit, requested_slots, user_act


@pytest.mark.parametrize(
    ("answer", "asks_for"),
    [
        ("Could you please provide your order number and email?", {"an id", "an email address"}),
        ("I can cancel it. Would you like me to proceed?", {CONFIRM}),
        ("Please confirm (yes/no).", {CONFIRM}),
        ("What colour?", {"something else"}),
        ("It is done. Is there anything else I can help you with?", set()),
        ("It ships tomorrow. Let me know if you need anything else!", set()),
        ("您的订单号是多少？", {"something else"}),
        ("", set()),
    ],
)
def test_what_an_answer_asks_for(answer: str, asks_for: set[str]) -> None:
    assert requested_slots(answer) == asks_for


@pytest.mark.parametrize(
    ("text", "act", "values"),
    [
        ("Yes, please.", UserAct.CONFIRMS, set()),
        ("No, keep it", UserAct.DECLINES, set()),
        ("It is #W123, ada@example.org", UserAct.GIVES, {"w123", "ada@example.org"}),
        ("Thank you, that's all!", UserAct.CLOSES, set()),
        ("Where is it?", UserAct.ASKS, set()),
        ("I want to return a lamp", UserAct.STATES, set()),
    ],
)
def test_what_a_users_turn_does(text: str, act: UserAct, values: set[str]) -> None:
    assert user_act(text).act is act
    assert user_act(text).values == values


@pytest.mark.parametrize(
    ("recorded", "answer", "user", "why"),
    [
        ("Shall I cancel it?", "Do you want me to cancel it?", "Yes", None),
        ("Shall I cancel it?", "I have cancelled it.", "Yes", "answers a question that was not asked"),
        ("Your order number?", "It has been shipped.", "W123", "answers a question that was not asked"),
        ("Shall I cancel it?", "I have cancelled it.", "And where is my lamp?", None),
        ("It is cancelled.", "Shall I cancel it?", "Thanks, bye!", "does not answer the question"),
        ("It is cancelled.", "Done.", "Thanks, bye!", None),
        ("It is open.", "Which email address do you use?", "Please cancel it then", None),
    ],
)
def test_a_recorded_turn_fits_an_answer_or_the_reason_is_named(
    recorded: str, answer: str, user: str, why: str | None
) -> None:
    found = misfit(recorded, answer, user)
    assert found is None if why is None else why in (found or "")
