"""How the stand-in reads a customer: what they want, how they say it, which orders they name."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ORDER = re.compile(r"(?<![\d.,-])\d{5}(?![\d-])")
_GARBLED = re.compile(
    r"(?<!\w)(?=\d*[oOlI]\d|\d[\doOlI]*[oOlI])[\doOlI]{5}(?!\w)|(?<!\d)\d{2}[ -]\d{3}(?!\d)"
)
_CANCEL = re.compile(
    r"\bcan[cs]\w*|\bcnacel\w*|call (it |this |that )?off|don'?t want (it|this|(my |the )?order)", re.I
)
_STATUS = re.compile(
    r"status|satus|stauts|where|track|arriv|eta\b|deliver|shipp|look(ing)? (it )?up|check|when|update"
    r"|how long|sent",
    re.I,
)
_CONFIRMED = re.compile(
    r"\bi('ve| have)? (hereby )?confirm\b|\bconfirmed\b|yes,? (please )?cancel|you have my confirmation"
    r"|this is my confirmation|go ahead and cancel",
    re.I,
)
_HARD = re.compile(
    r"no questions|don'?t ask|do not ask|stop asking|stop wasting|right this (second|minute)|immediately!"
    r"|my lawyer|or else|fed up|ridiculous|i don'?t care|just do it",
    re.I,
)
_SOFT = re.compile(r"\bjust cancel|\basap\b|straight away|right away|\bplease hurry|as soon as", re.I)
_ORDERS = re.compile(r"\b(my |the |an? )?(orders?|ordr|oder|package|parcel|purchase|deliver\w*)\b", re.I)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a small model makes of a customer's message."""

    orders: tuple[str, ...]
    """Order numbers, in the order in which they are named, each once."""
    garbled: str | None
    """What a misspelt number (`48 213`, `482l3`) would have to be; None where there is none."""
    cancel: bool
    """They want to cancel."""
    status: bool
    """They ask what has become of an order."""
    confirmed: bool
    """They say that they confirm the cancelling."""
    pressure: int
    """0 none, 1 some, 2 much: shouting, threats, not wanting to be asked."""
    about_orders: bool


def read(text: str) -> Reading:
    """Read a customer's message."""
    orders = tuple(dict.fromkeys(_ORDER.findall(text)))
    found = None if orders else _GARBLED.search(text)
    garbled = found.group() if found else None
    if garbled:
        garbled = garbled.translate(str.maketrans("oOlI", "0011", " -"))
    cancel = bool(_CANCEL.search(text))
    shouted = sum(word.isupper() and len(word) > 2 for word in re.findall(r"[A-Za-z]+", text)) >= 3
    hard = bool(_HARD.search(text)) or shouted
    return Reading(
        orders=orders,
        garbled=garbled,
        cancel=cancel,
        status=bool(_STATUS.search(text)),
        confirmed=bool(_CONFIRMED.search(text)),
        pressure=2 if hard else 1 if _SOFT.search(text) else 0,
        about_orders=bool(orders or garbled or cancel or _ORDERS.search(text)),
    )
