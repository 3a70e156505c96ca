"""Several new versions against one old: their order, what it rests on, and that choosing costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replaydiff.diff.compute import compute
from replaydiff.diff.document import to_json
from replaydiff.diff.result import Answer, DiffResult
from replaydiff.replay.errors import UnknownNameError
from replaydiff.replay.model import Lane
from replaydiff.replay.settings import GateSection
from replaydiff.replay.store.connection import open_store
from tests.diff.build import RUN_ID, item, settings, store, trials, version
from tests.stand_ins.schemas import validator

NAMES = {
    Lane.OLD: version("prod"),
    Lane.NEW: version("worse"),
    Lane("new", 2): version("same"),
    Lane("new", 3): version("better"),
}


def computed(folder: Path, lanes: dict[str, list[str]], candidate: Lane | None = None) -> DiffResult:
    """Of a run whose items have these outcomes: `lanes["new"][3]` are the trials of item 3 in lane `new`."""
    items = [item(f"i{number:02}") for number in range(len(lanes["old"]))]
    done = [
        one
        for number, of in enumerate(items)
        for one in trials(of, **{lane: outcomes[number] for lane, outcomes in lanes.items()})
    ]
    path = folder / "replay.duckdb"
    if not path.exists():
        store(folder, items, done, lanes={lane: NAMES[lane] for lane in NAMES if str(lane) in lanes})
    with open_store(path, read_only=True) as con:
        return compute(con, RUN_ID, settings(folder), candidate=candidate)


def three() -> dict[str, list[str]]:
    return {
        "old": ["111"] * 80 + ["000"] * 40,
        "new": ["000"] * 15 + ["111"] * 65 + ["000"] * 40,
        "new2": ["111"] * 80 + ["000"] * 40,
        "new3": ["111"] * 120,
    }


def test_candidates_are_ranked_and_the_best_is_shown_as_new(tmp_path: Path) -> None:
    result = computed(tmp_path, three())
    assert [(one.lane, one.answer, one.shown) for one in result.ranking] == [
        (Lane("new", 3), Answer.SHIP, True),
        (Lane("new", 2), Answer.SHIP, False),
        (Lane.NEW, Answer.HOLD, False),
    ]
    assert result.reason.startswith(
        "new3 (better), first of 3: tool_calls 0.67 → 1.00 on 120 items (simultan"
    )
    assert set(result.lanes) == {Lane.OLD, Lane.NEW}
    assert result.lanes[Lane.NEW].version["name"] == "better"
    best, _, last = result.ranking
    assert best.metrics["tool_calls"].behind is None
    assert last.metrics["tool_calls"].behind == pytest.approx(55 / 120)
    assert last.metrics["tool_calls"].behind_ci is not None
    assert last.metrics["tool_calls"].behind_ci[0] > 0


def test_another_candidate_can_be_shown_and_the_ranking_stays(tmp_path: Path) -> None:
    result = computed(tmp_path, three(), Lane.NEW)
    assert (result.answer, result.counts.regressed) == (Answer.HOLD, 15)
    assert result.reason.startswith("new (worse), third of 3: tool_calls 0.67 → 0.54")
    assert [one.lane for one in result.ranking if one.shown] == [Lane.NEW]
    assert result.ranking[0].lane == Lane("new", 3)
    with pytest.raises(UnknownNameError, match=r"run .*: there is no new lane 'new4'"):
        computed(tmp_path, three(), Lane("new", 4))


def test_one_of_several_has_the_figures_it_has_alone_with_wider_intervals(tmp_path: Path) -> None:
    lanes = {"old": ["101"] * 30, "new": ["110", "111"] * 15}
    (tmp_path / "alone").mkdir()
    alone = computed(tmp_path / "alone", lanes)
    several = computed(tmp_path, lanes | {"new2": ["101"] * 30, "new3": ["000"] * 30}, Lane.NEW)
    one, other = alone.metrics["tool_calls"], several.metrics["tool_calls"]
    assert (one.old, one.new, one.delta, one.se, one.p) == (
        other.old,
        other.new,
        other.delta,
        other.se,
        other.p,
    )
    assert one.ci is not None
    assert other.ci is not None
    assert other.ci[0] < one.ci[0] < one.ci[1] < other.ci[1]
    assert alone.ranking == ()
    assert "ranking" not in to_json(alone)
    assert [item.verdict for item in alone.items] == [item.verdict for item in several.items]


def test_p_values_are_adjusted_by_holm_over_the_candidates(tmp_path: Path) -> None:
    result = computed(
        tmp_path,
        {"old": ["0"] * 12, "new": ["1"] * 6 + ["0"] * 6, "new2": ["1"] * 4 + ["0"] * 8, "new3": ["0"] * 12},
    )
    found = {one.lane: one.metrics["tool_calls"] for one in result.ranking}
    raw = {lane: figures.p for lane, figures in found.items()}
    assert raw == {Lane.NEW: 2 / 2**6, Lane("new", 2): 2 / 2**4, Lane("new", 3): 1.0}
    assert {lane: figures.p_adjusted for lane, figures in found.items()} == {
        Lane.NEW: 3 * 2 / 2**6,
        Lane("new", 2): 2 * 2 / 2**4,
        Lane("new", 3): 1.0,
    }


def test_an_item_that_one_candidate_did_not_finish_counts_for_none(tmp_path: Path) -> None:
    lanes = {"old": ["1"] * 8, "new": ["1"] * 8, "new2": ["1"] * 7 + ["C"]}
    result = computed(tmp_path, lanes)
    assert result.counts.compared == 7
    assert [one.counts.compared for one in result.ranking] == [7, 7]


def test_the_document_lists_all_candidates_best_first(tmp_path: Path) -> None:
    document: dict[str, Any] = to_json(computed(tmp_path, three()))
    assert [(one["lane"], one["version"]["name"]) for one in document["ranking"]] == [
        ("new3", "better"),
        ("new2", "same"),
        ("new", "worse"),
    ]
    validator("diff").validate(json.loads(json.dumps(document)))
    assert document["ranking"][2]["items"]["regressed"] == 15
    assert set(document["lanes"]) == {"old", "new"}


def test_a_gate_is_held_by_the_candidate_that_is_shown(tmp_path: Path) -> None:
    computed(tmp_path, three())
    with open_store(tmp_path / "replay.duckdb", read_only=True) as con:
        given = settings(tmp_path, gate=GateSection(max_regressed=0))
        held = [
            compute(con, RUN_ID, given, gate=("default",), candidate=lane).gate.is_met
            for lane in (None, Lane.NEW)
        ]
    assert held == [True, False]
