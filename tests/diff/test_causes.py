"""What items have in common: a reason without what is one item's own."""

from __future__ import annotations

import pytest

from replaydiff.diff.causes import normalise_reason


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("missing call 1: get_order(order_id='77511')", "missing call 1: get_order(order_id=…)"),
        ("extra call 3: f(a=[1, 2], b={'x': 1}, c=None)", "extra call 3: f(a=…, b=…, c=…)"),
        (r"got f(text='it\'s, well')", "got f(text=…)"),
        ("expected 42.50 on 2026-10-07, got A-1003", "expected … on …, got …"),
        ("called tool_v12 without get_2 first", "called tool_v12 without get_2 first"),
        (
            "2 of 3 criteria hold, and it doesn't say it's done",
            "2 of 3 criteria hold, and it doesn't say it's done",
        ),
        ("", ""),
    ],
)
def test_what_is_one_items_own_is_left_out(reason: str, cause: str) -> None:
    assert normalise_reason(reason) == cause
