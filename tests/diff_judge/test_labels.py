"""A person's own sheet: drawn as the run is made up, filled row by row, read back as it was filled."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from replaydiff.diff.judge import labels
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import Lane
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.connection import open_store
from tests.diff.build import RUN_ID, item, judged, store, trial


@pytest.fixture
def graded(tmp_path: Path) -> Path:
    """Ninety items of three strata, fifty, thirty and ten, in two lanes."""
    strata = ["lookup"] * 50 + ["cancel"] * 30 + ["rare"] * 10
    items = [item(f"t{n}", stratum=stratum) for n, stratum in enumerate(strata)]
    done = [trial(one, lane, final_response=one.stratum) for one in items for lane in (Lane.OLD, Lane.NEW)]
    return store(tmp_path, items, done, grades=[judged(t.item_id, t.lane, 0, 1.0) for t in done])


def _begun(path: Path, store_path: Path, size: int = labels.SIZE) -> list[labels.LabelRow]:
    with open_store(store_path, read_only=True) as con:
        labels.write_sheet(path, labels.draw_sheet(con, Settings(root=path.parent), RUN_ID, size=size))
    return labels.read(path)


def test_every_stratum_is_drawn_from_in_proportion(graded: Path, tmp_path: Path) -> None:
    for size, expected in ((18, {"lookup": 10, "cancel": 6, "rare": 2}), (90, {"lookup": 50, "cancel": 30})):
        rows = _begun(tmp_path / f"{size}.jsonl", graded, size)
        drawn = Counter(row.response for row in rows)
        for stratum, count in expected.items():
            assert abs(drawn[stratum] - count) <= 2, (size, drawn)


def test_the_answers_of_both_versions_to_one_item_are_drawn_together(graded: Path) -> None:
    """Next to each other, in either order; the A/A lane stays out, and what has no counterpart comes last."""
    with open_store(graded, read_only=True) as con:
        found = labels.judged_responses(con, RUN_ID, Settings(root=graded.parent))
    lonely = [one for one in found if one.item.id == "t0" and one.graded.trial.lane == Lane.NEW]
    again = [
        replace(
            one,
            key=f"2{one.key}",
            graded=replace(one.graded, trial=replace(one.graded.trial, lane=Lane.OLD2)),
        )
        for one in found
        if one.graded.trial.lane == Lane.OLD
    ]
    found = [one for one in (*found, *again) if one.item.id != "t0" or one.graded.trial.lane != Lane.OLD]
    drawn = labels.draw_responses(found, 1000, seed=3)
    assert drawn == labels.draw_responses(found[::-1], 1000, seed=3)
    assert drawn[-1:] == lonely
    pairs = [drawn[n : n + 2] for n in range(0, len(drawn) - 1, 2)]
    assert len(pairs) == 89
    assert all(one.item.id == other.item.id for one, other in pairs)
    lanes = Counter(tuple(str(one.graded.trial.lane) for one in pair) for pair in pairs)
    assert set(lanes) == {("old", "new"), ("new", "old")}
    assert min(lanes.values()) > 20, "the order of a pair says nothing"
    assert len(labels.draw_responses(found, 5, seed=3)) == 6, "a pair is never cut"


def test_labels_are_kept_one_at_a_time_and_can_be_taken_back(graded: Path, tmp_path: Path) -> None:
    path = labels.personal_sheet(Settings(root=tmp_path), RUN_ID, "Ada <ada@example.com>")
    rows = _begun(path, graded, 4)
    assert path == tmp_path / ".replay" / "labels" / f"{RUN_ID}.Ada.jsonl"
    labels.set_label(path, rows[2].key, 3, "good of its kind")
    labels.set_label(path, rows[0].key, 1)
    assert [(row.label, row.note) for row in labels.read(path)] == [
        (1, ""), (None, ""), (3, "good of its kind"), (None, "")
    ]  # fmt: skip
    labels.set_label(path, rows[0].key, None)
    assert [row.label for row in labels.read(path)] == [None, None, 3, None]
    with pytest.raises(InputError, match="has no row 'other'"):
        labels.set_label(path, "other", 1)
    with pytest.raises(InputError, match="exists already, and may contain labels"):
        _begun(path, graded)
    assert labels.read(path)[2].label == 3


def test_the_sheets_of_a_run_are_those_of_everyone_and_no_name_leads_elsewhere(
    graded: Path, tmp_path: Path
) -> None:
    settings = Settings(root=tmp_path)
    paths = [labels.personal_sheet(settings, RUN_ID, name) for name in ("Bo", "../../etc/ada", "<>")]
    assert {path.parent for path in paths} == {tmp_path / ".replay" / "labels"}
    for path in paths:
        rows = _begun(path, graded, 3)
        assert [row.key for row in rows] == [row.key for row in labels.read(paths[0])]
    assert labels.sheets_of(settings, RUN_ID) == sorted(paths)
    assert labels.sheets_of(settings, "other") == []
