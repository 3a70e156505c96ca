"""The table of exit codes in docs/ci.md has a row for each situation, and a test for each row."""

from __future__ import annotations

import re

from tests.exit_codes import SITUATIONS
from tests.stand_ins.processes import ROOT

PROVOKED = re.compile(r'check_exit\(\s*"([^"]+)"')


def test_every_situation_of_the_table_is_provoked_by_a_test() -> None:
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert {name for text in texts for name in PROVOKED.findall(text)} == set(SITUATIONS)
