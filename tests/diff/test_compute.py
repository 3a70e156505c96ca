"""From a real store to a DiffResult."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from replaydiff.diff.compute import compute
from replaydiff.diff.document import to_json
from replaydiff.diff.judge.calibration import judge_hash
from replaydiff.diff.result import Answer, DiffResult, Noise, Verdict
from replaydiff.replay.errors import UnknownNameError
from replaydiff.replay.model import (
    Grade,
    GradeState,
    Item,
    Lane,
    Rule,
    SampleItem,
    SampleRecord,
    Status,
    ToolCall,
    Trial,
    VersionKind,
    Vote,
)
from replaydiff.replay.settings import GateSection
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.samples import write_sample
from tests.diff.build import RUN_ID, WHEN, case, filled, item, judged, settings, trial, trials, version
from tests.stand_ins.schemas import validator


def diffed(
    folder: Path,
    items: Sequence[Item],
    done: Sequence[Trial],
    *,
    grades: Sequence[Grade] = (),
    sections: dict[str, Any] | None = None,
    metrics: Sequence[str] = (),
    gate: Sequence[str] | None = None,
    **run: Any,
) -> DiffResult:
    """The diff of a run with these items and trials; its document is held against the schema."""
    with filled(folder, items, done, grades=grades, **run) as con:
        result = compute(con, RUN_ID, settings(folder, **(sections or {})), metrics=metrics, gate=gate)
    document = json.loads(json.dumps(to_json(result), allow_nan=False))
    validator("diff").validate(document)
    assert sum(document["items"][v.value] for v in Verdict) == document["items"]["compared"]
    return result


def test_a_regression_is_found_named_and_holds(tmp_path: Path) -> None:
    items = [item(f"t{n}") for n in range(30)]
    done = [t for one in items for t in trials(one, old="111", new="000" if one.id == "t3" else "111")]
    result = diffed(tmp_path, items, done)
    assert result.answer is Answer.HOLD
    assert result.reason == "1 item regressed beyond the noise (t3), and none may"
    assert result.next == f"replay show t3 --run {RUN_ID}"
    worst = result.items[0]
    assert (worst.item.id, worst.verdict) == ("t3", Verdict.REGRESSED)
    assert worst.metrics["tool_calls"].reason == (
        "old 3/3, new 0/3: called cancel_order without get_order_status(order_id='1') first"
    )
    assert (
        worst.metrics["tool_calls"].cause == "called cancel_order without get_order_status(order_id=…) first"
    )
    metric = result.metrics["tool_calls"]
    assert (metric.old, metric.new) == (1.0, pytest.approx(29 / 30))
    assert metric.delta == pytest.approx(-1 / 30)
    assert metric.bounds == pytest.approx((-1 / 30, -1 / 30))
    assert metric.noise == 0
    assert metric.pass_hat_k[Lane.NEW] == pytest.approx({1: 29 / 30, 2: 29 / 30, 3: 29 / 30})
    assert result.noise is Noise.WITHIN_LANE


def test_trials_are_averaged_before_items_are_paired(tmp_path: Path) -> None:
    items = [item("a"), item("b")]
    done = [*trials("a", old="110", new="100"), *trials("b", old="011", new="111")]
    metric = diffed(tmp_path, items, done).metrics["tool_calls"]
    assert (metric.old, metric.new, metric.delta) == (pytest.approx(2 / 3), pytest.approx(2 / 3), 0.0)


def test_errors_are_neither_failures_nor_dropped(tmp_path: Path) -> None:
    items = [item(f"t{n}") for n in range(20)]
    done = [t for one in items for t in trials(one, old="1", new="E" if one.id in ("t0", "t1") else "1")]
    result = diffed(tmp_path, items, done)
    metric = result.metrics["tool_calls"]
    assert (metric.old, metric.new, metric.delta) == (1.0, 1.0, 0.0)
    assert metric.bounds == pytest.approx((-0.1, 0.0))
    assert metric.inconclusive == 2
    assert result.errors == 2
    assert result.answer is Answer.CANNOT_TELL
    assert (
        result.reason
        == "trials without a score leave tool_calls anywhere from -0.10 to +0.00 (headline +0.00)"
    )
    assert result.items[0].metrics["tool_calls"].reason == (
        "old 1/1, new without a score: new ended in crashed (it died) (1 of 1 new trials have no score)"
    )
    cause = result.items[0].metrics["tool_calls"].cause
    assert cause == "1 of 1 new trials have no score: crashed: it died"
    assert "2 trials ended in an error and have no score; the bounds include them" in result.warnings


def test_when_everything_errors_every_statistic_is_null(tmp_path: Path) -> None:
    items = [item("a"), item("b")]
    done = [t for one in items for t in trials(one, old="E", new="E")]
    result = diffed(tmp_path, items, done)
    metric = result.metrics["tool_calls"]
    assert result.answer is Answer.CANNOT_TELL
    assert (metric.old, metric.new, metric.delta, metric.se, metric.ci, metric.p) == (None,) * 6
    assert metric.bounds == (-1.0, 1.0)


def test_half_blocks_are_left_out_and_said_to_be(tmp_path: Path) -> None:
    items = [item("whole"), item("half"), item("stopped"), item("never")]
    done = [
        *trials("whole", old="11", new="11"),
        *trials("half", old="11", new="0"),
        *trials("stopped", old="11", new="0C"),
    ]
    result = diffed(tmp_path, items, done, finished_at=None, trials=2)
    assert (result.counts.total, result.counts.compared) == (4, 1)
    assert [one.item.id for one in result.items] == ["whole"]
    assert result.metrics["tool_calls"].new == 1.0
    assert result.warnings[0] == "3 of 4 items are unfinished and are left out of every figure"


def test_a_run_without_a_whole_block_says_how_to_go_on(tmp_path: Path) -> None:
    result = diffed(tmp_path, [item("a")], trials("a", old="1", new="C"), finished_at=None)
    assert (result.answer, result.next) == (Answer.CANNOT_TELL, "replay run --resume")
    assert result.reason == "no item has finished trials in every lane"


def test_the_repeat_of_the_old_version_tells_the_noise(tmp_path: Path) -> None:
    items = [item(f"t{n}") for n in range(10)]
    done = [
        t for n, one in enumerate(items) for t in trials(one, old="1", new="1", old2="0" if n < 2 else "1")
    ]
    result = diffed(tmp_path, items, done)
    assert result.noise is Noise.AA
    # Two of ten pairs disagree, and a pair that disagrees scatters by ½.
    assert result.metrics["tool_calls"].noise == pytest.approx((2 * 0.5 / 10) ** 0.5)
    assert list(result.lanes) == [Lane.OLD, Lane.NEW, Lane.OLD2]


def test_of_single_trials_the_interval_decides(tmp_path: Path) -> None:
    items = [case(f"c{n}") for n in range(40)]
    done = [
        t
        for n, one in enumerate(items)
        for t in trials(one, old="0" if n < 6 else "1", new="0" if n > 33 else "1")
    ]
    result = diffed(tmp_path, items, done)
    assert result.noise is Noise.UNKNOWN
    assert (result.counts.improved, result.counts.regressed) == (6, 6)
    assert result.answer is Answer.CANNOT_TELL
    assert result.reason == (
        "tool_calls 0.85 → 0.85 on 40 items (95% interval -0.18 to +0.18): "
        "a loss of more than 0.05 cannot be excluded"
    )
    assert result.next == f"replay compare --continue {RUN_ID} --trials 4"
    assert "single trial: noise unknown" in result.items[0].metrics["tool_calls"].reason


def test_recordings_of_all_there_is_cannot_be_repeated_so_the_report_is_next(tmp_path: Path) -> None:
    lanes = {
        lane: version(f"observed:{lane}", VersionKind.OBSERVED, condition=f"release = '{lane}'")
        for lane in (Lane.OLD, Lane.NEW)
    }
    items = [case("c0"), case("c1")]
    done = [*trials("c0", old="1", new="0"), *trials("c1", old="1", new="1")]
    result = diffed(tmp_path, items, done, lanes=lanes)
    assert result.next == f"replay report {RUN_ID} --format html -o report.html"
    assert result.lanes[Lane.OLD].fidelity is None


def test_scores_of_observed_lanes_are_metrics(tmp_path: Path) -> None:
    lanes = {
        lane: version(f"observed:{lane}", VersionKind.OBSERVED, condition=f"release = '{lane}'")
        for lane in (Lane.OLD, Lane.NEW)
    }
    items = [case("c0"), case("c1"), case("alone")]
    done = [
        trial("c0", "old", scores={"reward": 1.0}),
        trial("c0", "new", scores={"reward": 0.0}),
        trial("c0", "new", 1, scores={"reward": 1.0}),
        trial("c1", "old", scores={"reward": 0.0}),
        trial("c1", "new", scores={"reward": 1.0}),
        trial("alone", "old", scores={"reward": 1.0}),
    ]
    result = diffed(tmp_path, items, done, lanes=lanes, trials=1)
    reward = result.metrics["score:reward"]
    assert (reward.old, reward.new, reward.delta) == (0.5, 0.75, 0.25)
    # No item was tried twice in both lanes, and an item of one lane is none to compare.
    assert reward.pass_hat_k == {Lane.OLD: {1: 0.5}, Lane.NEW: {1: 0.75}}
    assert reward.pass_items[Lane.NEW] == {1: 2}
    assert result.counts.compared == 2
    assert result.warnings[0] == (
        "1 of 3 items have no trace in an observed lane, or are unfinished and are left out of every figure"
    )


def test_a_score_on_one_side_alone_is_shown_only_when_asked_for(tmp_path: Path) -> None:
    lanes = {Lane.OLD: version("observed", VersionKind.OBSERVED), Lane.NEW: version()}
    items = [item("a"), item("b")]
    done = [t for one in items for t in (trial(one, "old", scores={"reward": 1.0}), trial(one, "new"))]
    assert list(diffed(tmp_path, items, done, lanes=lanes).metrics) == ["tool_calls"]
    (tmp_path / "asked").mkdir()
    asked = diffed(tmp_path / "asked", items, done, lanes=lanes, metrics=["score:reward"])
    assert list(asked.metrics) == ["score:reward"]
    assert asked.metrics["score:reward"].delta is None


def test_an_unknown_metric_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no metric 'tool_call'; did you mean 'tool_calls'\?"):
        diffed(tmp_path, [item("a")], trials("a", old="1", new="1"), metrics=["tool_call"])


def test_an_uncalibrated_judge_is_shown_and_does_not_decide(tmp_path: Path) -> None:
    items = [case(f"c{n}", criteria={"kind": "yes"}) for n in range(3)]
    done = [t for one in items for t in trials(one, old="1", new="1")]
    grades = [judged(one, lane, 0, score) for one in items for lane, score in (("old", 1.0), ("new", 1 / 3))]
    result = diffed(tmp_path, items, done, grades=grades)
    assert result.metrics["judge"].delta == pytest.approx(-2 / 3)
    assert not result.metrics["judge"].gated
    assert result.metrics["judge"].calibration is None
    assert result.answer is Answer.CANNOT_TELL
    assert result.reason == (
        "no metric may decide: the judge is uncalibrated (no calibration in cases/calibration): its figures do "
        "not gate"
    )
    assert any("uncalibrated" in warning for warning in result.warnings)


def test_the_first_warning_is_of_a_judge_most_of_whose_grades_failed(tmp_path: Path) -> None:
    items = [case(f"c{n}", criteria={"kind": "yes"}) for n in range(4)]
    done = [t for one in items for t in trials(one, old="1", new="1")]
    bad = {"state": GradeState.ERROR, "reason": "404: no model\n'claude-9'."}

    def first(folder: str, failing: int, **fields: Any) -> str:
        grades = [
            judged(one, lane, 0, None if place * 2 + side < failing else 1.0,
                   **(fields if place * 2 + side < failing else {}))
            for place, one in enumerate(items) for side, lane in enumerate(("old", "new"))
        ]  # fmt: skip
        (tmp_path / folder).mkdir()
        return diffed(tmp_path / folder, items, done, grades=grades).warnings[0]

    assert first("most", 5, **bad) == (
        "judge: 5 of 8 grades failed: 404: no model 'claude-9'; check `model`, `provider` and `base_url` in "
        f"[judge], then `replay run --resume {RUN_ID}` grades again"
    )
    votes = (Vote(index=0, state=GradeState.SCORED, score=1.0), Vote(index=1, state=GradeState.TRUNCATED))
    assert first("votes", 8, votes=votes) == (
        "judge: 8 of 8 grades failed: truncated; raise `max_tokens` in [judge] for the next run"
    )
    assert "grades failed" not in first("half", 4, **bad)
    assert "grades failed" not in first("abstained", 8, reason="nothing to judge by")


def test_ship_does_not_hide_what_an_uncalibrated_judge_saw(tmp_path: Path) -> None:
    items = [item(f"t{n}") for n in range(60)]
    done = [t for one in items for t in trials(one, old="111", new="111")]
    grades = [
        judged(one, lane, index, 0.0 if lane == "new" and n == 0 else 1.0)
        for n, one in enumerate(items)
        for lane in ("old", "new")
        for index in range(3)
    ]
    result = diffed(tmp_path, items, done, grades=grades)
    assert (result.answer, result.counts.regressed) == (Answer.SHIP, 1)
    assert (
        "; no item regressed (judge, which does not decide, counts 1); the answers are not" in result.reason
    )


@pytest.mark.parametrize(
    ("agreement", "labels", "prompt", "gated"),
    [(0.9, 60, "p", True), (0.8, 60, "p", False), (0.9, 40, "p", False), (0.9, 60, "another", False)],
)
def test_a_judge_decides_only_when_calibrated_for_its_prompt(
    tmp_path: Path, agreement: float, labels: int, prompt: str, gated: bool
) -> None:
    file = tmp_path / "cases" / "calibration" / f"{judge_hash('m', prompt, 'r')}.json"
    file.parent.mkdir(parents=True)
    bound = {"model": "m", "prompt_hash": prompt, "rubric_hash": "r"}
    lane = {
        "labels": labels // 2,
        "agreement": 0.95,
        "agreement_low": agreement,
        "constant": 0.6,
        "kappa_low": 0.5,
    }
    lanes = {"old": lane, "new": lane}
    file.write_text(json.dumps({**bound, "agreement": 0.95, "labels": labels, "kappa": 0.7, "lanes": lanes}))
    items = [item("a"), item("b")]
    done = [t for one in items for t in trials(one, old="1", new="1")]
    grades = [judged(one, lane, 0, 1.0) for one in items for lane in ("old", "new")]
    metric = diffed(tmp_path, items, done, grades=grades).metrics["judge"]
    assert metric.gated is gated
    assert (metric.calibration or {}).get("labels") == (labels if prompt == "p" else None)


def test_grades_of_one_judge_version_count(tmp_path: Path) -> None:
    items = [item("a"), item("b")]
    done = [t for one in items for t in trials(one, old="1", new="1")]
    grades = [
        *[judged(one, lane, 0, 1.0) for one in items for lane in ("old", "new")],
        *[judged(one, "new", 0, 0.0, grader_version="p2") for one in items],
    ]
    assert diffed(tmp_path, items, done, grades=grades).metrics["judge"].delta == 0.0


def test_votes_that_abstain_leave_the_item_open(tmp_path: Path) -> None:
    items = [item("a"), item("b")]
    done = [t for one in items for t in trials(one, old="1", new="1")]
    grades = [judged("a", "old", 0, 1.0), judged("a", "new", 0, None)]
    grades += [judged("b", lane, 0, 1.0) for lane in ("old", "new")]
    result = diffed(tmp_path, items, done, grades=grades)
    assert result.items[0].metrics["judge"].verdict is Verdict.INCONCLUSIVE
    assert result.metrics["judge"].bounds == (-0.5, 0.0)


def test_metrics_that_point_both_ways_are_mixed(tmp_path: Path) -> None:
    items = [item("a"), item("b")]
    done = [*trials("a", old="1", new="0"), *trials("b", old="1", new="1")]
    grades = [judged("a", "old", 0, 0.0), judged("a", "new", 0, 1.0)]
    result = diffed(tmp_path, items, done, grades=grades)
    assert result.items[0].verdict is Verdict.MIXED
    assert result.counts.mixed == 1


def test_an_old_lane_that_left_its_tape_cannot_carry_a_conclusion(tmp_path: Path) -> None:
    items = [item(f"t{n}") for n in range(10)]
    miss = ToolCall(name="lookup", args={"x": 1})
    done = [
        t
        for one in items
        for t in (
            trial(one, "old", calls=[miss], rules=[Rule.MISS], status=Status.DIVERGED),
            trial(one, "new"),
        )
    ]
    result = diffed(tmp_path, items, done)
    assert result.answer is Answer.CANNOT_TELL
    assert result.reason == result.warnings[0]
    assert result.reason.startswith("the replay cannot be trusted: only 0% of the old version's tool calls")
    assert result.warnings[1].startswith("10 of 10 old trials made a tool call that no recording answers")
    assert result.lanes[Lane.OLD].fidelity == 0.0
    assert "ignore_args" not in result.reason


def test_an_old_lane_that_left_its_tape_by_one_argument_names_the_setting_for_it(tmp_path: Path) -> None:
    recorded = ToolCall(name="crm.refund", args={"order_id": "1", "note": "as agreed"}, result="done")
    items = [item(f"t{n}", tape=(recorded,)) for n in range(10)]
    reworded = ToolCall(name="crm.refund", args={"order_id": "1", "note": "agreed on the phone"})
    done = [
        t
        for one in items
        for t in (
            trial(one, "old", calls=[reworded], rules=[Rule.MISS], status=Status.DIVERGED),
            trial(one, "new"),
        )
    ]
    result = diffed(tmp_path, items, done)
    assert result.answer is Answer.CANNOT_TELL
    assert result.reason.endswith(
        "; 10 of 10 unanswered calls differ from the recording only in note of crm.refund: "
        'if its value does not matter, write [tools."crm.refund"] ignore_args = ["note"]'
    )


def test_lanes_that_are_stopped_share_a_warning_with_the_setting_that_ends_it(tmp_path: Path) -> None:
    refund = ToolCall(name="refund", args={"id": "1", "note": "as agreed"}, result="done")
    reworded = ToolCall(name="refund", args={"id": "1", "note": "agreed on the phone"})
    other = ToolCall(name="refund", args={"id": "2", "note": "as agreed"})
    items = [item(f"t{n}", tape=(refund,)) for n in range(10)]
    stopped = {"rules": [Rule.MISS], "status": Status.DIVERGED}
    done = []
    for number, one in enumerate(items):
        # Most of the old trials repeat the recording, so that it can be compared with at all.
        for lane in ("old", "old2"):
            done.append(
                trial(one, lane, calls=[refund])
                if number < 8
                else trial(one, lane, calls=[reworded], **stopped)
            )
        done.append(trial(one, "new", calls=[other], **stopped))
    result = diffed(tmp_path, items, done)
    (found,) = [warning for warning in result.warnings if "no recording answers" in warning]
    assert found == (
        "2 of 10 old, 10 of 10 new and 2 of 10 old2 trials made a tool call that no recording answers, most often "
        "refund (other arguments than recorded), and were stopped there: their responses are not graded; 4 of 4 "
        "unanswered calls differ from the recording only in note of refund: if its value does not matter, write "
        '[tools.refund] ignore_args = ["note"]'
    )


def test_an_old_lane_that_does_something_else_than_recorded_is_no_witness(tmp_path: Path) -> None:
    items = [item(f"t{n}") for n in range(10)]
    done = [t for one in items for t in (trial(one, "old", passed=False), trial(one, "new"))]
    result = diffed(tmp_path, items, done)
    assert result.answer is Answer.CANNOT_TELL
    assert "took the recorded tool path in only 0% of its trials" in result.reason


@pytest.mark.parametrize(
    ("outcomes", "answer"),
    [
        ("1111111110", "SHIP"),
        ("1111000000", "HOLD"),
        ("1111111EEE", "CAN'T TELL"),
        ("1111100EEE", "CAN'T TELL"),
    ],
)
def test_one_lane_is_held_against_the_threshold(tmp_path: Path, outcomes: str, answer: str) -> None:
    items = [case(f"c{n}") for n in range(10)]
    done = [t for one, outcome in zip(items, outcomes, strict=True) for t in trials(one, new=outcome)]
    result = diffed(tmp_path, items, done)
    assert result.answer.value == answer
    metric = result.metrics["tool_calls"]
    assert (metric.old, metric.delta, metric.ci, metric.p) == (None, None, None, None)
    assert list(result.lanes) == [Lane.NEW]


def test_the_month_is_estimated_by_weights(tmp_path: Path) -> None:
    """Nine of ten traces of the month are like `a`, one is like `b`; the sample has one of each."""
    items = [item("a", weight=90.0, stratum="common"), item("b", weight=10.0, stratum="rare")]
    done = [*trials("a", old="1", new="1"), *trials("b", old="1", new="0")]
    drawn = SampleRecord(
        name="oct",
        created_at=WHEN,
        month="2026-10",
        where=None,
        by=("tool_path",),
        size=2,
        seed=7,
        population=100,
    )
    members = [
        SampleItem(sample="oct", trace_id=one.id, position=n, stratum=one.stratum, weight=one.weight)
        for n, one in enumerate(items)
    ]
    with open_store(tmp_path / "replay.duckdb") as con:
        write_sample(con, drawn, members)
    metric = diffed(tmp_path, items, done, sample="oct", golden_path=None).metrics["tool_calls"]
    assert (metric.delta, metric.sample_delta) == (-0.1, -0.5)
    assert (metric.old, metric.new) == (1.0, pytest.approx(0.9))


def test_a_golden_set_stands_for_itself(tmp_path: Path) -> None:
    result = diffed(
        tmp_path, [case("a"), case("b")], [*trials("a", old="1", new="1"), *trials("b", old="1", new="1")]
    )
    assert result.metrics["tool_calls"].design_effect is None


def test_too_wide_an_interval_asks_for_a_larger_sample(tmp_path: Path) -> None:
    items = [item(f"t{n}") for n in range(20)]
    drawn = SampleRecord(
        name="oct",
        created_at=WHEN,
        month="2026-10",
        where="model = 'm'",
        by=("tool_path",),
        size=20,
        seed=7,
        population=900,
    )
    members = [
        SampleItem(sample="oct", trace_id=one.id, position=n, stratum="-", weight=45.0)
        for n, one in enumerate(items)
    ]
    with open_store(tmp_path / "replay.duckdb") as con:
        write_sample(con, drawn, members)
    done = [t for one in items for t in trials(one, old="111", new="111")]
    result = diffed(tmp_path, items, done, sample="oct", golden_path=None)
    assert result.answer is Answer.CANNOT_TELL
    assert result.next == f"replay compare --continue {RUN_ID} --size 110"


def test_slices_have_enough_items_and_never_all(tmp_path: Path) -> None:
    items = [item(f"t{n}", tags=("eu",) if n < 6 else ("us", "few") if n < 9 else ("us",)) for n in range(20)]
    done = [t for n, one in enumerate(items) for t in trials(one, old="111", new="000" if n < 6 else "111")]
    parts = diffed(tmp_path, items, done).slices
    assert [(part.by, part.value, part.items, part.delta) for part in parts] == [
        ("tag", "eu", 6, -1.0),
        ("tag", "us", 14, 0.0),
    ]
    # Six of six items fell: 2/2⁶. The slice in which nothing changed is not tested.
    assert [part.p for part in parts] == [pytest.approx(2 / 2**6), None]
    assert (parts[0].old, parts[0].new, parts[0].share) == pytest.approx((1.0, 0.0, 0.3))
    assert (parts[0].regressed, parts[0].improved) == (6, 0)


def test_settings_name_the_metrics_that_decide(tmp_path: Path) -> None:
    items = [case(f"c{n}", max_latency_ms=50.0, tool_calls=()) for n in range(5)]
    done = [t for one in items for t in (trial(one, "old", calls=()), trial(one, "new", calls=()))]
    sections = {"gate": GateSection(metrics=("judge",))}
    result = diffed(tmp_path, items, done, sections=sections)
    assert result.reason == "judge must decide, but judge has no grades in this run"
    assert set(result.metrics) == {"tool_calls", "latency"}
