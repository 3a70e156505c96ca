"""Scores on scales of their own: limits are shares of the scale, and lower values may be better."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replaydiff.diff.compute import compute
from replaydiff.diff.judge.calibration import IDENTITY, judge_hash, score_identity
from replaydiff.diff.metrics import scale_of, unclear_direction
from replaydiff.diff.result import Answer, DiffResult
from replaydiff.diff.verdicts import Scale
from replaydiff.replay.errors import SettingsError
from replaydiff.replay.settings import GateSection, JudgeSection, ScoreSection, Settings
from replaydiff.replay.store.traces import write_traces
from tests.diff.build import RUN_ID, case, filled, settings, trial
from tests.store.build import trace as recorded

GATE = GateSection(metrics=("score:help",), max_regressed="100%")


def answered(
    folder: Path,
    old: list[float],
    new: list[float],
    *,
    given_by: str = "",
    judge: JudgeSection | None = None,
    **declared: object,
) -> DiffResult:
    """Eighty cases whose three trials have these scores in turn; a trace says who gave such scores."""
    items = [case(f"c{n:02}") for n in range(80)]
    done = [
        trial(one, lane, index, scores={"help": values[(n + index) % len(values)]})
        for n, one in enumerate(items)
        for lane, values in (("old", old), ("new", new))
        for index in range(3)
    ]
    sections: dict[str, Any] = {
        "gate": GATE,
        "scores": {"help": ScoreSection(**declared)} if declared else {},
    }  # type: ignore[arg-type]
    sections |= {"judge": judge} if judge else {}
    with filled(folder, items, done) as con:
        if given_by:
            write_traces(
                con, [recorded("t0", scores={"help": 1.0}, metadata={"scored_by": {"help": given_by}})]
            )
        return compute(con, RUN_ID, settings(folder, **sections))


def test_limits_are_shares_of_the_scale(tmp_path: Path) -> None:
    """A loss of 0.1 is 2.5 % of the scale from 1 to 5, which is within the tolerance."""
    result = answered(tmp_path, [5.0] + [4.0] * 9, [5.0] + [4.0] * 7 + [3.0, 4.0])
    metric = result.metrics["score:help"]
    assert metric.delta == pytest.approx(-0.1, abs=0.01)
    assert (metric.scale, metric.scale_source) == ((1, 5), "inferred")
    assert result.answer is Answer.SHIP
    assert "; scale 1 to 5, inferred)" in result.reason


def test_a_loss_beyond_the_share_is_held(tmp_path: Path) -> None:
    result = answered(tmp_path, [5.0], [4.5], scale=(1.0, 5.0))
    assert result.answer is Answer.HOLD
    assert "scale 1 to 5, declared): worse by more than 0.2" in result.reason


def test_where_lower_is_better_the_mirror_image_is_compared(tmp_path: Path) -> None:
    result = answered(tmp_path, [1.0], [3.0], scale=(1.0, 5.0), better="lower")
    metric = result.metrics["score:help"]
    assert (metric.old, metric.new, metric.mirrored) == (5.0, 3.0, True)
    assert result.answer is Answer.HOLD
    assert "lower is better" in result.reason


def test_a_score_by_a_judge_does_not_decide(tmp_path: Path) -> None:
    result = answered(tmp_path, [1.0], [1.0], by="judge")
    assert result.answer is Answer.CANNOT_TELL
    assert (
        "score:help comes from a model that evaluates answers, and no hand labels bear it out"
        in result.reason
    )


@pytest.mark.parametrize(
    ("run_id", "agreement_low", "new", "answer", "reason"),
    [
        (RUN_ID, 0.9, 5.0, Answer.SHIP, "score:help 5.00 → 5.00"),
        (RUN_ID, 0.9, 1.0, Answer.HOLD, "worse by more than"),
        ("20261001-000000-aaaa", 0.9, 5.0, Answer.CANNOT_TELL, "0 of 100 labelled pairs are of this run"),
        (RUN_ID, 0.7, 5.0, Answer.CANNOT_TELL, "and 85% is required"),
    ],
    ids=["of this run", "worse", "of another run", "disagrees"],
)
def test_a_calibrated_score_by_a_judge_decides_as_a_judge_does(
    tmp_path: Path, run_id: str, agreement_low: float, new: float, answer: Answer, reason: str
) -> None:
    identity = score_identity("score:help")
    lane = {"agreement": 0.95, "agreement_low": agreement_low, "constant": 0.6, "kappa_low": 0.7}
    pairs = [
        {"run": run_id, "item": f"c{n:02}", "lane": "new", "label": change, "judge": change}
        for n in range(60 if run_id == RUN_ID else 100)
        for change in [-2 / 3 if new < 5 else 0.0]
    ]
    calibration = {
        **dict(zip(IDENTITY, identity, strict=True)),
        "agreement": 0.95,
        "labels": 120,
        "lanes": {side: {"labels": 60, **lane} for side in ("old", "new")},
        "pairs": pairs,
        "labelled_by": ["ada", "bo"],
    }
    folder = tmp_path / "cases" / "calibration"
    folder.mkdir(parents=True)
    (folder / f"{judge_hash(*identity)}.json").write_text(json.dumps(calibration))
    points = JudgeSection(scale={"4..5": 3, "3": 2, "1..2": 1})
    result = answered(tmp_path, [5.0], [new], by="judge", judge=points, scale=(1.0, 5.0))
    assert result.answer is answer
    assert reason in result.reason


@pytest.mark.parametrize(
    ("given_by", "declared", "answer"),
    [
        ("judge", {}, Answer.CANNOT_TELL),
        ("person", {}, Answer.SHIP),
        ("judge", {"by": "code"}, Answer.SHIP),
    ],
)
def test_importers_record_who_gave_a_score(
    tmp_path: Path, given_by: str, declared: dict[str, object], answer: Answer
) -> None:
    assert answered(tmp_path, [1.0], [1.0], given_by=given_by, **declared).answer is answer


def test_a_score_outside_its_scale_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"'help' of c00 is 7, outside the scale \[1, 5\] of \[scores.help\]"
    ):
        answered(tmp_path, [7.0], [4.0], scale=(1.0, 5.0))


@pytest.mark.parametrize("declared", [{"scale": (5.0, 1.0)}, {"scale": (1.0,)}, {"better": "lower"}])
def test_a_scale_that_is_none_is_refused(declared: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="the lowest and the highest value"):
        ScoreSection(**declared)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "ranges", "scale"),
    [
        ([0.2, 0.9], {}, ((0, 1), "unit")),
        ([2.0, 3.0], {}, ((1, 3), "inferred")),
        ([2.0, 3.0], {"x": (1.0, 5.0)}, ((1, 5), "inferred")),
        ([0.0, 80.0], {}, ((0, 100), "inferred")),
        ([-3.0, 400.0], {}, ((-3, 400), "seen")),
    ],
)
def test_a_scale_is_inferred_from_all_traces(
    values: list[float], ranges: dict[str, tuple[float, float]], scale: tuple[tuple[float, float], str]
) -> None:
    (low, high), source = scale
    assert scale_of("score:x", values, Settings(), ranges) == (Scale(low=low, high=high), source)


@pytest.mark.parametrize("name", ["hallucination", "Toxicity", "errorRate", "is_harmful", "bias-score"])
def test_a_score_with_the_name_of_a_fault_decides_only_where_its_direction_is_declared(name: str) -> None:
    refusal = unclear_direction(f"score:{name}", Settings(root=Path()))
    assert refusal
    assert f'set [scores.{name}] better = "lower" with its scale, or better = "higher"' in refusal
    declared = Settings(root=Path(), scores={name: ScoreSection(better="higher")})
    assert unclear_direction(f"score:{name}", declared) is None


@pytest.mark.parametrize(
    "name", ["helpfulness", "no_hallucination", "error-free", "error_handling", "fail_to_pass", "unbiased"]
)
def test_other_scores_are_better_where_they_are_higher(name: str) -> None:
    assert unclear_direction(f"score:{name}", Settings(root=Path())) is None
