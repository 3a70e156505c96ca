"""What a finder says: a piece of a text that is to be replaced."""

from __future__ import annotations

import re
from typing import NamedTuple

START = r"(?:(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})|(?<![%s])(?!(?<=\\)[nrtbfu]))"
"""Not within a longer word of the given characters. In JSON text a word may stand right after an escape."""


class Found(NamedTuple):
    """A piece of a text."""

    start: int
    end: int
    kind: str
    """The word of its token: EMAIL."""
    value: str
    """What is the same however it is written: a number in E.164, an address in lower case."""


def starting_with(first: str, within: str, rest: str) -> re.Pattern[str]:
    """A pattern that starts with `first`, of fixed width, not in the middle of a word of these characters.

    The look behind comes after `first`: Python then leaps from one possible start to the next, and is three
    times as fast.
    """
    start = rf"(?:(?<![{within}]{first})|(?<=\\[nrtbf]{first})|(?<=\\u[0-9a-fA-F]{{4}}{first}))"
    return re.compile(first + start + rest)


def starting(characters: str, pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern that does not start in the middle of a word of these characters."""
    return re.compile(START % characters + pattern, flags)
