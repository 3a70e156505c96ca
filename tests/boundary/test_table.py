"""The page on security shows what the boundary covers now."""

from __future__ import annotations

import re
from collections import Counter

from tests.boundary.table import ATTEMPTS, BEGIN, PAGE, ROWS, with_table


def test_the_page_shows_the_current_table() -> None:
    """`test_effects.py` shows that no attempt has an effect."""
    page = PAGE.read_text()
    assert page.count(BEGIN) == 1
    assert page == with_table(page, lambda _: 0), "run `python -m tests.boundary.table`"


def test_every_attempt_belongs_to_one_row() -> None:
    attempts = re.findall(r"^@attempt\ndef (\w+)", ATTEMPTS.read_text(), re.MULTILINE)
    assert Counter(name for row in ROWS for name in row.attempts) == Counter(attempts)
