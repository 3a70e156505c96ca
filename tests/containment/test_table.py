"""The page on security shows what the attack corpus holds now."""

from __future__ import annotations

from tests.containment.descendants import STARTS
from tests.containment.shapes import SHAPES
from tests.containment.table import GROUPS, PAGE, with_table


def test_the_page_shows_the_current_table() -> None:
    page = PAGE.read_text()
    assert page.count("<!-- attack corpus: ") == page.count("<!-- not covered: ") == 2
    assert page == with_table(page), "run `python -m tests.containment.table`"


def test_every_shape_belongs_to_a_group_of_the_table() -> None:
    assert {one.group for one in [*SHAPES, *STARTS]} == {*GROUPS, "uncovered"}
