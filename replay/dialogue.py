"""Dialogue acts by rule: what an agent's answer asks for, and what a user's turn does.

An *act* with its *slots* is what a turn does, whatever its words: it asks for an order number, confirms,
gives an email address, ends the conversation. Slots of an agent's answer are what its questions and
requests name (`_REQUESTED`); "can I help you with anything else?" asks for nothing. Slots of a user's turn
are the values that it gives (numbers, ids, addresses of mail), by their text.

The words are English. Of other languages only question marks and values are seen, so fewer turns are found
not to fit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

CONFIRM = "a confirmation"
_SENTENCE = re.compile(r"[^.!?\n\u061f\uff1f\u3002]+[.!?\n\u061f\uff1f\u3002]*")
_QUESTION = ("?", "\u061f", "\uff1f")
_OFFER = re.compile(
    r"\b(anything|something|any other)\b.{0,20}\b(else|help|assist|questions?)\b"
    r"|how (can|may) i (help|assist)"
    r"|(feel free|don't hesitate|let me know if) .*\b(any|need|questions?|help|assistance|else|further)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"\b(please|kindly)\b.{0,40}\b(provide|share|give|send|tell|confirm|specify|enter|reply|respond|choose|select"
    r"|let me know|type|say)\b|\b(could|can|would|will|may) (you|i have)\b|\blet me know\b"
    r"|\bi('ll| will)? need\b|\bdo you confirm\b|\(yes/no\)",
    re.IGNORECASE,
)
_REQUESTED = {
    "an email address": r"e-?mail",
    "a name": r"\b(first|last|full|your) name\b",
    "a postal code": r"\b(zip|postal|post) ?-?code\b",
    "an address": r"\b(shipping|delivery|billing|home|new|street|current) address\b",
    "an id": r"\b(order|booking|reservation|ticket|account|customer|user|tracking|confirmation|case|item"
    r"|product)( or \w+)? ?(id|ids|number|numbers|no\.|code)\b",
    "a phone number": r"\bphone\b",
    "a date": r"\b(which|what|the|travel|departure|return|new|preferred)? ?dates?\b|\bwhen would\b",
    "a payment method": r"\b(payment (method|option)|credit card|gift card|paypal|certificate|card to use)\b",
    "a reason": r"\b(the |your )?reason\b|\bwhy\b",
    CONFIRM: r"\b(confirm|proceed|go ahead|yes/no|\byes\b|is (that|this) (correct|right|ok)|correct\?"
    r"|shall i|should i|would you like (me )?to|do you want (me )?to|are you (sure|okay|ok))\b",
}
_SLOTS = {slot: re.compile(pattern, re.IGNORECASE) for slot, pattern in _REQUESTED.items()}
UNNAMED = "something else"
"""What a question asks for that names none of these."""
_VALUE = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+|#?\b[\w-]*\d[\w-]*\b")
_YES = re.compile(
    r"\W*(yes|yeah|yep|yup|sure|ok|okay|correct|right|exactly|confirmed|i confirm|go ahead"
    r"|please (do|proceed|go)|that('s| is| would be) (right|correct|fine|great|good|perfect)"
    r"|sounds good|absolutely|of course)\b",
    re.IGNORECASE,
)
_NO = re.compile(r"\W*(no|nope|not now|don't|do not|never mind|nah)\b", re.IGNORECASE)
_CLOSING = re.compile(
    r"\b(thanks|thank you|that's all|that is all|that will be all|bye|goodbye|have a (great|good|nice))\b"
    r"|###STOP###|###TRANSFER###",
    re.IGNORECASE,
)
_CLOSING_WORDS = 15
"""A longer turn with thanks says something else besides."""


class UserAct(StrEnum):
    """What a user's turn does."""

    ASKS = "asks"
    CONFIRMS = "confirms"
    DECLINES = "declines"
    GIVES = "gives a value"
    CLOSES = "ends the conversation"
    STATES = "states"


@dataclass(frozen=True, slots=True)
class UserTurnAct:
    """A user's turn without its words."""

    act: UserAct
    values: frozenset[str]
    """The values that it gives, in lower case."""


def user_act(text: str) -> UserTurnAct:
    """Return what a user's turn does."""
    values = frozenset(value.lower().lstrip("#") for value in _VALUE.findall(text))
    if any(mark in text for mark in _QUESTION):
        act = UserAct.ASKS
    elif (
        _CLOSING.search(text) and not values and len(text.split()) <= _CLOSING_WORDS and not _YES.match(text)
    ):
        act = UserAct.CLOSES
    elif _YES.match(text):
        act = UserAct.CONFIRMS
    elif _NO.match(text):
        act = UserAct.DECLINES
    else:
        act = UserAct.GIVES if values else UserAct.STATES
    return UserTurnAct(act, values)


def requested_slots(answer: str) -> frozenset[str]:
    """Return what an agent's answer asks of the user, in words: `an email address`; empty where nothing."""
    slots: set[str] = set()
    for sentence in _SENTENCE.findall(answer):
        is_question = sentence.rstrip().endswith(_QUESTION)
        if not (is_question or _REQUEST.search(sentence)) or _OFFER.search(sentence):
            continue
        named = {slot for slot, pattern in _SLOTS.items() if pattern.search(sentence)}
        slots |= named or ({UNNAMED} if is_question else set())
    return frozenset(slots)


def misfit(recorded_answer: str, answer: str, user: str) -> str | None:
    """Return why a recorded turn of the user does not fit what a version answered; None where it may.

    Args:
        recorded_answer: what the user replied to.
        answer: what the version answered in its place.
        user: the recorded turn.
    """
    recorded, requested = requested_slots(recorded_answer), requested_slots(answer)
    if recorded & requested or (UNNAMED in recorded and requested) or (UNNAMED in requested and recorded):
        return None
    act = user_act(user).act
    if recorded and not requested:
        named = sorted(recorded - {UNNAMED})
        replies = act in (UserAct.CONFIRMS, UserAct.DECLINES) or (act is UserAct.GIVES and named != [CONFIRM])
        if replies and named:
            return f"the user answers a question that was not asked (for {named[0]})"
    if requested - {UNNAMED} and act is UserAct.CLOSES:
        return f"the user does not answer the question that was asked (for {min(requested - {UNNAMED})})"
    information = requested - {CONFIRM, UNNAMED}
    if information and not recorded and act in (UserAct.CONFIRMS, UserAct.DECLINES):
        return f"the user does not answer the question that was asked (for {min(information)})"
    if recorded == {CONFIRM} and information and act in (UserAct.CONFIRMS, UserAct.DECLINES):
        return f"the user answers a question that was not asked (for {CONFIRM})"
    return None
