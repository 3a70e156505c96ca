"""What a comparison stands for: fixed cases, a sample's population, and what hangs together."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.diff.clusters import clusters_of
from replaydiff.diff.comparison import Comparison, estimate
from replaydiff.diff.reading import RunData
from replaydiff.diff.result import Block, MetricDelta
from replaydiff.diff.statistics import paired, trials
from replaydiff.diff.verdicts import ItemScores, Scale, null_model
from replaydiff.replay.model import Item, Lane, Message, RunRecord, SampleRecord, ToolCall
from tests.diff.build import WHEN, item, version

SCALE = Scale()


def compared(items: list[Item], population: int | None = None, **settings: Any) -> Comparison:
    """A comparison of these items: cases, or a sample of a population."""
    run = RunRecord(
        id="r",
        created_at=datetime(2026, 11, 20),
        lanes={Lane.OLD: version("prod"), Lane.NEW: version("candidate")},
        trials=3,
        seed=1,
        sample=None if population is None else "s",
        settings=settings,
    )
    sample = None
    if population is not None:
        sample = SampleRecord(
            name="s", created_at=WHEN, month=None, where=None, by=(), size=9, seed=1, population=population
        )
    blocks = [Block(item=one, lanes={}) for one in items]
    read = RunData(items=len(items), blocks=blocks, totals_by_lane={}, witnesses={})
    return Comparison.of(run, sample, read, confidence=0.95)


def estimated(
    scores: list[ItemScores], population: int | None = None, weights: list[float] | None = None
) -> MetricDelta:
    items = [item(f"t{n}", weight=1.0 if weights is None else weights[n]) for n in range(len(scores))]
    return estimate(compared(items, population), items, scores, SCALE, null_model(scores, SCALE))


def scores(old: str, new: str, again: str = "") -> ItemScores:
    """`110` is two passes and a failure; `?` a trial without a score."""
    return ItemScores(
        old=tuple(float(c) for c in old if c != "?"),
        new=tuple(float(c) for c in new if c != "?"),
        again=tuple(float(c) for c in again),
        old_unscored=old.count("?"),
        new_unscored=new.count("?"),
    )


def test_the_old_version_and_its_repeat_are_one() -> None:
    found = estimated([scores("111", "101", "001"), scores("111", "111", "111")])
    assert (found.old, found.new, found.n) == (pytest.approx((4 / 6 + 1) / 2), pytest.approx(5 / 6), 2)
    assert found.delta == pytest.approx(0)


def test_the_error_over_fixed_cases_is_that_of_trials_as_statsmodels_has_it() -> None:
    """With one case: the standard error of a difference of means with unequal variances."""
    from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

    rng = np.random.default_rng(3)
    old, new = rng.random(7), rng.random(5)
    grouped = trials.fixed_items([tuple(old)], [tuple(new)], [1.0])
    assert grouped is not None
    theirs = CompareMeans(DescrStatsW(new), DescrStatsW(old)).std_meandiff_separatevar
    count = len(grouped.sums)
    assert paired.standard_error(grouped) == pytest.approx(theirs * (count / (count - 1)) ** 0.5)
    assert grouped.mean == pytest.approx(new.mean() - old.mean())


def test_of_fixed_cases_it_does_not_matter_how_much_they_differ() -> None:
    differ = estimated([scores("000", "111"), *[scores("111", "111")] * 30])
    same = estimated([scores("111", "111")] * 31)
    assert differ.ci is not None
    assert same.ci is not None
    assert differ.ci[1] - differ.ci[0] == pytest.approx(same.ci[1] - same.ci[0], abs=0.02)
    drawn = estimated([scores("000", "111"), *[scores("111", "111")] * 30], population=100_000)
    assert drawn.ci is not None
    assert drawn.ci[1] - drawn.ci[0] > 2 * (differ.ci[1] - differ.ci[0])


def test_a_sample_that_is_its_whole_population_is_a_fixed_set() -> None:
    many = [scores("110", "101"), scores("111", "000"), *[scores("111", "111")] * 20]
    widths = []
    for population in (None, 22, 44, 300, 100_000):
        ci = estimated(many, population).ci
        assert ci is not None
        widths.append(ci[1] - ci[0])
    assert widths[0] == widths[1]
    assert widths == sorted(widths)
    assert widths[2] < widths[3]


def test_weights_decide_what_the_change_is() -> None:
    found = estimated([scores("1", "1"), scores("1", "0")], population=100_000, weights=[90.0, 10.0])
    assert (found.delta, found.sample_delta) == (pytest.approx(-0.1), -0.5)
    assert (found.old, found.new) == (1.0, pytest.approx(0.9))
    assert found.bounds == pytest.approx((-0.1, -0.1))


def test_with_single_trials_the_spread_over_cases_stands_in() -> None:
    single = [scores("1", "0"), *[scores("1", "1")] * 20]
    assert estimated(single).ci == estimated(single, population=100_000).ci


def test_each_end_takes_trials_without_a_score_at_their_worst() -> None:
    full = [scores("111", "111")] * 30
    found = estimated([scores("111", "???"), scores("111", "11?"), *full])
    assert (found.n, found.delta) == (31, 0.0)
    assert found.bounds == pytest.approx((-(1 + 1 / 3) / 32, 0.0))
    assert found.ci is not None
    assert found.ci[0] < -(1 + 1 / 3) / 32
    assert found.ci[1] < -found.ci[0]


outcomes = st.text("01", min_size=1, max_size=3)
unscored = st.text("01?", min_size=1, max_size=3)


@given(st.lists(st.builds(scores, unscored, unscored), min_size=2, max_size=8))
def test_the_interval_holds_both_bounds(found: list[ItemScores]) -> None:
    got = estimated(found)
    if got.ci is None or got.bounds is None or got.delta is None:
        return
    assert got.ci[0] <= got.bounds[0] + 1e-9
    assert got.bounds[1] - 1e-9 <= got.ci[1]
    assert got.bounds[0] - 1e-9 <= got.bounds[1]


@given(st.lists(st.tuples(outcomes, outcomes), min_size=1, max_size=3))
def test_dealing_trials_anew_is_what_enumeration_finds(pairs: list[tuple[str, str]]) -> None:
    old = [tuple(map(float, before)) for before, _ in pairs]
    new = [tuple(map(float, after)) for _, after in pairs]
    observed = sum(np.mean(after) - np.mean(before) for before, after in zip(old, new, strict=True))
    totals = np.array([0.0])
    for before, after in zip(old, new, strict=True):
        every = np.array((*before, *after))
        places = range(len(every))
        changes = [
            every[list(dealt)].mean() - np.delete(every, list(dealt)).mean()
            for dealt in combinations(places, len(after))
        ]
        totals = np.add.outer(totals, changes).ravel()
    exact = float(np.mean(np.abs(totals) >= abs(observed) - 1e-9))
    assert trials.permutation(old, new, [1.0] * len(old)) == pytest.approx(exact, abs=0.025)


def test_dealing_trials_anew_agrees_with_cochran_mantel_haenszel() -> None:
    from statsmodels.stats.contingency_tables import StratifiedTable

    rng = np.random.default_rng(11)
    rates = rng.random(60)
    old, new = (rng.random((60, 4)) < rates[:, None], rng.random((60, 4)) < rates[:, None] * 0.85)
    tables = [[[b.sum(), 4 - b.sum()], [a.sum(), 4 - a.sum()]] for b, a in zip(old, new, strict=True)]
    mixed = [np.array(table) for table in tables if 0 < np.array(table)[:, 0].sum() < 8]
    theirs = StratifiedTable(mixed).test_null_odds(correction=True).pvalue
    ours = trials.permutation(
        [tuple(row.astype(float)) for row in old], [tuple(row.astype(float)) for row in new], [1.0] * 60
    )
    assert ours == pytest.approx(theirs, rel=0.15)


def test_what_shares_a_session_a_user_a_task_or_a_question_is_one_cluster() -> None:
    cancels = [ToolCall(name="cancel_order", args={"order_id": f"A-10{n}"}) for n in range(2)]
    items = [
        item("a", session_id="s1", user_id="u1"),
        item("b", session_id="s1", metadata={"task_id": 7}),
        item("c", metadata={"task_id": "7"}, input="another text"),
        item("d", input="where is it?"),
        item("e", input="where is it?"),
        item("f", input="cancel my order", tape=(cancels[0],)),
        item("g", input="cancel my order", tape=(cancels[1],)),
        item("h", input="cancel my order", tape=(cancels[1],)),
        item("i", input="where is it?", metadata={"task_id": "8"}),
        item("j", user_id="u1"),
        item("k", user_id="u1"),
    ]
    clusters = clusters_of(items)
    members: dict[int, str] = {}
    for name, number in clusters.numbers.items():
        members[number] = members.get(number, "") + name
    assert sorted(members.values()) == ["abc", "de", "f", "gh", "i", "jk"]
    assert clusters.words == "independent groups"
    assert clusters.without_session == 7


def test_an_account_that_many_share_links_nothing() -> None:
    items = [item(f"t{n}", user_id="anonymous" if n < 7 else f"u{n}") for n in range(10)]
    clusters = clusters_of(items)
    assert len(set(clusters.numbers.values())) == 10
    assert clusters.without_session == 7


def test_a_later_turn_belongs_to_the_conversation_that_it_repeats() -> None:
    def turn(name: str, *texts: str, answer: str, **fields: Any) -> Item:
        roles = ("user", "assistant") * len(texts)
        said = tuple(Message(role=role, text=text) for role, text in zip(roles, texts, strict=False))
        return item(name, messages=said, input=texts[-1], tape=(), recorded_response=answer, **fields)

    items = [
        turn("a", "where is A-7?", answer="on its way"),
        turn("b", "where is A-7?", "on its way", "cancel it", answer="done"),
        turn("c", "where is A-7?", "on its way", "when will it come?", answer="today"),
        turn("d", "where is A-7?", "it is lost", "cancel it", answer="done"),
        *(turn(f"x{n}", f"question {n}", answer="yes") for n in range(4)),
    ]
    numbers = clusters_of(items).numbers
    assert numbers["a"] == numbers["b"] == numbers["c"]
    assert len(set(numbers.values())) == 6


def test_neighbours_in_time_that_change_together_are_one_observation() -> None:
    minutes = np.random.default_rng(1).permutation(100)
    times = [WHEN + timedelta(minutes=int(minute)) for minute in minutes]
    alike = [scores("111", "000") if minute // 10 % 2 else scores("000", "111") for minute in minutes]
    apart = [scores("111", "000") if minute % 2 else scores("000", "111") for minute in minutes]

    def independent(changes: list[ItemScores], *, users: bool = False) -> int:
        items = [
            item(f"t{n}", input=f"{n}", started_at=time, user_id=f"u{n}" if users else None)
            for n, time in enumerate(times)
        ]
        of = compared(items, population=10_000)
        return estimate(of, items, changes, SCALE, null_model(changes, SCALE)).independent

    assert (independent(alike), independent(apart), independent(alike, users=True)) == (10, 100, 100)


def test_cases_of_a_golden_set_are_fixed_whatever_they_ask() -> None:
    cases = [replace(item(f"c{n}", input="where is it?"), case_id=f"c{n}") for n in range(3)]
    assert len(set(clusters_of(cases).numbers.values())) == 3


def test_traces_that_share_a_value_count_in_how_much_was_drawn() -> None:
    items = [item(f"t{n}") for n in range(10)]
    assert compared(items, population=100).drawn == 0.1
    assert compared(items, population=100, merged=30).drawn == 0.4
    assert compared(items, population=1_000).drawn == 0.0
