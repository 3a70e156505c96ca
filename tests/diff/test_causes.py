"""What the new version does otherwise: counted, tested, merged, decided, and reasons without an item's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import comb, prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.diff import responses
from replaydiff.diff.actions import ActionReader, Behaviour, fails_as, normalise_reason
from replaydiff.diff.cause_decisions import decisions_path, read_decisions, write_decisions
from replaydiff.diff.causes import explanation
from replaydiff.diff.compute import compute
from replaydiff.diff.document import to_json
from replaydiff.diff.result import Answer, Block, Cause, CauseState, DiffResult, GradedTrial, Verdict
from replaydiff.diff.statistics.trials import least_p, stratified
from replaydiff.diff.stopping import new_plan
from replaydiff.replay.bisect.start import cause_of_run
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import (
    ExpectedCall,
    Item,
    JsonObject,
    Lane,
    Look,
    Match,
    Rule,
    Status,
    ToolCall,
    Trial,
)
from replaydiff.replay.settings import MatchSection, Settings, ToolSection
from tests.diff.build import CALLS, RUN_ID, WHEN, case, filled, item, settings, trial, trials


def call(name: str, **args: Any) -> ToolCall:
    return ToolCall(name=name, args=args)


LOOK, CANCEL = CALLS


def acted(calls: Sequence[ToolCall], of: Item | None = None, **fields: Any) -> set[str]:
    """What a single trial does, in words."""
    one = of or item("t")
    block = Block(
        item=one, lanes={Lane.NEW: (GradedTrial(trial=trial(one, "new", calls=calls, **fields), grades={}),)}
    )
    reader = ActionReader(fields.pop("settings", Settings(root=Path())))
    return {behaviour.text for behaviour in reader.of_block(block)[Lane.NEW][0].shown}


def diffed(folder: Path, items: Sequence[Item], done: Sequence[Trial], **sections: Any) -> DiffResult:
    given: dict[str, Any] = {"match": MatchSection(), **sections}
    with filled(folder, items, done) as con:
        return compute(con, RUN_ID, settings(folder, **given))


def behaviours(result: DiffResult) -> tuple[Cause, ...]:
    """The causes that are behaviours: that answers differ is tested with their likeness."""
    return tuple(cause for cause in result.causes if not cause.is_answers)


def again(folder: Path, **sections: Any) -> DiffResult:
    """The stored run, computed once more."""
    from replaydiff.replay.store.connection import open_store

    with open_store(folder / "replay.duckdb", read_only=True) as con:
        return compute(con, RUN_ID, settings(folder, **{"match": MatchSection(), **sections}))


def decide(folder: Path, cause: Cause, state: CauseState, **more: Any) -> None:
    path = decisions_path(settings(folder))
    write_decisions(path, [cause], state, run=RUN_ID, by="Ada", at=WHEN, **more)


@pytest.mark.parametrize(
    ("calls", "fields", "expected"),
    [
        (CALLS, {}, set()),
        ([CANCEL], {}, {"calls cancel_order without calling get_order_status first", "does not call get_order_status"}),
        ([CANCEL, LOOK], {}, {"calls cancel_order before get_order_status, not after it"}),
        ([*CALLS, call("notify")], {}, {"calls notify, which is not expected"}),
        (
            [LOOK, LOOK, CANCEL],
            {},
            {"calls get_order_status more often than expected",
             "repeats a call of get_order_status with the same arguments"},
        ),
        ([], {}, {"answers without calling any tool", "does not call get_order_status", "does not call cancel_order"}),
        (
            [call("get_order_status", id="1"), CANCEL],
            {},
            {"calls get_order_status with the argument id in place of order_id"},
        ),
        (
            [call("get_order_status", order_id="1", verbose=True), CANCEL],
            {},
            {"calls get_order_status with the new argument verbose"},
        ),
        ([call("get_order_status"), CANCEL], {}, {"calls get_order_status without the argument order_id"}),
        (
            [call("get_order_status", order_id="latest"), CANCEL],
            {},
            {"calls get_order_status with another order_id", 'calls get_order_status with order_id = "latest"'},
        ),
        (
            [call("refund", order_id="1")],
            {"status": Status.DIVERGED, "rules": [Rule.MISS]},
            {"calls refund, which is not expected", "is stopped at refund, a call that was not recorded"},
        ),
        ((), {"status": Status.AGENT_ERROR, "reason": "it raised: KeyError: 'x'"}, {"ends in an error (KeyError)"}),
        (CALLS, {"final_response": "I'm sorry, but I can't help with that."}, {"declines to help"}),
        (CALLS, {"final_response": "  "}, {"gives an empty answer"}),
    ],
)  # fmt: skip
def test_what_a_trial_does_is_one_sentence_each(
    calls: Sequence[ToolCall], fields: dict[str, Any], expected: set[str]
) -> None:
    assert acted(calls, **fields) == expected


def test_arguments_that_never_count_are_no_behaviour() -> None:
    ignoring = Settings(root=Path(), tools={"get_order_status": ToolSection(ignore_args=("order_id",))})
    one = item("t")
    made = trial(one, "new", calls=[call("get_order_status", order_id="9"), CANCEL])
    block = Block(item=one, lanes={Lane.NEW: (GradedTrial(trial=made, grades={}),)})
    assert [reading.shown for reading in ActionReader(ignoring).of_block(block)[Lane.NEW]] == [frozenset()]


def test_a_case_without_recording_or_expected_calls_counts_the_tools_themselves() -> None:
    bare = Item(id="c", case_id="c", input="?", expectation=case("c", answer="x").expectation)
    assert acted([LOOK], of=bare) == {"calls get_order_status"}


def run_of(folder: Path, counts: Sequence[tuple[str, str, str]]) -> DiffResult:
    """Items by what their lanes old, old2 and new do: 1 as recorded, 0 cancels without looking first."""
    items = [item(f"t{n:03}") for n in range(len(counts))]
    done = [
        made
        for one, (old, old2, new) in zip(items, counts, strict=True)
        for made in trials(one, old=old, old2=old2, new=new)
    ]
    return diffed(folder, items, done)


def test_a_cause_has_counts_of_every_lane_and_examples(tmp_path: Path) -> None:
    result = run_of(
        tmp_path,
        [("111", "111", "000")] * 3 + [("101", "111", "110")] + [("111", "110", "111")] + [("111",) * 3] * 45,
    )
    (cause,) = result.causes
    assert cause.text == "calls cancel_order without calling get_order_status first"
    assert cause.counts == "new 10 of 150 trials, old 1, old2 1"
    assert cause.also == ("does not call get_order_status",)
    assert (cause.items, cause.state) == (4, CauseState.OPEN)
    assert [example.item for example in cause.examples] == ["t000", "t001", "t002"]
    assert cause.p < 0.01
    document = to_json(result)["causes"][0]
    assert document["trials"] == {"old": [1, 150], "old2": [1, 150], "new": [10, 150]}
    assert document["id"] == Behaviour("skipped", ("cancel_order", "get_order_status")).named(more=True)


def test_a_reason_without_words_of_its_own_is_left_out() -> None:
    assert Behaviour("failed", ("correctness", "… is not …")).text == "fails correctness"
    assert (
        Behaviour("failed", ("quality", "does not show price")).text == "fails quality: does not show price"
    )


def test_an_example_shows_what_the_old_version_usually_does(tmp_path: Path) -> None:
    """Its first trial only looks; the others, and the recording, cancel as well."""
    items = [item(f"t{n}") for n in range(12)]
    done = [made for one in items for made in trials(one, old2="111", new="000")]
    for one in items:
        done += [trial(one, "old", index, calls=[LOOK] if index == 0 else CALLS) for index in range(3)]
    (cause,) = behaviours(diffed(tmp_path, items, done))
    assert (cause.examples[0].old, cause.examples[0].new) == (1, 0)


def test_a_length_is_measured_on_its_items_and_not_decided_with_another_cause(tmp_path: Path) -> None:
    """6 of 30 items leave the look-up out and answer shorter, in the same trials."""
    items = [item(f"t{n:02}") for n in range(30)]
    done = []
    for place, one in enumerate(items):
        for lane in ("old", "old2", "new"):
            worse = lane == "new" and place < 6
            text = "x" * (20 if worse else 90 if place < 6 else 200)
            done += [
                trial(one, lane, index, calls=[CANCEL] if worse else CALLS, final_response=text)
                for index in range(3)
            ]
    (cause,) = behaviours(diffed(tmp_path, items, done))
    assert any("at least 20 % shorter" in also for also in cause.also)
    shorter = Behaviour("shorter").named(more=True)
    assert cause.covers
    assert shorter not in cause.covers
    decide(tmp_path, replace(cause, covers=(shorter,), id=shorter), CauseState.REJECTED)
    assert again(tmp_path).causes[0].state is CauseState.OPEN
    done = [replace(one, served=()) for one in done]
    bare = [replace(one, tape=()) for one in items]
    (tmp_path / "alone").mkdir()
    (alone,) = behaviours(diffed(tmp_path / "alone", bare, done))
    assert alone.id == shorter
    assert alone.text == "answers at least 20 % shorter than usual (median 90 → 20 characters)"


def test_one_item_alone_is_no_cause(tmp_path: Path) -> None:
    assert run_of(tmp_path, [("111", "111", "000")] + [("111",) * 3] * 20).causes == ()


def test_an_old_version_that_differs_from_itself_as_much_shows_no_cause(tmp_path: Path) -> None:
    assert run_of(tmp_path, [("111", "000", "000")] * 10 + [("111",) * 3] * 20).causes == ()


def test_what_the_old_version_did_more_often_is_a_cause(tmp_path: Path) -> None:
    (cause,) = run_of(tmp_path, [("000", "000", "111")] * 10 + [("111",) * 3] * 10).causes
    assert cause.text.startswith("less often calls cancel_order without")
    assert cause.examples[0].new == 0


def test_a_behaviour_that_became_rarer_is_a_sentence() -> None:
    failure, more = Behaviour("low", ("judge",)), Behaviour("more", ("get_order",))
    assert failure.sentence(more=False, recorded=False) == "passes judge more often"
    assert more.sentence(more=False, recorded=False) == "less often calls get_order more often than expected"
    assert more.sentence(more=True, recorded=True) == "calls get_order more often than recorded"


def test_what_one_trial_shows_can_be_searched_for_and_a_shorter_answer_cannot(tmp_path: Path) -> None:
    """`replay bisect --cause` sees one trial at a time."""
    (tmp_path / "less").mkdir()
    (less,) = run_of(tmp_path / "less", [("000", "000", "111")] * 10 + [("111",) * 3] * 10).causes
    searched = cause_of_run(tmp_path / "less" / "replay.duckdb", settings(tmp_path / "less"), None, less.id)
    assert (searched.more, searched.shown_alone, len(searched.items)) == (False, True, 10)
    items = [item(f"t{n}") for n in range(10)]
    lengths = {"old": 100, "old2": 100, "new": 30}
    done = [
        trial(one, lane, index, final_response="x" * length)
        for one in items for lane, length in lengths.items() for index in range(3)
    ]  # fmt: skip
    (shorter,) = behaviours(diffed(tmp_path, items, done))
    assert not cause_of_run(tmp_path / "replay.duckdb", settings(tmp_path), RUN_ID, shorter.id).shown_alone


def test_a_trial_that_was_stopped_does_not_tell_what_it_would_not_have_done() -> None:
    skips = Behaviour("skipped", ("cancel_order", "get_order_status"))
    one = item("t")

    def fails(calls: Sequence[ToolCall], status: Status, *, more: bool) -> bool | None:
        graded = GradedTrial(trial=trial(one, "new", calls=calls, status=status), grades={})
        return fails_as(skips.named(more=more), one, graded, Settings(root=Path()), more=more)

    assert fails([CANCEL], Status.OK, more=True) is True
    assert fails([LOOK, CANCEL], Status.OK, more=True) is False
    assert fails([CANCEL], Status.OK, more=False) is False
    assert fails([LOOK, CANCEL], Status.OK, more=False) is True
    assert fails([LOOK], Status.DIVERGED, more=False) is None
    assert fails([CANCEL], Status.INFRA_ERROR, more=True) is None


def renamed(of: Item, lane: str, args: JsonObject) -> list[Trial]:
    """Three trials that are stopped at the first call, made with these arguments."""
    made = [ToolCall(name="get_order_status", args=args)]
    return [
        trial(of, lane, index, calls=made, rules=[Rule.MISS], status=Status.DIVERGED, reason="never recorded")
        for index in range(3)
    ]


def test_a_deterministic_rename_is_one_cause_that_can_be_accepted_or_rejected(tmp_path: Path) -> None:
    items = [item(f"t{n:03}") for n in range(50)]
    done = [made for one in items for made in trials(one, old="111", old2="111")]
    for place, one in enumerate(items):
        done += renamed(one, "new", {"id": "1"}) if place < 26 else trials(one, new="111")
    before = diffed(tmp_path, items, done)
    (cause,) = before.causes
    assert cause.text == "calls get_order_status with the argument id in place of order_id"
    assert cause.counts == "new 78 of 150 trials, old 0, old2 0"
    assert before.answer is Answer.CANNOT_TELL
    assert before.reason.startswith("effects changed in 26 of 50 items: accept or reject 1 cause ")
    assert before.next == f"replay triage {RUN_ID}"
    assert not any("within the noise" in one.metrics["tool_calls"].cause for one in before.items)

    decide(tmp_path, cause, CauseState.ACCEPTED)
    accepted = again(tmp_path)
    # Its calls are intended, but of the 26 items that were stopped nobody saw an answer.
    assert (accepted.answer, accepted.causes[0].state) == (Answer.CANNOT_TELL, CauseState.ACCEPTED)
    assert accepted.reason.startswith("nothing grades the answers, and that they differ")
    assert accepted.counts.unchanged == 50
    decide(tmp_path, cause, CauseState.REJECTED)
    rejected = again(tmp_path)
    assert rejected.answer is Answer.HOLD
    assert rejected.reason.startswith(f"a cause was rejected: {cause.text} (new 78 of 150")
    decide(tmp_path, cause, CauseState.OPEN)
    assert again(tmp_path).answer is Answer.CANNOT_TELL
    # Whoever trusts the recordings is told HOLD, with the cause; once accepted, SHIP.
    trusted = again(tmp_path, match=MatchSection(trust=True))
    assert trusted.answer is Answer.HOLD
    assert trusted.reason.endswith(f"; of the items that fell, 26 of 26: {cause.text}")
    decide(tmp_path, cause, CauseState.ACCEPTED)
    assert again(tmp_path, match=MatchSection(trust=True)).answer is Answer.SHIP


def test_an_accepted_cause_does_not_explain_another_change_of_the_same_item(tmp_path: Path) -> None:
    """26 items have one cause, 20 another, 13 both: to accept the first leaves the 20."""
    items = [item(f"t{n:03}") for n in range(60)]
    done = [made for one in items for made in trials(one, old="111", old2="111")]
    for place, one in enumerate(items):
        calls = [LOOK] * (place < 26) + [LOOK, CANCEL] + [call("notify")] * (13 <= place < 33)
        done += [trial(one, "new", index, calls=calls) for index in range(3)]
    result = diffed(tmp_path, items, done)
    assert [(cause.text, cause.items) for cause in result.causes] == [
        ("calls get_order_status more often than recorded", 26),
        ("calls notify, which is not expected", 20),
    ]
    decide(tmp_path, result.causes[0], CauseState.ACCEPTED)
    after = again(tmp_path)
    assert [cause.state for cause in after.causes] == [CauseState.OPEN, CauseState.ACCEPTED]
    changed = {one.item.id for one in after.items if one.verdict is not Verdict.UNCHANGED}
    assert changed == {f"t{n:03}" for n in range(13, 33)}


def test_a_trial_that_ended_in_an_error_is_never_explained(tmp_path: Path) -> None:
    items = [item(f"t{n:03}") for n in range(20)]
    done = [
        made
        for one in items
        for made in trials(one, old="111", old2="111", new="000" if one.id < "t010" else "111")
    ]
    before = diffed(tmp_path, items, done)
    decide(tmp_path, before.causes[0], CauseState.ACCEPTED)
    assert again(tmp_path).counts.unchanged == 20
    other = tmp_path / "other"
    other.mkdir()
    lost = [
        replaced if made.item_id == "t000" and made.index == 0 and made.lane == "new" else made
        for made in done
        for replaced in trials(items[0], new="E")
    ]
    decide(other, before.causes[0], CauseState.ACCEPTED)
    assert diffed(other, items, lost).counts.unchanged == 19


HOSTILE = [
    "::error::x",
    "a\nb",
    "\x1b[31mred",
    "<script>alert(1)</script>",
    "[link](http://x)",
    "\u202eabc",
    "{0}",
    "x" * 5000,
    "##vso[x]",
]


def test_hostile_names_stay_on_one_line_and_move_no_cursor(tmp_path: Path) -> None:
    items = [item(f"t{n:03}") for n in range(30)]
    done = [made for one in items for made in trials(one, old="111")]
    done += [
        trial(one, "new", index, calls=[*CALLS, *(call(name, **{name: name}) for name in HOSTILE)])
        for one in items
        for index in range(3)
    ]
    (cause,) = behaviours(diffed(tmp_path, items, done))
    for text in (cause.text, *cause.also):
        assert len(text) < 400
        assert text.isprintable()
        assert not text.startswith(("::", "##"))


def test_decisions_are_lines_of_which_the_last_counts(tmp_path: Path) -> None:
    path = tmp_path / "cases" / "causes.jsonl"
    cause = Cause(
        id="c1", text="x", items=1, trials={}, p=0.0, state=CauseState.OPEN, examples=(), covers=("c1", "c2")
    )
    write_decisions(path, [cause], CauseState.ACCEPTED, run="r", by="Ada", at=WHEN)
    path.write_text(path.read_text().rstrip("\n"))  # An editor that ends no line.
    write_decisions(path, [cause], CauseState.REJECTED, run="r", by="Bob", at=WHEN)
    assert read_decisions(path) == {"c1": CauseState.REJECTED, "c2": CauseState.REJECTED}
    assert [json.loads(line)["by"] for line in path.read_text().splitlines()] == ["Ada", "Bob"]
    path.write_text('{"id": "c1", "decision": "fine"}\n')
    with pytest.raises(InputError, match="line 1 is no decision"):
        read_decisions(path)


sizes = st.integers(1, 4)
strata = st.lists(
    st.tuples(sizes, sizes).flatmap(
        lambda of: st.tuples(st.integers(0, of[0]), st.just(of[0]), st.integers(0, of[1]), st.just(of[1]))
    ),
    max_size=4,
)


@given(strata)
def test_the_stratified_test_is_the_sum_over_all_ways_to_deal_the_trials(
    rows: list[tuple[int, int, int, int]],
) -> None:
    def ways(yes: int, old: int, new: int) -> list[tuple[int, float]]:
        count = old + new
        return [(k, comb(yes, k) * comb(count - yes, new - k) / comb(count, new)) for k in range(new + 1)]

    dealt = [ways(before + after, old, new) for before, old, after, new in rows]
    mean = sum((before + after) * new / (old + new) for before, old, after, new in rows)
    seen = abs(sum(row[2] for row in rows) - mean)
    expected = sum(
        prod(chance for _, chance in way)
        for way in product(*dealt)
        if abs(sum(k for k, _ in way) - mean) >= seen - 1e-9
    )
    found = stratified(rows)
    assert found == pytest.approx(min(1.0, expected), abs=1e-9)
    assert least_p(rows) <= found + 1e-9


def test_the_stratified_test_keeps_its_level_with_many_items() -> None:
    rng = np.random.default_rng(1)
    rates = rng.beta(0.5, 0.5, 2_000)
    p_values = []
    for _ in range(200):
        before, after = rng.binomial(6, rates), rng.binomial(3, rates)
        p_values.append(stratified([(int(b), 6, int(a), 3) for b, a in zip(before, after, strict=True)]))
    assert 0.01 <= np.mean(np.array(p_values) <= 0.05) <= 0.10


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("missing call 1: get_order(order_id='77511')", "missing call 1: get_order(order_id=…)"),
        ("extra call 3: f(a=[1, 2], b={'x': 1}, c=None)", "extra call 3: f(a=…, b=…, c=…)"),
        (r"got f(text='it\'s, well')", "got f(text=…)"),
        ("expected 42.50 on 2026-10-07, got A-1003", "expected … on …, got …"),
        ("called tool_v12 without get_2 first", "called tool_v12 without get_2 first"),
        (
            "2 of 3 criteria hold, and it doesn't say it's done",
            "2 of 3 criteria hold, and it doesn't say it's done",
        ),
        ("", ""),
        (
            "call 1: expected f(id='51'), got f(id='51 008')",
            "call 1: f(id=…) with other values",
        ),
        ("call 1: expected f(id='51'), got f(x='51')", "call 1: expected f(id=…), got f(x=…)"),
    ],
)
def test_what_is_one_items_own_is_left_out(reason: str, cause: str) -> None:
    assert normalise_reason(reason) == cause


def test_several_looks_share_the_error_of_causes(tmp_path: Path) -> None:
    items = [item(f"t{n:02}") for n in range(40)]
    done = [
        made
        for place, one in enumerate(items)
        for made in trials(one, old="111", old2="111", new="000" if place < 6 else "111")
    ]
    (tmp_path / "one").mkdir()
    (once,) = behaviours(diffed(tmp_path / "one", items, done))
    plan = new_plan(len(items))
    looks = tuple(Look(items=look, answer="CAN'T TELL") for look in plan.looks)
    with filled(
        tmp_path, items, done, looks=looks, golden_path=None, settings={"until_known": plan.to_json()}
    ) as con:
        (over_looks,) = compute(con, RUN_ID, settings(tmp_path, match=MatchSection())).causes
    assert len(looks) > 1
    assert over_looks.id == once.id
    assert over_looks.p == pytest.approx(min(1.0, once.p * len(looks)))


def scored_trials(of: Item, lane: str, outcomes: str, **fields: Any) -> list[Trial]:
    """Trials by the score they came with: 1 passes, 0 fails, D was stopped and has none."""
    return [
        trial(of, lane, index, status=Status.DIVERGED, **fields)
        if outcome == "D"
        else trial(of, lane, index, scores={"right": float(outcome)}, **fields)
        for index, outcome in enumerate(outcomes)
    ]


@pytest.mark.parametrize("outcomes", ["DDD", "1D1", "D11"])
def test_trials_without_a_grade_are_no_passes(tmp_path: Path, outcomes: str) -> None:
    """The old version fails a third of its trials; the new one has no grade where it would have failed."""
    items = [item(f"t{n:02}") for n in range(40)]
    done = [
        made
        for one in items
        for lane, of_lane in (("old", "101"), ("old2", "011"), ("new", outcomes))
        for made in scored_trials(one, lane, of_lane)
    ]
    assert behaviours(diffed(tmp_path, items, done)) == ()


def test_a_metric_that_passes_more_often_counts_passes_of_graded_trials(tmp_path: Path) -> None:
    items = [item(f"t{n:02}") for n in range(40)]
    done = [
        made
        for one in items
        for lane, of_lane in (("old", "10D"), ("old2", "01D"), ("new", "11D"))
        for made in scored_trials(one, lane, of_lane)
    ]
    (cause,) = behaviours(diffed(tmp_path, items, done))
    assert cause.text == "passes score:right more often"
    assert cause.counts == "new 80 of 80 trials, old 40, old2 40"
    assert (cause.more, cause.is_better, cause.metric) == (False, True, "score:right")


def test_a_cause_does_not_contradict_the_figure_of_its_metric(tmp_path: Path) -> None:
    """Twelve light items fail now and then; two heavy ones pass now: the weighted mean rises."""
    from replaydiff.replay.model import SampleRecord
    from replaydiff.replay.store.samples import write_sample

    items = [item(f"t{n:02}", weight=500.0 if n < 2 else 1.0) for n in range(14)]
    done = [
        made
        for n, one in enumerate(items)
        for lane in ("old", "new")
        for made in scored_trials(one, lane, ("0000" if lane == "old" else "1111") if n < 2 else ("1111" if lane == "old" else "1000"))
    ]  # fmt: skip
    record = SampleRecord(
        name="s", created_at=WHEN, month="2026-10", where=None, by=(), size=14, seed=0, population=1012
    )
    with filled(tmp_path, items, done, sample="s", golden_path=None) as con:
        write_sample(con, record, ())
        result = compute(con, RUN_ID, settings(tmp_path, match=MatchSection()))
    assert (result.metrics["score:right"].delta or 0) > 0
    assert not [cause for cause in result.causes if cause.text == "fails score:right"]


def test_what_a_crash_hides_is_not_left_out(tmp_path: Path) -> None:
    """Every second new trial crashes before its calls: that is the cause, and no call became rarer."""
    items = [item(f"t{n:02}") for n in range(30)]
    done = [
        made
        for one in items
        for made in (
            *(
                trial(one, lane, k, calls=[*CALLS, call("notify")])
                for lane in ("old", "old2")
                for k in (0, 1)
            ),
            trial(one, "new", 0, calls=[*CALLS, call("notify")]),
            trial(one, "new", 1, calls=(), status=Status.CRASHED, reason="it died"),
        )
    ]
    (cause,) = behaviours(diffed(tmp_path, items, done))
    assert cause.text == "ends in a crash"


def test_answers_that_became_json_are_one_cause_of_a_kind_of_its_own(tmp_path: Path) -> None:
    items = [item(f"t{n:02}") for n in range(20)]
    done = [
        trial(one, lane, k, final_response='{"answer": "done"}' if lane == "new" else "Your order was cancelled. " * 9)
        for one in items for lane in ("old", "old2", "new") for k in range(3)
    ]  # fmt: skip
    (cause,) = behaviours(diffed(tmp_path, items, done))
    assert cause.text == "answers in the form of JSON"
    assert (cause.also, cause.counts) == ((), "new 60 of 60 trials, old 0, old2 0")


def test_a_fall_is_explained_by_what_its_metric_can_see(tmp_path: Path) -> None:
    """The case counts neither the look-up nor the length: the hand-over that it counts explains the fall."""
    rules = Match(mode="strict", only_tools=("cancel_order", "hand_over"))
    items = [
        case(f"c{n:02}", ExpectedCall(name="cancel_order", args={"order_id": "1"}), match=rules)
        for n in range(30)
    ]
    done = []
    for n, one in enumerate(items):
        for lane in ("old", "old2", "new"):
            calls = list(CALLS)
            if lane == "new":
                calls += [call("get_status")] if n < 20 else []
                calls += [call("hand_over")] if n < 10 else []
            text = "x" * (30 if lane == "new" else 100)
            done += [trial(one, lane, k, calls=calls, final_response=text) for k in range(3)]
    result = diffed(tmp_path, items, done)
    assert len(behaviours(result)) == 3
    explained = explanation("tool_calls", result.items, result.causes)
    assert explained.items == 10
    assert [(cause.text, count) for cause, count in explained.causes] == [
        ("calls hand_over, which is not expected", 10)
    ]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("", "text"),
        ("{", "text"),
        ("[see the list]", "text"),
        ('{"a": [1]}', "JSON"),
        ("[1]", "JSON"),
        ("```\nx\n```", "a block of code"),
        ("<p>done</p>", "HTML or XML"),
        ("<3 thanks>", "text"),
        ("done", "text"),
    ],
)
def test_the_form_of_a_response(text: str, form: str) -> None:
    assert responses.form(text) == form
