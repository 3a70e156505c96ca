"""Agreement with recordings that nobody vouches for: it shows that behaviour changed, and holds nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replaydiff.diff.behaviour import RecordingRules, change
from replaydiff.diff.compute import compute
from replaydiff.diff.document import to_json
from replaydiff.diff.result import Answer, Block, DiffResult, GradedTrial, Kind, Verdict
from replaydiff.replay.model import CORRECTION, Item, Lane, ToolCall, Trial, VersionKind
from replaydiff.replay.settings import GateSection, MatchSection, Settings, load
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import write_traces
from tests.diff.build import CALLS, RUN_ID, case, filled, item, settings, trial, trials, version
from tests.stand_ins.schemas import validator
from tests.store.build import trace

OTHER = (ToolCall(name="refund", args={}),)


def diffed(folder: Path, items: list[Item], done: list[Trial], match: MatchSection, **run: Any) -> DiffResult:
    sections = run.pop("sections", {})
    with filled(folder, items, done, **run) as con:
        result = compute(con, RUN_ID, settings(folder, match=match, **sections))
    document = json.loads(json.dumps(to_json(result), allow_nan=False))
    validator("diff").validate(document)
    assert sum(document["items"][v.value] for v in Verdict) == document["items"]["compared"]
    return result


def lanes(old: str, new: str, count: int, start: int = 0, **more: str) -> tuple[list[Item], list[Trial]]:
    items = [item(f"t{start + n:02}") for n in range(count)]
    return items, [made for one in items for made in trials(one, old=old, new=new, **more)]


def test_leaving_a_recording_that_nobody_vouches_for_is_a_change_and_no_loss(tmp_path: Path) -> None:
    some, done = lanes("111", "000", 12)
    rest, more = lanes("111", "111", 38, start=12)
    every_call = MatchSection(compare="calls", trust="false")
    result = diffed(tmp_path, [*some, *rest], [*done, *more], every_call)
    assert result.answer is Answer.HOLD
    assert result.reason == (
        "agrees with production's tool calls in 100% → 76% on 50 items: less by more than 5 points; new: calls "
        "cancel_order without calling get_order_status first: new 36 of 150 trials, old 0; if that is intended, "
        "accept the cause"
    )
    metric = result.metrics["tool_calls"]
    assert (metric.kind, metric.gated, metric.changed) == (Kind.AGREEMENT, True, 12)
    assert metric.changed_share == pytest.approx(0.24)
    assert (
        result.items[0]
        .metrics["tool_calls"]
        .reason.startswith("against the recording: old 3/3, new 0/3: called cancel_order without")
    )


def test_versions_that_act_alike_ship(tmp_path: Path) -> None:
    items, done = lanes("111", "111", 50, old2="111")
    result = diffed(tmp_path, items, done, MatchSection())
    assert result.answer is Answer.SHIP
    assert result.reason == (
        "does what production did (cancel_order) in 100% → 100% on 50 items: effects changed in 0 of 50 items, "
        "at most 7% of conversations beyond the old version's difference from itself (limit 10%); the answers are "
        "not graded (likeness 1.00, the old version with itself 1.00)"
    )
    strict = GateSection(max_changed=0.01)
    (tmp_path / "strict").mkdir()
    other = diffed(tmp_path / "strict", items, done, MatchSection(), sections={"gate": strict})
    assert other.answer is Answer.CANNOT_TELL
    assert other.reason.startswith("effects changed in none of 50 items, and a change in more than 1% cannot")


def test_what_the_old_version_does_by_itself_is_no_change(tmp_path: Path) -> None:
    """Every version now looks first and now does not: 60 items, of which none is called changed."""
    items, done = [], []
    for n, (old, new, again) in enumerate([("110", "101", "011"), ("101", "011", "110")] * 60):
        items.append(item(f"t{n:03}"))
        done += trials(items[-1], old=old, new=new, old2=again)
    result = diffed(tmp_path, items, done, MatchSection())
    assert result.answer is Answer.SHIP
    assert result.metrics["tool_calls"].changed == 0


def test_acting_otherwise_without_the_recording_is_changed(tmp_path: Path) -> None:
    """Both versions left the recording, each in its own way: no likeness moved, and the items changed."""
    items = [item(f"t{n:02}") for n in range(40)]
    done = [
        trial(one, lane, k, calls=OTHER if lane == "new" and n < 8 else CALLS[:1] if n < 8 else CALLS)
        for n, one in enumerate(items)
        for lane in ("old", "new")
        for k in range(3)
    ]
    result = diffed(tmp_path, items, done, MatchSection())
    assert (result.counts.changed, result.counts.regressed, result.counts.improved) == (8, 0, 0)
    assert result.items[0].verdict is Verdict.CHANGED
    assert "acts differently in 100% of pairs" in result.items[0].metrics["tool_calls"].reason


def test_a_recording_is_no_evidence_for_itself(tmp_path: Path) -> None:
    observed = {Lane.OLD: version("observed", VersionKind.OBSERVED), Lane.NEW: version("candidate")}
    items = [item(f"t{n:02}") for n in range(10)]
    done = [
        trial(one, lane, calls=CALLS[:1] if lane == "new" else CALLS)
        for one in items
        for lane in ("old", "new")
    ]
    result = diffed(tmp_path, items, done, MatchSection(), lanes=observed)
    assert result.answer is Answer.CANNOT_TELL
    assert (result.counts.regressed, result.counts.changed) == (10, 0)
    assert "effects changed in 10 of 10 items" in result.reason
    assert "10 no longer do what production did" in result.reason


def test_what_a_recording_did_not_change_is_changed_and_not_worse(tmp_path: Path) -> None:
    """Nothing but the recording shows what is right, and the new version does all that it did."""
    observed = {Lane.OLD: version("observed", VersionKind.OBSERVED), Lane.NEW: version("candidate")}
    items = [item(f"t{n:02}") for n in range(10)]
    done = [
        trial(one, lane, calls=[*CALLS, *OTHER] if lane == "new" else CALLS)
        for one in items
        for lane in ("old", "new")
    ]
    result = diffed(tmp_path, items, done, MatchSection(), lanes=observed)
    assert (result.answer, result.counts.changed) == (Answer.CANNOT_TELL, 10)
    assert result.items[0].change is not None
    assert (
        result.items[0].change.text == "calls refund, which was not recorded: new 1 of 1 trials, old 0 of 1"
    )


def test_a_condition_says_which_recordings_are_right(tmp_path: Path) -> None:
    """Of forty traces thirty were rated good: those decide, and the rest are told of."""
    items = [item(f"t{n:02}") for n in range(40)]
    done = [made for one in items for made in trials(one, old="111", new="000")]
    with filled(tmp_path, items, done):
        pass
    with open_store(tmp_path / "replay.duckdb") as con:
        write_traces(con, [trace(f"t{n:02}", scores={"good": n < 30}) for n in range(40)])
        given = Settings(root=tmp_path, match=MatchSection(trust="scores.good = true"))
        result = compute(con, RUN_ID, given)
    assert result.answer is Answer.HOLD
    assert result.metrics["tool_calls"].kind is Kind.QUALITY
    assert result.metrics["tool_calls"].n == 30
    assert (result.metrics["recording"].kind, result.metrics["recording"].n) == (Kind.AGREEMENT, 10)
    assert not result.metrics["recording"].gated


def test_a_recording_that_was_corrected_by_hand_is_right(tmp_path: Path) -> None:
    items = [item(f"t{n}", metadata={CORRECTION: "no"}) for n in range(10)]
    done = [made for one in items for made in trials(one, old="111", new="000")]
    result = diffed(tmp_path, items, done, MatchSection())
    assert (result.metrics["tool_calls"].kind, result.answer) == (Kind.QUALITY, Answer.HOLD)


def test_what_somebody_vouches_for_decides_before_agreement(tmp_path: Path) -> None:
    """The new version leaves the recordings everywhere, and solves more: its score decides."""
    items = [item(f"t{n:02}") for n in range(50)]
    done = [
        trial(
            one,
            lane,
            k,
            calls=CALLS if lane == "old" else OTHER,
            scores={"reward": float(lane == "new" or n % 2)},
        )
        for n, one in enumerate(items)
        for lane in ("old", "new")
        for k in range(3)
    ]
    result = diffed(tmp_path, items, done, MatchSection())
    assert result.answer is Answer.SHIP
    assert result.reason.endswith("(tool_calls, which does not decide, counts 50 changed)")
    assert [name for name, metric in result.metrics.items() if metric.gated] == ["score:reward"]
    assert result.counts.regressed == 0


def test_metrics_that_contradict_each_other_decide_nothing(tmp_path: Path) -> None:
    items = [case(f"c{n:02}") for n in range(40)]
    done = [
        trial(one, lane, k, not (lane == "new" and n < 20), scores={"reward": float(lane == "new" or n % 2)})
        for n, one in enumerate(items)
        for lane in ("old", "new")
        for k in range(3)
    ]
    result = diffed(tmp_path, items, done, MatchSection())
    assert result.answer is Answer.CANNOT_TELL
    assert result.reason.startswith("metrics contradict each other: tool_calls 1.00 → 0.50 on 40 items")
    assert "score:reward 0.50 → 1.00" in result.reason
    assert result.reason.endswith("choose which decides with [gate] metrics")


@pytest.mark.parametrize(
    ("old", "new", "again", "share", "worst"),
    [
        ("111", "111", "", 0.0, 0.0),
        ("111", "000", "", 1.0, 1.0),
        ("110", "110", "", 4 / 9 - 2 / 3, 4 / 9 - 2 / 3),
        ("11", "00", "00", 0.5 - 1.0, 0.5 - 1.0),
        ("11", "1E", "", 0.0, 0.5),
        ("1", "E", "", None, 1.0),
    ],
)
def test_how_much_an_item_changed(old: str, new: str, again: str, share: float | None, worst: float) -> None:
    of = item("a")
    done = trials(of, old=old, new=new, **({"old2": again} if again else {}))
    by_lane = {
        lane: tuple(GradedTrial(trial=one, grades={}) for one in done if one.lane == lane)
        for lane in (Lane.OLD, Lane.NEW, Lane.OLD2)
    }
    found = change(Block(item=of, lanes=by_lane), RecordingRules(settings=Settings(root=Path())))
    assert found.share == (None if share is None else pytest.approx(share))
    assert found.worst == pytest.approx(worst)


def handed_over(summary: str) -> tuple[ToolCall, ...]:
    return (ToolCall(name="transfer", args={"summary": summary, "to": "billing team"}, result="ok"),)


def reworded(count: int) -> tuple[list[Item], list[Trial]]:
    """Every trial hands over with a summary in words of its own."""
    items = [item(f"t{n:02}", tape=handed_over(f"the user {n} asks")) for n in range(count)]
    done = [
        trial(one, lane, k, calls=handed_over(f"{one.id} wants it {('now', 'soon', 'today')[k]}"))
        for one in items
        for lane in ("old", "new", "old2")
        for k in range(3)
    ]
    return items, done


def test_free_text_is_found_and_left_out_of_agreement(tmp_path: Path) -> None:
    result = diffed(tmp_path, *reworded(50), MatchSection())
    assert result.answer is Answer.SHIP
    assert result.metrics["tool_calls"].old == 1.0
    assert (
        "the argument summary of transfer is free text: its wording differs between trials of one version on 50 "
        "items, so agreement leaves it out (explicitly: "
        '[tools.transfer] ignore_args = ["summary"])'
    ) in result.warnings


def test_free_text_is_named_where_it_counts_with_the_rule_to_write(tmp_path: Path) -> None:
    result = diffed(tmp_path, *reworded(10), MatchSection(trust=True))
    assert result.metrics["tool_calls"].old == 0.0
    found = [warning for warning in result.warnings if "is free text" in warning]
    assert len(found) == 1
    table, line = found[0].partition("write ")[2].split("] ")
    toml = tmp_path / "rule" / "replay.toml"
    toml.parent.mkdir()
    toml.write_text(f"[match]\ntrust = true\n{table}]\n{line}\n")
    with open_store(tmp_path / "replay.duckdb", read_only=True) as con:
        ruled = compute(con, RUN_ID, load(toml.parent, {}))
    assert ruled.metrics["tool_calls"].old == 1.0
    assert not [warning for warning in ruled.warnings if "is free text" in warning]


def test_a_value_that_differs_on_few_items_is_no_free_text(tmp_path: Path) -> None:
    items, done = reworded(2)
    result = diffed(tmp_path, items, done, MatchSection())
    assert not [warning for warning in result.warnings if "is free text" in warning]
    assert result.metrics["tool_calls"].old == 0.0
