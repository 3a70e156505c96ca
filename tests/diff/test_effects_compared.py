"""Agreement by effects: what a version changes decides, what it reads does not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from replaydiff.diff.behaviour import RecordingRules
from replaydiff.diff.compute import compute
from replaydiff.diff.item_changes import item_change, read_variation
from replaydiff.diff.result import Answer, Block, DiffResult, GradedTrial, ItemChangeKind, Verdict
from replaydiff.diff.side_effects import EffectDifference, Effects, effect_changes, identifying
from replaydiff.replay.model import Item, Lane, Rule, Status, ToolCall
from replaydiff.replay.settings import MatchSection, Settings, ToolSection
from tests.diff.build import CALLS, RUN_ID, filled, item, settings, trial

LOOK, CANCEL = CALLS
RULES = RecordingRules.of(
    Settings(), (), Effects(reads=frozenset({"get_order_status"}), writes=("cancel_order",))
)


def call(name: str, **args: object) -> ToolCall:
    return ToolCall(name=name, args=dict(args), result="ok")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        ([LOOK, LOOK, CANCEL], None),
        ([CANCEL], None),
        ([LOOK], ItemChangeKind.MISSING_EFFECT),
        ([*CALLS, CANCEL], ItemChangeKind.EXTRA_EFFECT),
        ([*CALLS, call("refund")], ItemChangeKind.EXTRA_EFFECT),
        ([LOOK, call("cancel_order", order_id="2")], ItemChangeKind.DIFFERENT_OBJECT),
        ([LOOK, call("cancel_order", order_id="1", fee=9)], ItemChangeKind.DIFFERENT_ARGUMENTS),
        ([*CALLS, ToolCall(name="refund", args={}, error="no such order")], None),
    ],
    ids=["read twice", "no read", "no write", "twice", "another write", "object", "argument", "failed"],
)
def test_what_differs_from_the_recorded_effects(
    made: Sequence[ToolCall], kind: ItemChangeKind | None
) -> None:
    differences = list(
        effect_changes(item("t"), trial("t", "new", calls=made), RULES.effects, RULES.settings)
    )
    assert [difference.kind for difference in differences] == ([] if kind is None else [kind])


def test_what_a_stopped_trial_did_not_do_is_not_missing() -> None:
    stopped = trial("t", "new", calls=[LOOK], status=Status.DIVERGED, reason="never recorded")
    assert not list(effect_changes(item("t"), stopped, RULES.effects, RULES.settings))


def test_values_that_single_out_an_object() -> None:
    args = {"order_id": "7", "reason": "too late", "to": "ann@example.com", "items": ["A-1", "blue"], "n": 3}
    assert identifying(args) == {"7", "ann@example.com", "A-1"}


def block(old: Sequence[Sequence[ToolCall]], new: Sequence[Sequence[ToolCall]]) -> Block:
    of = item("t")
    lanes = {
        lane: tuple(
            GradedTrial(trial=trial(of, lane, index, calls=calls), grades={})
            for index, calls in enumerate(of_lane)
        )
        for lane, of_lane in ((Lane.OLD, old), (Lane.NEW, new))
    }
    return Block(item=of, lanes=lanes)


def test_reads_are_a_change_of_an_item_only_beyond_what_the_old_version_varies() -> None:
    once, twice = CALLS, (LOOK, *CALLS)
    steady = item_change(block([once, once], [twice, twice]), RULES)
    assert steady is not None
    assert (steady.kind, steady.text) == (
        ItemChangeKind.READS,
        "calls get_order_status more or less often",
    )
    varying = [block([once, twice], [twice, twice]), block([twice, once], [once, once])]
    assert [item_change(each, RULES) for each in varying] == [None, None]
    # An item on which the old version happened to do the same twice is no exception.
    usual = read_variation([*varying, block([once, once], [twice, twice])], RULES)
    assert usual == {"get_order_status": pytest.approx(2 / 3)}
    assert item_change(block([once, once], [twice, twice]), RULES, usual) is None


def run(
    folder: Path, new: Sequence[ToolCall], count: int = 12, *, old: Sequence[ToolCall] = CALLS
) -> DiffResult:
    """A run of 50 items with two trials each, of which the new version does so with the first ones."""
    items: list[Item] = [item(f"t{n:02}") for n in range(50)]
    done = [
        trial(of, lane, index, calls=new if lane == Lane.NEW and number < count else old)
        for number, of in enumerate(items)
        for lane in (Lane.OLD, Lane.OLD2, Lane.NEW)
        for index in range(2)
    ]
    tools = {"refund": ToolSection(effect="write")}
    with filled(folder, items, done) as con:
        return compute(con, RUN_ID, settings(folder, match=MatchSection(), tools=tools))


@pytest.mark.parametrize(
    ("new", "text"),
    [
        ([LOOK], "does not call cancel_order: new 24 of 100 trials, old 0, old2 0"),
        ([*CALLS, call("refund", order_id="1")], "calls refund, which is not expected: new 24 of 100 trials"),
        ([LOOK, call("cancel_order", order_id="2")], "cancel_order"),
    ],
    ids=["a write is missing", "a write is new", "another object"],
)
def test_effects_that_fall_away_hold_with_their_cause(
    tmp_path: Path, new: Sequence[ToolCall], text: str
) -> None:
    result = run(tmp_path, new)
    assert result.answer is Answer.HOLD
    assert text in result.reason
    assert result.reason.endswith("if that is intended, accept the cause")
    assert (result.counts.regressed, result.counts.unchanged) == (12, 38)


def test_reads_alone_are_no_change(tmp_path: Path) -> None:
    result = run(tmp_path, [LOOK, LOOK, *CALLS], count=50)
    assert result.answer is Answer.SHIP
    assert {entry.verdict for entry in result.items} == {Verdict.UNCHANGED}


def test_an_old_version_that_leaves_its_recordings_is_no_yardstick(tmp_path: Path) -> None:
    result = run(tmp_path, [], count=50, old=[LOOK])
    assert result.answer is Answer.CANNOT_TELL
    assert "it is not what production ran" in result.reason


@pytest.mark.parametrize("stopped", [False, True], ids=["answered by an error", "stopped"])
def test_a_new_write_holds_where_the_reads_were_never_recorded(tmp_path: Path, stopped: bool) -> None:
    items = [item(f"t{n:02}", tape=()) for n in range(40)]
    ended: dict[str, Any] = {"status": Status.DIVERGED, "reason": "never recorded"} if stopped else {}
    done = [
        trial(of, lane, index, calls=calls, rules=[Rule.MISS] * len(calls), **ended)
        for of in items
        for lane, calls in ((Lane.OLD, [LOOK]), (Lane.OLD2, [LOOK]), (Lane.NEW, [CANCEL]))
        for index in range(2)
    ]
    with filled(tmp_path, items, done) as con:
        result = compute(con, RUN_ID, settings(tmp_path, match=MatchSection()))
    assert result.answer is Answer.HOLD
    assert "cancel_order" in result.reason
    assert "new 80 of 80 trials, old 0, old2 0" in result.reason


def test_a_recorded_write_that_the_tape_cannot_answer_blames_nobody(tmp_path: Path) -> None:
    """The old version stops elsewhere, so nothing says that it would have made the call as recorded."""
    items = [item(f"t{n:02}") for n in range(40)]
    ended: dict[str, Any] = {"status": Status.DIVERGED, "reason": "other arguments"}
    reworded = call("cancel_order", order_id="1", reason="as asked")
    done = [
        trial(of, lane, index, calls=[made], rules=[Rule.MISS], **ended)
        for of in items
        for lane, made in (
            (Lane.OLD, call("find_order")),
            (Lane.OLD2, call("find_order")),
            (Lane.NEW, reworded),
        )
        for index in range(2)
    ]
    with filled(tmp_path, items, done) as con:
        result = compute(con, RUN_ID, settings(tmp_path, match=MatchSection()))
    assert result.answer is Answer.CANNOT_TELL
    assert "the replay cannot be trusted" in result.reason
    assert any("which was recorded with other arguments" in cause.text for cause in result.causes)


def test_differences_are_ordered_by_how_grave_they_are() -> None:
    kinds = (ItemChangeKind.DIFFERENT_ARGUMENTS, ItemChangeKind.EXTRA_EFFECT, ItemChangeKind.MISSING_EFFECT)
    differences = [EffectDifference(kind, "cancel_order") for kind in kinds]
    assert sorted(differences) == differences[::-1]


def test_tools_of_unknown_effect_count_beside_tools_that_read() -> None:
    only_unknown = Effects.of(["order_stop", "money"], {}, Settings())
    beside_reads = Effects.of(["get_order", "order_stop", "money"], {}, Settings())
    assert (only_unknown.decide, only_unknown.counted) == (False, ())
    assert (beside_reads.decide, beside_reads.counted) == (True, ("money", "order_stop"))
    assert beside_reads.changes("money")
    assert not beside_reads.changes("get_order")
