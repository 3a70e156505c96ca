"""An item in a list is known by what the user said."""

from __future__ import annotations

from replaydiff.replay.model import Item, Message


def said(*texts: str) -> tuple[Message, ...]:
    return tuple(Message(role="user", text=text) for text in texts)


def test_a_conversation_is_known_by_its_first_and_its_last_turn() -> None:
    assert Item(id="a", input="Thanks!", messages=said("My parcel is broken ", "Thanks!")).excerpt == (
        "My parcel is broken … Thanks!"
    )
    assert Item(id="a", input="Thanks!", messages=said("Thanks!")).excerpt == "Thanks!"
    assert Item(id="a", input="Thanks!").excerpt == "Thanks!"
