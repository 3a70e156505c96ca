"""The error of a simulated user is measured against the turns that real users wrote."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from replaydiff.replay.engine.user_error import UserError, measure_user
from replaydiff.replay.event_loop import run_sync
from replaydiff.replay.model import Item, Message

TEXTS = ("I want to cancel an order", "It is W{0}", "Yes, please", "Thanks!")


def talk(number: int) -> Item:
    messages = []
    for text in TEXTS:
        messages += [
            Message(role="user", text=text.format(100 + number)),
            Message(role="assistant", text="Mhm."),
        ]
    return Item(
        id=str(number), messages=tuple(messages[:-1]), recorded_response="Bye.", metadata={"first_turn": 1}
    )


class PlantedUser:
    """Writes what the real user did, in other words, and something else at a planted rate."""

    def __init__(self, rate: float, seed: int = 7) -> None:
        self._rate, self._chance = rate, random.Random(seed)
        self.seen: list[tuple[str, ...]] = []

    async def reply(self, item: Item, conversation: Sequence[Message]) -> str | None:
        self.seen.append(tuple(message.text for message in item.messages if message.role == "user"))
        number = sum(message.role == "user" for message in conversation)
        if self._chance.random() < self._rate:
            return "And what about my other order?"
        words = ("", f"the number is w{100 + int(item.id)}.", "sure, go ahead", None)
        return words[number]


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3])
def test_planted_errors_are_within_the_measured_interval(rate: float) -> None:
    user = PlantedUser(rate)
    error = run_sync(measure_user([talk(number) for number in range(60)], user, "stand-in"))
    assert error is not None
    assert (error.turns, error.conversations) == (180, 60)
    low, high = error.interval
    assert low <= rate <= high
    assert high - low < 0.2
    assert user.seen[0] == ("I want to cancel an order", "Yes, please", "Thanks!"), (
        "the turn itself is left out"
    )
    assert UserError.from_json(error.to_json()) == error


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3])
def test_the_interval_holds_the_planted_error_in_nearly_every_draw(rate: float) -> None:
    talks, errors = [talk(number) for number in range(60)], []
    for seed in range(20):
        error = run_sync(measure_user(talks, PlantedUser(rate, seed), "stand-in"))
        assert error is not None
        errors.append(error)
    assert sum(error.interval[0] <= rate <= error.interval[1] for error in errors) >= 18


def test_without_a_second_turn_there_is_nothing_to_measure() -> None:
    alone = Item(id="a", messages=(Message(role="user", text="hello"),))
    assert run_sync(measure_user([alone], PlantedUser(0), "stand-in")) is None
