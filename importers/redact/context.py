"""What the words before a number, or the key it stands under, say of it."""

from __future__ import annotations

import re

_BEFORE = 40
"""Characters before a number that are looked at."""
_BETWEEN = r"(?:\W|_|\b(?:no|nr|num|number|id|is|was|are|code|the|my|your|of|to|at|on|me|us)\b){0,12}$"
_ID = re.compile(
    r"(?:order|invoice|booking|reservation|ticket|case|ref|reference|tracking|confirmation|parcel|shipment|package"
    r"|item|product|sku|isbn|ean|imei|serial|transaction|request|session|trace|timestamp|time|date|created|updated"
    r"|uuid|id|ids|amount|total|price|balance|customer|account|user|policy|claim|pnr|flight|zip|version)s?"
    + _BETWEEN,
    re.IGNORECASE,
)
_CARD = re.compile(r"(?:card|visa|mastercard|amex|maestro|credit|debit|pan|ccn?)s?" + _BETWEEN, re.IGNORECASE)
_PHONE = re.compile(
    r"(?:phone|telephone|tel|mobile|cell|cellphone|landline|handy|fax|whatsapp|sms|text|texts|call|dial|ring|reach"
    r"|contact|msisdn)s?" + _BETWEEN,
    re.IGNORECASE,
)
_ID_KEY = re.compile(
    r"(?:^|[_-])(?:id|ids|uuid|ref|reference|sku|serial|code|timestamp|time|at|ts|order|invoice|tracking|amount"
    r"|total|price|balance)$|(?:Id|Ids|ID|At|Time|Number|Code)$",
)
_PHONE_KEY = re.compile(r"phone|mobile|(?:^|[_-])(?:tel|cell|fax|msisdn|whatsapp)(?:$|[_-])", re.IGNORECASE)
_CARD_KEY = re.compile(r"card_?(?:number|no)?$|(?:^|[_-])(?:pan|ccn?)$", re.IGNORECASE)
_SECRET_KEY = re.compile(
    r"(?:^|[_-])(?:password|passwd|pwd|passphrase|secret|token|authorization|credentials?|api[_-]?key"
    r"|(?:access|private|secret)[_-]?key)$|(?:Password|Secret|Token|ApiKey|AccessKey|PrivateKey|SecretKey)$"
    r"|^(?:apiKey|apikey|Authorization|Password|x-api-key)$"
)


def names_an_id(text: str, start: int) -> bool:
    """The words right before a number call it an order, a parcel, an id."""
    return _ID.search(_before(text, start)) is not None


def names_a_card(text: str, start: int) -> bool:
    """The words right before a number call it a card."""
    return _CARD.search(_before(text, start)) is not None


def names_a_phone(text: str, start: int) -> bool:
    """The words right before a number say that it can be called."""
    return _PHONE.search(_before(text, start)) is not None


def _before(text: str, start: int) -> str:
    return text[max(0, start - _BEFORE) : start]


def is_id_key(key: str) -> bool:
    """What stands under this key is an id, a time or an amount."""
    return _ID_KEY.search(key) is not None and not is_phone_key(key) and not is_card_key(key)


def is_phone_key(key: str) -> bool:
    """What stands under this key is a phone number, however bare."""
    return _PHONE_KEY.search(key) is not None


def is_card_key(key: str) -> bool:
    """What stands under this key is a card."""
    return _CARD_KEY.search(key) is not None


def is_secret_key(key: str) -> bool:
    """What stands under this key must not be read by others, whatever it looks like."""
    return _SECRET_KEY.search(key) is not None
