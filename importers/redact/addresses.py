"""E-mail addresses and phone numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

import phonenumbers
from phonenumbers import Leniency, PhoneNumber, PhoneNumberFormat, PhoneNumberMatcher

from replaydiff.importers.redact.context import names_a_phone, names_an_id
from replaydiff.importers.redact.found import Found, starting, starting_with

_EMAIL = starting(r"\w.%+\-", r"[\w.%+\-]{1,64}@(?:\w(?:[\w\-]{0,61}\w)?\.){1,8}[^\W\d_][\w\-]{0,61}[^\W_]")
_ABROAD = starting_with(r"\+\d", r"\w+", r"(?:[ .\-/()\u00a0]{0,2}\d){6,14}(?!\w)")
_NO_NUMBER = r"(?!\w|[\-/.:,]\d|%|\s?[€$£])"
_WITHIN = r"\w+.,:/#$€£@=&\-"
_AMERICAN = starting_with(
    r"[\d(]",
    _WITHIN,
    r"(?:(?<=1)[ .\-]?(?:\([2-9]\d\d\) ?|[2-9]\d\d[ .\-])|(?<=\()[2-9]\d\d\) ?|(?<=[2-9])\d\d[ .\-])"
    r"[2-9]\d\d[ .\-]\d{4}" + _NO_NUMBER,
)
_BARE = starting_with(r"\d", _WITHIN, r"\d{6,14}" + _NO_NUMBER)
_GROUPED = starting_with(r"[\d(]", _WITHIN, r"(?:[ .\-/()\u00a0]{0,2}\d){6,14}" + _NO_NUMBER)
_RELEASE = re.compile(r"\d{1,2}\.\d{1,3}\.\d{1,4}")
"""How releases are numbered; few countries write phone numbers so."""
_FEWEST_ABROAD = 9
"""Digits of a number with its country's code."""


def emails(text: str) -> Iterator[Found]:
    """E-mail addresses; one is the same in capitals."""
    if "@" in text:
        for match in _EMAIL.finditer(text):
            # A dash or dots before an address belong to the sentence.
            address = match[0].lstrip(".-+%_")
            if not address.startswith("@"):
                yield Found(match.end() - len(address), match.end(), "EMAIL", address.lower())


def phones(text: str, regions: Sequence[str]) -> Iterator[Found]:
    """Phone numbers: with `+` those of any country, without it those of `regions` as people write them there.

    Digits alone count only where the words before them say that it is a phone.
    """
    if "+" in text:
        for match in _ABROAD.finditer(text):
            number = parsed(match[0], None)
            if number is not None and len(re.sub(r"\D", "", match[0])) >= _FEWEST_ABROAD:
                yield Found(match.start(), match.end(), "PHONE", _e164(number))
    american = [region for region in regions if region in _america()]
    if american:
        for match in _AMERICAN.finditer(text):
            number = parsed(match[0], american[0])
            if number is not None:
                yield Found(match.start(), match.end(), "PHONE", _e164(number))
    others = [region for region in regions if region not in american]
    for match in _GROUPED.finditer(text) if others else ():
        if not match[0].isdigit():
            yield from _as_written_in(others, match[0], match.start())
    for match in _BARE.finditer(text) if regions else ():
        if names_a_phone(text, match.start()) and not names_an_id(text, match.start()):
            found = bare_phone(match[0], regions)
            if found is not None:
                yield Found(match.start(), match.end(), "PHONE", found)


def bare_phone(text: str, regions: Sequence[str]) -> str | None:
    """The number in E.164 that a whole text or a number under a telling key is; None where it is none."""
    for region in (None, *regions) if text.startswith("+") else regions:
        number = parsed(text, region)
        if number is not None:
            return _e164(number)
    return None


def _as_written_in(regions: Sequence[str], written: str, offset: int) -> Iterator[Found]:
    """A number with the separators, the groups and the trunk prefix of its country: a date has none."""
    if _RELEASE.fullmatch(written):
        return
    for region in regions:
        trunk = phonenumbers.ndd_prefix_for_region(region, True) or ""
        if not written.lstrip("(").startswith(trunk):
            continue
        for one in PhoneNumberMatcher(written, region, leniency=Leniency.STRICT_GROUPING):
            # Digits alone, or with a fraction after them, are an amount as well.
            whole = one.end == len(written) or written[one.end] in " \u00a0"
            if whole and not one.raw_string.isdigit():
                yield Found(offset + one.start, offset + one.end, "PHONE", _e164(one.number))


@cache
def _america() -> frozenset[str]:
    return frozenset(phonenumbers.region_codes_for_country_code(1))


def parsed(text: str, region: str | None) -> PhoneNumber | None:
    """The number of a text that is one and has a possible length for its country."""
    try:
        number = phonenumbers.parse(text, region)
    except phonenumbers.NumberParseException:
        return None
    return number if phonenumbers.is_possible_number(number) else None


def _e164(number: PhoneNumber) -> str:
    return phonenumbers.format_number(number, PhoneNumberFormat.E164)
