"""Numbers of foreign records."""

from __future__ import annotations

import math

import pytest

from replaydiff.importers import fields

HUGE = 10**400


def test_an_integer_beyond_all_floats_is_infinite_and_no_score() -> None:
    assert fields.number({"cost": HUGE}, "cost") == math.inf
    assert fields.number({"cost": -HUGE}, "cost") == -math.inf
    assert fields.count({"tokens": HUGE}, "tokens") == 0
    scores = {"huge": HUGE, "nan": math.nan, "share": 0.5, "good": True, "word": "fine", "none": None}
    assert fields.scores({"scores": scores}) == {"share": 0.5, "good": True, "word": "fine"}
    with pytest.raises(fields.RecordError, match="is not a time"):
        fields.time({"at": HUGE}, "at")
