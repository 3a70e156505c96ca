"""A provider's bad hour during a run is named, and chance is not."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from replaydiff.diff.compute import compute
from replaydiff.replay.settings import GateSection
from tests.diff.build import RUN_ID, WHEN, case, filled, settings, trial


def warnings(folder: Path, rates: np.ndarray) -> list[str]:
    """The warnings of a run whose items have these pass rates in both lanes, a minute each."""
    rng = np.random.default_rng(5)
    items = [case(f"c{n:03}") for n in range(len(rates))]
    done = [
        trial(
            one,
            lane,
            index,
            started_at=WHEN + timedelta(minutes=n),
            scores={"good": float(rng.random() < rates[n])},
        )
        for n, one in enumerate(items)
        for lane in ("old", "new")
        for index in range(2)
    ]
    with filled(folder, items, done) as con:
        gate = GateSection(metrics=("score:good",), max_regressed="100%")
        return [*compute(con, RUN_ID, settings(folder, gate=gate)).warnings]


@pytest.mark.parametrize("bad", [slice(30, 50), slice(75, 100)])
def test_a_bad_hour_is_named_with_both_levels(tmp_path: Path, bad: slice) -> None:
    rates = np.full(100, 0.95)
    rates[bad] = 0.4
    (sentence,) = [warning for warning in warnings(tmp_path, rates) if "fell during the run" in warning]
    assert sentence.startswith("the level of score:good fell during the run, all versions taken together: 0.")
    assert "from 2026-11-20 22:" in sentence or "from 2026-11-20 23:" in sentence


def test_an_even_run_has_no_such_warning(tmp_path: Path) -> None:
    assert not any("fell during" in warning for warning in warnings(tmp_path, np.full(100, 0.8)))
