"""What several items have in common that changed: a reason without what is one item's own.

`missing call 1: get_order_status(order_id='77511')` and the same with another order are one cause,
`missing call 1: get_order_status(order_id=…)`: the values of arguments, quoted texts, and numbers, dates and
ids of two digits or more stand as `…`. Names of tools and arguments, and places (`call 1`), stay.
"""

from __future__ import annotations

import re

_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_VALUE = re.compile(
    # What an argument is: text, a list or object up to its first end, or a word.
    rf"(?<=\w)=\s*(?:{_QUOTED}|\[[^\]]*\]|\{{[^}}]*\}}|[^\s,;()]+)"
    # Text by itself; an apostrophe within a word begins none.
    rf"|(?<!\w)(?:{_QUOTED})"
    # A number, a date, an id: A-1003, 2026-10-07, 42.50.
    r"|(?<![\w.])(?:[A-Z]{1,5}-?)?\d[\w.,:/-]*\d(?!\w)"
)
_MOST = 2000
"""Characters looked at: a reason is a sentence."""


def normalise_reason(reason: str) -> str:
    """The reason with `…` for what is one item's own."""
    return _VALUE.sub(lambda match: "=…" if match[0].startswith("=") else "…", reason[:_MOST])
