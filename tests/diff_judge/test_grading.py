"""Grading a run in the store: what is asked for, what is kept, and what an interruption costs."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from replaydiff.diff.compute import compute
from replaydiff.diff.judge.grading import GradingProgress, GradingReport, grade_run
from replaydiff.diff.judge.judge import Judge, judge_from
from replaydiff.diff.judge.questions import estimate
from replaydiff.diff.judge.votes import OUTAGE
from replaydiff.replay import settings
from replaydiff.replay.errors import CredentialsError, ReplayError, SettingsError, UnavailableError
from replaydiff.replay.llm.base import ModelFailure, ModelRequest
from replaydiff.replay.model import Grade, GradeState, Lane, Status
from replaydiff.replay.store import pending
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.grades import iter_grades
from replaydiff.replay.store.item_trials import iter_trials
from replaydiff.replay.store.runs import create_run, get_run, iter_items
from replaydiff.replay.store.trials import write_trials
from replaydiff.reports.phrases import metric_notes
from tests.diff_judge.records import RUN, Scripted, item, judge, points, store, trial
from tests.stand_ins.full import full
from tests.stand_ins.messages_api import Fault, StandIn


def _grade(path: Path, with_: Judge, **options: object) -> GradingReport:
    with open_store(path) as con:
        return grade_run(con, RUN, with_, **options)  # type: ignore[arg-type]


def _grades(path: Path) -> list[Grade]:
    with open_store(path, read_only=True) as con:
        return list(iter_grades(con, RUN))


def _response(request: ModelRequest) -> str:
    text = request.messages[0].text.removeprefix("<data>\n").removesuffix("\n</data>")
    response: str = json.loads(text)["response"]
    return response


def _ten(path: Path, response: str = "Answer {}.") -> Path:
    items = [item(number) for number in range(5)]
    trials = [
        trial(one, lane, final_response=response.format(f"{one.id} {lane}"))
        for one in items
        for lane in (Lane.OLD, Lane.NEW)
    ]
    return store(path / "s.duckdb", items, trials)


def test_every_ok_trial_gets_a_grade_bound_to_its_judge(tmp_path: Path) -> None:
    one = item()
    path = store(
        tmp_path / "s.duckdb",
        [one],
        [
            trial(one, final_response="fine"),
            trial(one, Lane.NEW, 0, status=Status.DIVERGED),
            trial(one, Lane.NEW, 1, status=Status.AGENT_ERROR),
            trial(one, Lane.NEW, 2, final_response=None),
        ],
    )
    left = iter((1, 1, 1, 3, 2, 2))
    with_ = judge(Scripted(lambda _: points(next(left))), concurrency=1)
    report = _grade(path, with_)
    assert (report.graded, report.calls, report.cost_usd) == (2, 6, pytest.approx(0.06))
    new, old = _grades(path)
    assert (new.lane, new.trial, new.passed) == (Lane.NEW, 2, False)
    assert (old.grader, old.grader_version) == ("judge", with_.version)
    assert old.score == pytest.approx(7 / 9)
    assert old.detail == {
        "model": "claude-opus-5-5",
        "prompt_hash": with_.id.prompt_hash,
        "rubric_hash": with_.id.rubric_hash,
        "spread": pytest.approx(1 / 3),
    }
    assert [vote.score for vote in old.votes] == [1.0, pytest.approx(2 / 3), pytest.approx(2 / 3)]


def test_a_second_call_asks_for_nothing(tmp_path: Path) -> None:
    path = _ten(tmp_path)
    model = Scripted(lambda _: points(3))
    _grade(path, judge(model))
    report = _grade(path, judge(model))
    assert (report.graded, report.already_graded, report.calls, report.cost_usd) == (0, 10, 0, 0)
    assert len(model.asked) == 30


def test_more_votes_ask_for_the_missing_ones_alone(tmp_path: Path) -> None:
    path = _ten(tmp_path)
    _grade(path, judge(Scripted(lambda _: points(1)), votes=1))
    report = _grade(path, judge(Scripted(lambda _: points(3)), votes=3))
    assert report.calls == 20
    assert {tuple(vote.score for vote in grade.votes) for grade in _grades(path)} == {(1 / 3, 1.0, 1.0)}


def test_another_rubric_is_another_judge(tmp_path: Path) -> None:
    path = _ten(tmp_path)
    first = judge(Scripted(lambda _: points(3)))
    _grade(path, first)
    second = judge(Scripted(lambda _: points(3)), id=judge_id(first, rubric_hash="another"))
    assert _grade(path, second).graded == 10
    assert len(_grades(path)) == 20


def judge_id(of: Judge, **changes: str) -> object:
    from dataclasses import replace

    return replace(of.id, **changes)


def test_the_same_material_is_judged_once(tmp_path: Path) -> None:
    one, other = item(1), item(2)
    trials = [trial(one, lane, index) for lane in (Lane.OLD, Lane.NEW, Lane.OLD2) for index in range(3)] + [
        trial(other)
    ]
    path = store(tmp_path / "s.duckdb", [one, other], trials)
    model = Scripted(lambda _: points(2))
    report = _grade(path, judge(model))
    assert (report.graded, report.shared, report.calls) == (10, 8, 6)
    assert report.cost_usd == pytest.approx(0.06)
    assert sum(grade.cost_usd or 0 for grade in _grades(path)) == pytest.approx(0.06)


@pytest.mark.parametrize("concurrency", [pytest.param(1, marks=full), 4, pytest.param(30, marks=full)])
@pytest.mark.parametrize("failing", [2, 3, 4])
def test_equal_answers_share_the_votes_that_failed_before_too(
    tmp_path: Path, concurrency: int, failing: int
) -> None:
    items = [item(number) for number in range(6)]
    trials = [trial(one, lane, index) for one in items for lane in (Lane.OLD, Lane.NEW) for index in range(3)]
    path, number = store(tmp_path / "s.duckdb", items, trials), itertools.count()
    shaky = Scripted(lambda _: ModelFailure("400 no") if next(number) % failing == 0 else points(3))
    report = _grade(path, judge(shaky, concurrency=concurrency))
    missing = len(range(0, 18, failing))
    assert (len(shaky.asked), report.calls, report.graded) == (18, 18, 36)
    steady = Scripted(lambda _: points(3))
    assert _grade(path, judge(steady, concurrency=concurrency)).calls == missing
    assert len(steady.asked) == missing
    assert {len(grade.votes) for grade in _grades(path)} == {3}
    assert {grade.state for grade in _grades(path)} == {GradeState.SCORED}
    assert _grade(path, judge(steady)).calls == 0


def test_a_vote_has_content_before_it_is_used(tmp_path: Path) -> None:
    path, kept = _ten(tmp_path), []

    def look(_: ModelRequest) -> str:
        kept.append(pending.count(path))
        return points(3)

    with open_store(path) as con:
        grade_run(con, RUN, judge(Scripted(look), concurrency=1, votes=3))
    # Each of the ten trials' three votes is beside the store before the next is asked for.
    assert kept[:3] == [0, 1, 2]
    assert pending.count(path) == 0


def test_votes_that_failed_are_asked_for_again_and_paid_ones_are_not(tmp_path: Path) -> None:
    path = _ten(tmp_path)
    number = iter(range(1000))
    shaky = Scripted(lambda _: points(3) if next(number) % 3 == 0 else ModelFailure("529 overloaded"))
    report = _grade(path, judge(shaky))
    assert report.states == {GradeState.ABSTAINED: 10}
    assert report.first_failure == "529 overloaded"
    report = _grade(path, judge(Scripted(lambda _: points(3))))
    assert report.calls == 20
    assert {grade.state for grade in _grades(path)} == {GradeState.SCORED}


def test_the_budget_stops_it_and_the_next_call_goes_on(tmp_path: Path) -> None:
    path = _ten(tmp_path)
    report = _grade(path, judge(Scripted(lambda _: points(3))), budget_usd=0.155)
    assert report.calls == 15
    assert report.left >= 5
    assert report.cost_usd == pytest.approx(0.15)
    report = _grade(path, judge(Scripted(lambda _: points(3))))
    assert report.calls == 15
    assert {grade.state for grade in _grades(path)} == {GradeState.SCORED}


def test_an_unknown_price_is_an_unknown_cost(tmp_path: Path) -> None:
    assert _grade(_ten(tmp_path), judge(Scripted(lambda _: points(3), cost=None))).cost_usd is None


def test_what_concerns_every_call_stops_it_with_one_error_and_keeps_what_was_graded(tmp_path: Path) -> None:
    path = _ten(tmp_path)

    def say(request: ModelRequest) -> str | Exception:
        return CredentialsError("the key is gone") if "t-003" in _response(request) else points(3)

    model = Scripted(say)
    with pytest.raises(CredentialsError, match="the key is gone"):
        _grade(path, judge(model, concurrency=1))
    assert len(_grades(path)) == 6
    assert len(model.asked) < 24


def test_a_judge_whose_provider_is_gone_is_stopped_and_one_that_refuses_is_not(tmp_path: Path) -> None:
    path, number = _ten(tmp_path), itertools.count()
    gone = Scripted(lambda _: points(3) if next(number) < 5 else ModelFailure("503 busy"))
    with pytest.raises(UnavailableError, match=rf"{OUTAGE} of its votes in a row failed .*503 busy"):
        _grade(path, judge(gone, concurrency=1))
    assert len(gone.asked) in range(5 + OUTAGE, 5 + OUTAGE + 3)
    refusing = Scripted(lambda _: ModelFailure("400 no", passing=False))
    assert _grade(path, judge(refusing)).calls == 30 - 5
    assert _grade(path, judge(Scripted(lambda _: points(3)))).calls == 30 - 5


def test_a_vote_between_failures_shows_that_the_provider_is_there(tmp_path: Path) -> None:
    path, number = _ten(tmp_path), itertools.count(1)
    shaky = Scripted(lambda _: ModelFailure("503 busy") if next(number) % OUTAGE else points(3))
    assert _grade(path, judge(shaky, concurrency=1)).calls == 30


def test_nothing_to_judge_by(tmp_path: Path) -> None:
    bare = item(recorded_response=None)
    path = store(tmp_path / "s.duckdb", [bare], [trial(bare)])
    model = Scripted(lambda _: points(3))
    assert _grade(path, judge(model)).without_standard == 1
    assert not model.asked
    assert _grade(path, judge(model, user_rubric=True)).graded == 1


def test_progress_counts_up_to_the_total(tmp_path: Path) -> None:
    seen: list[GradingProgress] = []
    _grade(_ten(tmp_path), judge(Scripted(lambda _: points(3))), progress=seen.append)
    assert [progress.done for progress in seen] == list(range(1, 11))
    assert {progress.total for progress in seen} == {10}
    assert seen[-1].spent_usd == pytest.approx(0.3)


def test_kin_are_named(tmp_path: Path) -> None:
    (warning,) = _grade(_ten(tmp_path), judge(Scripted(lambda _: points(3)))).warnings
    assert "one family (Claude)" in warning


def _settings(folder: Path, judge_lines: str) -> settings.Settings:
    (folder / "replay.toml").write_text(f"[judge]\n{judge_lines}\n")
    return settings.load(folder, {})


def test_no_model_is_no_judge(tmp_path: Path) -> None:
    assert judge_from(_settings(tmp_path, "votes = 3")) is None


def test_a_judge_without_a_key_is_refused_before_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    with pytest.raises(CredentialsError, match="ANTHROPIC_API_KEY is not set"):
        judge_from(_settings(tmp_path, 'model = "claude-opus-5-5"'))


@pytest.mark.parametrize(
    ("content", "words"), [(None, "cannot be read"), ("  \n", "is empty"), (b"\xff", "UTF-8")]
)
def test_a_rubric_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | bytes | None, words: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    if content is not None:
        (tmp_path / "rubric.md").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SettingsError, match=words):
        judge_from(_settings(tmp_path, 'model = "claude-opus-5-5"\nrubric = "rubric.md"'))


def test_the_judge_over_the_real_client(tmp_path: Path) -> None:
    path = _ten(tmp_path)
    with StandIn(faults=[Fault(status=429, retry_after=0.05), Fault(status=529)], remember=True) as stand_in:
        with_ = judge_from(_settings(tmp_path, f'model = "claude-opus-5-5"\nbase_url = "{stand_in.url}"'))
        assert with_ is not None
        report = _grade(path, with_)
        assert {received.body["model"] for received in stand_in.received} == {"claude-opus-5-5"}
    assert (report.graded, report.calls, report.cost_usd) == (10, 30, 0)
    assert report.states == {GradeState.SCORED: 10}
    assert with_.id.model == "claude-opus-5-5 on loopback"


def test_a_wrong_key_is_one_sentence(tmp_path: Path) -> None:
    path = _ten(tmp_path)
    with StandIn(faults=[Fault(status=401)] * 50) as stand_in:
        with_ = judge_from(_settings(tmp_path, f'model = "claude-opus-5-5"\nbase_url = "{stand_in.url}"'))
        assert with_ is not None
        with pytest.raises(ReplayError, match="does not accept the key"):
            _grade(path, with_)


def test_the_diff_says_what_of_the_uncertainty_is_the_judges(tmp_path: Path) -> None:
    """A judge whose votes on one response differ, over an agent that always says the same."""
    path = _ten(tmp_path)
    turn = itertools.cycle((1, 3, 2))
    _grade(path, judge(Scripted(lambda _: points(next(turn))), concurrency=1))
    with open_store(path) as con:
        con.execute("UPDATE runs SET sample = NULL")
        write_trials(con, [trial(item(number), Lane.OLD2) for number in range(5)])
        metric = compute(con, RUN, settings.Settings(root=tmp_path)).metrics["judge"]
    assert metric.split is not None
    assert metric.split.votes == pytest.approx(1 / 3)
    assert (metric.split.trials, metric.split.buy) == (None, "votes")
    notes = [note.replace("\u00a0", " ") for note in metric_notes("judge", metric)]
    assert "uncertainty: judge 100 %, items 0 %; more votes would narrow it most" in notes


def test_another_run_pays_only_for_what_is_new(tmp_path: Path) -> None:
    """Votes are known by what was asked: of ten responses in a later run, two are new."""
    path = _ten(tmp_path)
    _grade(path, judge(Scripted(lambda _: points(3))))
    with open_store(path) as con:
        create_run(con, replace(get_run(con, RUN), id="later"), list(iter_items(con, RUN)))
        copied = [replace(done, run_id="later") for done in iter_trials(con, RUN)]
        copied[:2] = [replace(done, final_response=f"new {n}") for n, done in enumerate(copied[:2])]
        write_trials(con, copied)
        model = Scripted(lambda _: points(1))
        report = grade_run(con, "later", judge(model))
        scores = sorted(grade.score or 0 for grade in iter_grades(con, "later"))
    assert (report.graded, report.calls, len(model.asked)) == (10, 6, 6)
    assert report.cost_usd == pytest.approx(0.06)
    assert scores == [pytest.approx(1 / 3)] * 2 + [1.0] * 8


def test_more_votes_or_another_rubric_pay_for_those_alone(tmp_path: Path) -> None:
    path = _ten(tmp_path)
    _grade(path, judge(Scripted(lambda _: points(3))))
    assert _grade(path, judge(Scripted(lambda _: points(1)), votes=5)).calls == 20
    other = replace(judge(Scripted(lambda _: points(2))).id, rubric_hash="another")
    assert _grade(path, judge(Scripted(lambda _: points(2)), id=other)).calls == 30
    with open_store(path, read_only=True) as con:
        assert estimate(con, RUN, judge(Scripted(lambda _: points(2)), votes=5)).votes == 0
        ahead = estimate(con, RUN, judge(Scripted(lambda _: points(2)), votes=6))
    assert ahead.votes == 10
    # About 700 tokens in and 120 out, at $4 and $20 a million.
    assert ahead.cost_usd == pytest.approx(10 * (700 * 4 + 120 * 20) / 1e6, rel=0.3)


def test_of_two_judges_that_graded_all_the_one_of_the_settings_counts(tmp_path: Path) -> None:
    path = _ten(tmp_path)
    (tmp_path / "a.md").write_text("3 is good.")
    (tmp_path / "b.md").write_text("1 is good.")
    chosen = {
        name: _settings(tmp_path, f'model = "m"\nrubric = "{name}.md"\nbase_url = "http://127.0.0.1:9"')
        for name in ("a", "b")
    }
    for name, score in (("a", 3), ("b", 1)):
        with_ = judge_from(chosen[name])
        assert with_ is not None
        _grade(path, judge(Scripted(lambda _, score=score: points(score)), id=with_.id))  # type: ignore[misc]
    with open_store(path) as con:
        con.execute("UPDATE runs SET sample = NULL")
        write_trials(con, [trial(item(number), Lane.OLD2) for number in range(5)])
        found = {name: compute(con, RUN, one).metrics["judge"].new for name, one in chosen.items()}
    assert found == {"a": 1.0, "b": pytest.approx(1 / 3)}


PROVIDER = """
class Judge:
    def complete_json(self, *, model, prompt):
        assert "JSON Schema" in prompt and "<data>" in prompt, prompt
        return '```json\\n{"reasoning": "by ' + model + '", "score": 2}\\n```'

async def ask(*, model, prompt):
    if "t-003" in prompt:
        raise OSError("the line is dead")
    return '{"reasoning": "fine", "score": 3}'

def wrong(text):
    return text

NONE = 3
"""


def test_a_provider_of_ones_own_is_one_method(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PROVIDER)
    path = _ten(tmp_path)
    for target, states in (
        ("./mine.py:Judge", {GradeState.SCORED: 10}),
        ("mine:ask", {GradeState.SCORED: 8, GradeState.ERROR: 2}),
    ):
        with_ = judge_from(_settings(tmp_path, f'model = "house-1"\nprovider = "{target}"'))
        assert with_ is not None
        assert with_.id.model == f"house-1 by {target}"
        report = _grade(path, with_)
        assert report.states == states
        assert report.cost_usd is None
        assert report.first_failure in (None, "the provider failed: OSError: the line is dead")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("opnai", "there is no provider 'opnai'; did you mean 'openai'?"),
        ("./mine.py:wrong", "cannot be made: TypeError"),
        ("./mine.py:NONE", "is not a function"),
        ("./other.py:Judge", "cannot be loaded"),
    ],
)
def test_what_is_no_provider_is_said_before_anything_is_asked(
    tmp_path: Path, target: str, words: str
) -> None:
    (tmp_path / "mine.py").write_text(PROVIDER)
    with pytest.raises(ReplayError, match=re.escape(words)):
        judge_from(_settings(tmp_path, f'model = "house-1"\nprovider = "{target}"'))
