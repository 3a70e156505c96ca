"""Numbers of payment cards and bank accounts, told from order numbers by their check digits.

Luhn's digit is right for one number in ten, so a card must also begin as cards do, be as long as they are and
be written as they are. A number that the text itself calls an order, a parcel or an id is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replaydiff.importers.redact.context import names_a_card, names_an_id
from replaydiff.importers.redact.found import Found, starting_with

_CARD = starting_with(r"\d", r"\w.,+\-", r"(?:[ -]?\d){13,18}(?!\w|[.,-]\d)")
_GROUPS = re.compile(r"\d{4}([ -])\d{4}\1\d{4}\1\d{4}(\1\d{1,3})?|\d{4}([ -])\d{6}\3\d{4,5}|\d+")
_ISSUERS = (
    # First digits from … to …, and the lengths that are issued.
    (4, 4, (16, 19)),
    (51, 55, (16,)),
    (2221, 2720, (16,)),
    (34, 34, (15,)),
    (37, 37, (15,)),
    (6011, 6011, (16, 19)),
    (644, 659, (16, 19)),
    (3528, 3589, (16,)),
    (300, 305, (14,)),
    (36, 36, (14,)),
    (38, 39, (14,)),
    (62, 62, (16, 17, 18, 19)),
)
_REGISTRY = """
AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27
DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28
IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22
MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24
SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30
"""
_IBAN_LENGTHS = {found[:2]: int(found[2:]) for found in _REGISTRY.split()}
"""SWIFT's registry: country → characters."""
_IBAN = starting_with(r"[A-Za-z]{2}\d{2}", r"\w", r" ?[A-Za-z0-9]")


def cards(text: str) -> Iterator[Found]:
    """Card numbers, as digits alone or in the groups that stand on the card."""
    for match in _CARD.finditer(text):
        written = match[0]
        digits = re.sub(r"\D", "", written)
        if not _GROUPS.fullmatch(written) or not is_card(digits):
            continue
        if written == digits and names_an_id(text, match.start()) and not names_a_card(text, match.start()):
            continue
        yield Found(match.start(), match.end(), "CARD", digits)


def is_card(digits: str) -> bool:
    """Whether a card could have this number."""
    issued = any(
        len(digits) in lengths and first <= int(digits[: len(str(first))]) <= last
        for first, last, lengths in _ISSUERS
    )
    return issued and len(set(digits)) > 1 and luhn(digits)


def luhn(digits: str) -> bool:
    """Whether the last digit checks the others."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


def ibans(text: str) -> Iterator[Found]:
    """Account numbers of SWIFT's registry, in one piece or in groups of four."""
    after = 0
    for match in _IBAN.finditer(text):
        length = _IBAN_LENGTHS.get(match[0][:2].upper())
        if length is None or match.start() < after:
            continue
        end = _end(text, match.start(), length)
        if end is None:
            continue
        number = text[match.start() : end].replace(" ", "").upper()
        if is_iban(number):
            after = end
            yield Found(match.start(), end, "IBAN", number)


def _end(text: str, start: int, length: int) -> int | None:
    """Where a number of this many characters ends; None where what stands there has another length."""
    taken, position = 0, start
    while taken < length:
        if position >= len(text):
            return None
        character = text[position]
        if character.isascii() and character.isalnum():
            taken += 1
        elif character != " " or taken % 4:
            return None
        position += 1
    after = text[position : position + 1]
    return None if after.isalnum() or after == "_" else position


def is_iban(number: str) -> bool:
    """Whether the check digits are right (ISO 7064, mod 97-10)."""
    digits = "".join(str(int(character, 36)) for character in number[4:] + number[:4])
    return int(digits) % 97 == 1
