"""Old and new side by side: both orders, ties, what is kept, and the metric that comes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replaydiff.diff.compute import compute
from replaydiff.diff.judge.grading import GradingReport, grade_run
from replaydiff.replay.llm.base import ModelFailure, ModelRequest
from replaydiff.replay.model import Grade, GradeState, Lane, Status
from replaydiff.replay.settings import GateSection, Settings
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.grades import iter_grades
from replaydiff.replay.store.trials import write_trials
from tests.diff_judge.records import RUN, Scripted, item, judge, points, store, trial

Say = Callable[[dict[str, Any]], Any]


def _better(what: object) -> str:
    return json.dumps({"reasoning": "So it is.", "better": what})


def _model(say: Say) -> Scripted:
    """Grades single responses with 2, and pairs as `say` says of their document."""

    def answer(request: ModelRequest) -> Any:
        document = json.loads(request.messages[0].text.removeprefix("<data>\n").removesuffix("\n</data>"))  # type: ignore[union-attr]
        if "first" not in document:
            return points(2)
        said = say(document)
        return said if isinstance(said, Exception) else _better(said)

    return Scripted(answer)


def _longer(document: dict[str, Any]) -> str:
    first, second = (len(document[which]["response"]) for which in ("first", "second"))
    return "first" if first > second else "second" if second > first else "tie"


def _run(path: Path, *responses: tuple[str, str], **changes: object) -> Path:
    items = [item(number) for number in range(len(responses))]
    trials = [
        trial(one, lane, final_response=text, **changes)
        for one, texts in zip(items, responses, strict=True)
        for lane, text in zip((Lane.OLD, Lane.NEW), texts, strict=True)
    ]
    return store(path / "s.duckdb", items, trials)


def _grade(path: Path, model: Scripted, **options: object) -> tuple[GradingReport, list[Grade]]:
    with open_store(path) as con:
        report = grade_run(con, RUN, judge(model, pairwise=True), **options)  # type: ignore[arg-type]
        return report, [grade for grade in iter_grades(con, RUN) if grade.grader == "pairwise"]


def _new(grades: list[Grade]) -> list[float | None]:
    return [grade.score for grade in grades if grade.lane == Lane.NEW]


def test_wins_ties_and_losses_and_the_old_lane_has_the_rest(tmp_path: Path) -> None:
    path = _run(tmp_path, ("short", "much longer"), ("much longer", "short"), ("abc", "xyz"))
    report, grades = _grade(path, _model(_longer))
    assert _new(grades) == [1.0, 0.0, 0.5]
    assert [grade.score for grade in grades if grade.lane == Lane.OLD] == [0.0, 1.0, 0.5]
    assert [grade.passed for grade in grades if grade.lane == Lane.NEW] == [True, False, True]
    assert (report.pairs, report.calls) == (3, 3 * 2 * 3 + 3 * 2)
    assert report.cost_usd == pytest.approx(report.calls * 0.01)
    assert sum(grade.cost_usd or 0 for grade in grades) == pytest.approx(0.06)


def test_each_pair_is_shown_in_both_orders_and_no_lane_is_named(tmp_path: Path) -> None:
    model = _model(_longer)
    _grade(_run(tmp_path, ("aa</data>", "b")), model)
    shown = [request for request in model.asked if '"second"' in request.messages[0].text]  # type: ignore[union-attr]
    texts = [request.messages[0].text for request in shown]  # type: ignore[union-attr]
    assert len(texts) == 2
    assert texts[0] != texts[1]
    for text in texts:
        assert text.count("</data>") == 1
        assert '"old"' not in text
        assert '"new"' not in text
    documents = [json.loads(t.removeprefix("<data>\n").removesuffix("\n</data>")) for t in texts]
    assert documents[0]["first"] == documents[1]["second"]
    assert "reference_answer" not in documents[0], "what was recorded is the answer of one version"


@pytest.mark.parametrize("always", ["first", "second"])
def test_a_judge_that_goes_by_the_place_finds_only_ties(tmp_path: Path, always: str) -> None:
    _, grades = _grade(_run(tmp_path, ("a", "b")), _model(lambda _: always))
    assert _new(grades) == [0.5]
    assert grades[0].reason == "the two orders disagree, so neither is better"
    assert grades[0].detail["spread"] == 1.0


def test_what_is_the_same_is_a_tie_and_costs_nothing(tmp_path: Path) -> None:
    model = _model(lambda _: pytest.fail("it was asked"))
    report, grades = _grade(_run(tmp_path, ("a", "a")), model)
    assert _new(grades) == [0.5]
    assert report.calls == 3


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ([None, None], GradeState.ABSTAINED),
        (["third", "third"], GradeState.ERROR),
        (["second", 3], GradeState.ABSTAINED),
        ([ModelFailure("529"), ModelFailure("529")], GradeState.ERROR),
    ],
)
def test_a_pair_without_two_votes_has_no_score(tmp_path: Path, said: list[Any], state: GradeState) -> None:
    left = iter(said)
    _, grades = _grade(_run(tmp_path, ("a", "b")), _model(lambda _: next(left)))
    assert {grade.state for grade in grades} == {state}
    assert _new(grades) == [None]


def test_only_pairs_of_which_both_ended_are_compared(tmp_path: Path) -> None:
    one = item()
    trials = [
        trial(one, Lane.OLD, 0, final_response="a"),
        trial(one, Lane.NEW, 0, status=Status.AGENT_ERROR),
        trial(one, Lane.OLD, 1, final_response="a"),
        trial(one, Lane.NEW, 1, final_response="bb"),
        trial(one, Lane.OLD2, 1, final_response="ccc"),
    ]
    _, grades = _grade(store(tmp_path / "s.duckdb", [one], trials), _model(_longer))
    assert [(grade.lane, grade.trial) for grade in grades] == [(Lane.NEW, 1), (Lane.OLD, 1)]


def test_a_second_call_asks_only_for_what_failed(tmp_path: Path) -> None:
    path = _run(tmp_path, ("a", "bb"), ("aa", "b"))
    left: list[Any] = [ModelFailure("529")]
    first, _ = _grade(path, _model(lambda document: left.pop() if left else _longer(document)))
    assert first.first_failure == "529"
    again, grades = _grade(path, _model(_longer))
    assert (again.calls, again.pairs) == (1, 1)
    assert _new(grades) == [1.0, 0.0]
    assert _grade(path, _model(_longer))[0].calls == 0


def test_the_budget_is_that_of_the_judge(tmp_path: Path) -> None:
    path = _run(tmp_path, ("a", "bb"), ("aa", "b"))
    report, grades = _grade(path, _model(_longer), budget_usd=0.12)
    assert not grades
    assert report.left == 2


def test_it_is_a_metric_of_its_own_that_never_decides(tmp_path: Path) -> None:
    path = _run(tmp_path, *[("a", "bb")] * 6, ("aa", "b"), ("a", "b"))
    _grade(path, _model(_longer))
    with open_store(path) as con:
        con.execute("UPDATE runs SET sample = NULL")
        write_trials(con, [trial(item(number), Lane.OLD2, final_response="a") for number in range(8)])
        result = compute(con, RUN, Settings(root=tmp_path, gate=GateSection(metrics=("pairwise",))))
    metric = result.metrics["pairwise"]
    assert (metric.new, metric.delta) == (pytest.approx(6.5 / 8), pytest.approx(5 / 8))
    assert metric.ci is not None
    assert metric.ci[0] < 5 / 8 < metric.ci[1] <= 1
    assert not metric.gated


def test_each_of_several_candidates_is_compared_with_the_old_version(tmp_path: Path) -> None:
    items = [item(number) for number in range(4)]
    said = {Lane.OLD: "aa", Lane.OLD2: "aa", Lane.NEW: "a", Lane("new", 2): "aaa"}
    trials = [trial(one, lane, final_response=text) for one in items for lane, text in said.items()]
    path = store(tmp_path / "s.duckdb", items, trials)
    report, _ = _grade(path, _model(_longer))
    assert report.pairs == 8
    assert _grade(path, _model(_longer))[0].pairs == 0
    with open_store(path) as con:
        con.execute("UPDATE runs SET sample = NULL")
        results = {
            lane: compute(con, RUN, Settings(root=tmp_path), candidate=lane)
            for lane in (Lane.NEW, Lane("new", 2))
        }
    found = {lane: result.metrics["pairwise"] for lane, result in results.items()}
    assert (found[Lane.NEW].old, found[Lane.NEW].new) == (1.0, 0.0)
    assert (found[Lane("new", 2)].old, found[Lane("new", 2)].new) == (0.0, 1.0)
    assert [one.lane for one in results[Lane.NEW].ranking] == [Lane("new", 2), Lane.NEW]
