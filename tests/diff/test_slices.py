"""Who is harmed: slices are found by themselves, named in the first sentence, and accepted like causes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from replaydiff.diff.cause_decisions import decisions_path, write_decisions
from replaydiff.diff.compute import compute
from replaydiff.diff.result import Answer, CauseState, DiffResult
from replaydiff.diff.slices import groups_of
from replaydiff.replay.bisect.start import cause_of_run
from replaydiff.replay.model import Item
from replaydiff.replay.settings import GateSection
from tests.diff.build import RUN_ID, WHEN, case, filled, item, settings, trials

PLANS = ["enterprise"] * 12 + ["free"] * 36 + ["pro"] * 32
LENIENT = GateSection(max_regressed="50%")
HARM = "metadata.plan = enterprise: 1.00 → 0.00 on 12 items, 15% of the traffic"


def answered(folder: Path, gate: GateSection = LENIENT, *, worse: str = "enterprise") -> DiffResult:
    """Eighty cases of three plans: the free ones get better, those of `worse` fail from now on."""
    folder.mkdir(exist_ok=True)
    items = [replace(case(f"c{n:02}"), metadata={"plan": plan}) for n, plan in enumerate(PLANS)]
    outcomes = {"free": {"old": "000", "new": "111"}} | {worse: {"old": "111", "new": "000"}}
    done = [
        each
        for one, plan in zip(items, PLANS, strict=True)
        for each in trials(one, **outcomes.get(plan, {"old": "111", "new": "111"}))
    ]
    with filled(folder, items, done) as con:
        return compute(con, RUN_ID, settings(folder, gate=gate))


def test_a_gain_on_average_does_not_hide_a_slice_that_got_worse(tmp_path: Path) -> None:
    result = answered(tmp_path)
    assert (result.metrics["tool_calls"].ci or (0, 0))[0] > 0
    assert result.answer is Answer.CANNOT_TELL
    assert result.reason.endswith(f"on average, but worse where {HARM}: accept or reject that")
    assert result.next == f"replay triage {RUN_ID}"
    (cause,) = [cause for cause in result.causes if cause.part]
    assert (cause.items, cause.counts) == (12, "new 36 of 36 trials, old 0")
    assert cause.examples[0].item == "c00"


def test_harm_that_takes_two_fields_is_named(tmp_path: Path) -> None:
    """One plan in one country fails; every plan and every country as a whole gets better."""
    fields = [(plan, country) for plan in "ab" for country in "xy" for _ in range(12)]
    items = [
        replace(case(f"c{n:02}"), metadata={"plan": plan, "country": country})
        for n, (plan, country) in enumerate(fields)
    ]
    done = [
        each
        for one, field in zip(items, fields, strict=True)
        for each in trials(
            one, **({"old": "111", "new": "000"} if field == ("a", "x") else {"old": "000", "new": "111"})
        )
    ]
    with filled(tmp_path, items, done) as con:
        result = compute(con, RUN_ID, settings(tmp_path, gate=LENIENT))
    assert result.answer is Answer.CANNOT_TELL
    (cause,) = [cause for cause in result.causes if cause.part]
    assert "metadata.plan × metadata.country = a × x: 1.00 → 0.00 on 12 items" in cause.text
    single = [part for part in result.slices if "×" not in part.by and part.by.startswith("metadata.")]
    assert single
    assert all((part.delta or 0.0) >= 0 for part in single)


def test_slices_that_are_only_reported_stay_in_the_first_sentence(tmp_path: Path) -> None:
    result = answered(tmp_path, replace(LENIENT, slices="report"))
    assert result.answer is Answer.SHIP
    assert f"on average, but worse where {HARM};" in result.reason


@pytest.mark.parametrize(
    ("state", "answer"), [(CauseState.ACCEPTED, Answer.SHIP), (CauseState.REJECTED, Answer.HOLD)]
)
def test_a_slice_is_accepted_and_rejected_like_a_cause(
    tmp_path: Path, state: CauseState, answer: Answer
) -> None:
    causes = [cause for cause in answered(tmp_path / "first").causes if cause.part]
    (tmp_path / "second").mkdir()
    path = decisions_path(settings(tmp_path / "second"))
    write_decisions(path, causes, state, run=RUN_ID, by="Ada", at=WHEN)
    result = answered(tmp_path / "second")
    assert result.answer is answer
    assert ("metadata.plan = enterprise" in result.reason) is (answer is Answer.HOLD)


def test_the_commit_behind_a_slice_is_searched_by_the_metric_that_fell(tmp_path: Path) -> None:
    (cause,) = [cause for cause in answered(tmp_path).causes if cause.part]
    searched = cause_of_run(tmp_path / "replay.duckdb", settings(tmp_path, gate=LENIENT), RUN_ID, cause.id)
    assert (searched.metric, searched.shown_alone, len(searched.items)) == ("tool_calls", False, 12)


def test_a_rare_stratum_that_broke_wholly_is_named(tmp_path: Path) -> None:
    items = [item(f"t{n:02}", stratum="refund" if n < 2 else "faq") for n in range(80)]
    done = [t for n, one in enumerate(items) for t in trials(one, old="111", new="000" if n < 2 else "111")]
    sections = {"gate": LENIENT, "match": settings(tmp_path).match}
    with filled(tmp_path, items, done) as con:
        result = compute(con, RUN_ID, settings(tmp_path, **sections))
    assert result.reason.endswith("; both items of stratum = refund (2% of the traffic) now fail")


def test_numbers_with_many_values_are_cut_into_thirds_and_ids_are_no_slice() -> None:
    items = [
        Item(id=f"i{n}", metadata={"age": n, "customer": f"c{n}", "eu": n % 2 == 0, "deep": {"tier": n % 3}})
        for n in range(30)
    ]
    groups = groups_of(items)
    assert {name for name, _ in groups} == {
        "metadata.age", "metadata.eu", "metadata.deep.tier", "turns",
        "metadata.age × metadata.eu", "metadata.eu × metadata.deep.tier",
    }  # fmt: skip
    assert [len(groups["metadata.age", value]) for value in ("up to 9", "above 9 up to 19", "above 19")] == [
        10, 10, 10
    ]  # fmt: skip
    assert groups["metadata.eu", "true"] == list(range(0, 30, 2))
    assert len(groups_of(items, ("customer",))) == len(groups) + 30
