"""SHIP, HOLD and CAN'T TELL, each with its reason and its next command."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import click
import pytest

from replaydiff.diff.compute import compute
from replaydiff.diff.decide import decide
from replaydiff.diff.evidence import Evidence
from replaydiff.diff.result import Answer, DiffResult
from replaydiff.replay.cli import COMMANDS, cli
from replaydiff.replay.model import Item, Lane, SampleRecord, VersionKind, WrittenFile
from replaydiff.replay.settings import AgentSection, GateSection, GradingSection, MatchSection
from replaydiff.replay.store.samples import write_sample
from tests.diff.build import CALLS, RUN_ID, case, filled, item, settings, trial, trials, version


def answered(
    folder: Path, lanes: list[dict[str, str]], *, cases: bool = False, gate: GateSection | None = None
) -> DiffResult:
    """Items in their lanes, a dict each."""
    make = case if cases else item
    items: list[Item] = [make(f"t{n}") for n in range(len(lanes))]
    done = [t for one, outcomes in zip(items, lanes, strict=True) for t in trials(one, **outcomes)]
    with filled(folder, items, done) as con:
        return compute(con, RUN_ID, settings(folder, **({"gate": gate} if gate else {})))


SAME = {"old": "111", "new": "111"}
BETTER = {"old": "000", "new": "111"}
WORSE = {"old": "111", "new": "000"}
NOISY = [{"old": "101", "new": "010"}, {"old": "010", "new": "101"}, {"old": "011", "new": "110"}]


def test_fifty_items_that_stayed_the_same_ship(tmp_path: Path) -> None:
    result = answered(tmp_path, [SAME] * 50)
    assert result.answer.value == "SHIP"
    assert (
        result.reason == "tool_calls 1.00 → 1.00 on 50 items (95% interval -0.02 to +0.02); no item regressed"
        "; the answers are not graded (likeness 1.00, the old version with itself 1.00)"
    )
    assert result.next == f"replay report {RUN_ID} --format html -o report.html"


@pytest.mark.parametrize(("outcomes", "interval"), [("1", "-0.17 to +0.17"), ("11", "-0.09 to +0.09")])
def test_twenty_items_that_stayed_the_same_show_too_little(
    tmp_path: Path, outcomes: str, interval: str
) -> None:
    result = answered(tmp_path, [{"old": outcomes, "new": outcomes}] * 20)
    assert result.answer.value == "CAN'T TELL"
    assert result.reason == (
        f"tool_calls 1.00 → 1.00 on 20 items (95% interval {interval}): "
        "a loss of more than 0.05 cannot be excluded"
    )


def test_items_of_one_session_count_as_one(tmp_path: Path) -> None:
    items = [replace(item(f"t{n}"), session_id="one") for n in range(8)]
    done = [t for one in items for t in trials(one, **SAME)]
    with filled(tmp_path, items, done) as con:
        result = compute(con, RUN_ID, settings(tmp_path, match=MatchSection()))
    assert result.answer.value == "CAN'T TELL"
    assert result.reason.startswith("the 8 items of tool_calls share one session, user, task or input")


def test_of_fixed_cases_only_the_noise_of_trials_counts(tmp_path: Path) -> None:
    """One of eight cases improved for sure: that the other seven did not is no reason to doubt it."""
    result = answered(tmp_path, [BETTER] + [SAME] * 7, cases=True)
    assert result.answer.value == "SHIP"
    low, high = result.metrics["tool_calls"].ci or (0, 0)
    assert -0.05 < low < 0.125 < high


def test_as_many_better_as_worse_is_no_net_change(tmp_path: Path) -> None:
    lanes = [WORSE] * 6 + [BETTER] * 6 + [SAME] * 38
    result = answered(tmp_path, lanes, cases=True)
    assert result.answer.value == "HOLD"
    assert result.reason == (
        "no net change: 6 better, 6 worse (t0, t1, t2, …), and none may regress ([gate] max_regressed = 0)"
    )
    (tmp_path / "share").mkdir()
    gate = GateSection(max_regressed="12%")
    lenient = answered(tmp_path / "share", lanes, cases=True, gate=gate)
    assert lenient.answer.value == "SHIP"
    assert "; no net change: 6 better, 6 worse; " in lenient.reason


def test_a_lower_score_in_a_single_trial_is_named(tmp_path: Path) -> None:
    """One trial a lane: what scored lower may be noise, and SHIP does not keep silent about it."""
    single = [{"old": "0", "new": "1"}] * 14 + [{"old": "1", "new": "0"}] + [{"old": "1", "new": "1"}] * 35
    result = answered(tmp_path, single, cases=True)
    assert result.answer.value == "SHIP"
    assert "; 1 item scored lower in a single trial, which may be noise; " in result.reason


def test_trials_without_a_score_are_named_where_they_alone_prevent_ship(tmp_path: Path) -> None:
    """Four of 100 items without a score: a loss of 0.04 may hide in them, beside the noise of the rest."""
    result = answered(tmp_path, [{"old": "111", "new": "EEE"}] * 4 + [SAME] * 96, cases=True)
    assert result.answer.value == "CAN'T TELL"
    assert result.reason.endswith(
        ": a loss of more than 0.05 cannot be excluded, since trials without a score may hide it"
    )
    assert result.next == f"replay show t0 --run {RUN_ID}"


def test_recordings_are_not_repeated_but_drawn_in_larger_numbers(tmp_path: Path) -> None:
    lanes = {
        lane: version(f"observed:release = '{lane}'", VersionKind.OBSERVED, condition=f"release = '{lane}'")
        for lane in (Lane.OLD, Lane.NEW)
    }
    items = [item(f"t{n}") for n in range(20)]
    done = [t for one in items for t in trials(one, old="1", new="1")]
    october = SampleRecord(
        name="october", created_at=datetime(2026, 11, 1), month="2026-10", where="release = 'old'", by=(),
        size=20, seed=3, population=900,
    )  # fmt: skip
    kept = {"pair_by": "metadata.item"}
    with filled(tmp_path, items, done, lanes=lanes, sample="october", golden_path=None, settings=kept) as con:
        write_sample(con, october, [])
        result = compute(con, RUN_ID, settings(tmp_path, match=MatchSection(trust=True)))
    assert result.answer.value == "CAN'T TELL"
    assert result.next == f"replay compare --continue {RUN_ID} --size 110"


CHOSEN = "release = 'old' AND scores.passed < 1"


@pytest.mark.parametrize(
    ("kind", "where", "answer", "words"),
    [
        (VersionKind.OBSERVED, CHOSEN, Answer.CANNOT_TELL, f"chose the recordings ({CHOSEN})"),
        (VersionKind.PYTHON, CHOSEN, Answer.SHIP, f"for traces where {CHOSEN}"),
        (VersionKind.OBSERVED, "scores.passed IS NOT NULL", Answer.SHIP, "no item regressed"),
    ],
)
def test_recordings_that_were_chosen_by_their_score_show_no_gain(
    tmp_path: Path, kind: VersionKind, where: str, answer: Answer, words: str
) -> None:
    lanes = {lane: version(lane, kind, condition=f"release = '{lane}'") for lane in (Lane.OLD, Lane.NEW)}
    items = [item(f"t{n}", session_id=f"s{n}") for n in range(40)]
    done = [
        trial(one, lane, scores={"passed": float(lane == "new" and n % 2)})
        for n, one in enumerate(items)
        for lane in ("old", "new")
    ]
    sample = SampleRecord(
        name="failed", created_at=datetime(2026, 11, 1), month="2026-10", where=where, by=(),
        size=40, seed=3, population=900,
    )  # fmt: skip
    gate = GateSection(metrics=("score:passed",))
    with filled(tmp_path, items, done, lanes=lanes, sample="failed", golden_path=None) as con:
        write_sample(con, sample, [])
        result = compute(con, RUN_ID, settings(tmp_path, gate=gate))
    assert result.answer is answer
    assert words in result.reason


def test_hidden_failures_are_in_the_interval_that_decides(tmp_path: Path) -> None:
    """Nine of 200 items where the new version has no score: had it failed there, the loss would be 0.057."""
    lanes = [{"old": "111", "new": "EEE"}] * 9 + [{"old": "111", "new": "110"}] * 7 + [SAME] * 184
    result = answered(tmp_path, lanes, cases=True)
    metric = result.metrics["tool_calls"]
    assert result.answer.value == "CAN'T TELL"
    assert metric.n == 191
    assert metric.bounds is not None
    assert metric.ci is not None
    assert metric.ci[0] < metric.bounds[0] < -0.05 < (metric.delta or 0)


def test_what_could_be_a_gain_is_not_held(tmp_path: Path) -> None:
    """Worse on what could be scored; but the items that have no score may all have got better."""
    lanes = [{"old": "000", "new": "EEE"}] * 28 + [{"old": "110", "new": "100"}] * 42 + [SAME] * 30
    result = answered(tmp_path, lanes, cases=True)
    metric = result.metrics["tool_calls"]
    assert (metric.delta or 0) < -0.1
    assert metric.ci is not None
    assert metric.ci[1] > 0
    assert result.answer.value == "CAN'T TELL"


def test_what_got_better_is_to_be_kept(tmp_path: Path) -> None:
    result = answered(tmp_path, [BETTER] * 5 + [SAME] * 20)
    # The old version's tool path is the recorded one in 20 of 25 items: it is a witness.
    assert result.answer.value == "SHIP"
    assert result.next == f"replay promote t0 t1 t2 t3 t4 --run {RUN_ID} --expect new"


def test_more_regressions_may_be_allowed(tmp_path: Path) -> None:
    lanes = [WORSE] * 2 + [SAME] * 100
    assert answered(tmp_path, lanes).answer.value == "HOLD"
    (tmp_path / "two").mkdir()
    lenient = answered(tmp_path / "two", lanes, gate=GateSection(max_regressed=2, tolerance=0.1))
    assert lenient.answer.value == "SHIP"
    assert "; 2 items regressed; " in lenient.reason


def test_a_loss_over_all_items_holds_without_a_single_certain_one(tmp_path: Path) -> None:
    """Every item a little worse: none beyond its own noise, all together beyond doubt."""
    lanes = [{"old": "101", "new": "001"}, {"old": "110", "new": "010"}] * 20
    result = answered(tmp_path, lanes, cases=True)
    assert result.counts.regressed == 0
    assert result.answer.value == "HOLD"
    assert ": worse by more than 0.05; of the items that fell, 40 of 40: calls cancel_order without" in (
        result.reason
    )


def test_noise_is_no_reason_to_hold(tmp_path: Path) -> None:
    result = answered(tmp_path, NOISY * 10, cases=True)
    assert result.counts.regressed == 0
    assert result.answer.value == "CAN'T TELL"


@pytest.mark.parametrize(
    "lanes",
    [
        [SAME] * 50,
        [SAME] * 5,
        [BETTER] * 5 + [SAME] * 20,
        [WORSE] + [SAME] * 20,
        NOISY * 10,
        [{"old": "1", "new": "0"}] + [{"old": "1", "new": "1"}] * 9,
        [{"old": "E", "new": "E"}] * 3,
        [{"old": "1", "new": "C"}],
        [{"new": "1"}, {"new": "0"}],
    ],
)
def test_the_next_command_is_one_that_parses(tmp_path: Path, lanes: list[dict[str, str]]) -> None:
    words = shlex.split(answered(tmp_path, lanes, cases=True).next)
    known = {name for section in COMMANDS.values() for name in section}
    assert words[0] == "replay"
    assert words[1] in known
    command = cli.get_command(click.Context(cli), words[1])
    assert command is not None
    command.make_context(words[1], words[2:])


def test_every_part_of_the_reason_fits_one_line(tmp_path: Path) -> None:
    for n, lanes in enumerate(([SAME] * 9, [WORSE] * 9, NOISY)):
        folder = tmp_path / str(n)
        folder.mkdir()
        assert "\n" not in answered(folder, lanes).reason
    assert decide.__doc__
    assert Evidence.__doc__


def test_a_recording_against_itself_says_nothing(tmp_path: Path) -> None:
    recorded = version("observed", VersionKind.OBSERVED)
    items = [item(f"t{n}") for n in range(60)]
    both = [t for one in items for t in trials(one, old="1", new="1")]
    with filled(tmp_path, items, both, lanes={Lane.OLD: recorded, Lane.NEW: recorded}) as con:
        result = compute(con, RUN_ID, settings(tmp_path))
    assert result.answer.value == "CAN'T TELL"
    assert result.reason.startswith("both versions are the same recordings")
    (tmp_path / "one").mkdir()
    single = [t for one in items for t in trials(one, old="1")]
    with filled(tmp_path / "one", items, single, lanes={Lane.OLD: recorded}) as con:
        result = compute(con, RUN_ID, settings(tmp_path))
    assert result.answer.value == "CAN'T TELL"
    assert result.reason.startswith("a recording was compared with itself")


def test_agreement_on_items_without_any_tool_call_says_nothing(tmp_path: Path) -> None:
    """An agent that only writes: its answers differ, and no tool call shows it."""
    items = [item(f"t{n}", tape=()) for n in range(60)]
    done = [
        trial(one, lane, index, calls=(), final_response=f"{lane} says so")
        for one in items
        for lane in ("old", "new", "old2")
        for index in range(3)
    ]
    with filled(tmp_path, items, done) as con:
        result = compute(con, RUN_ID, settings(tmp_path))
    assert result.answer.value == "CAN'T TELL"
    assert result.reason.startswith("no item has a tool call, recorded or replayed")


def test_a_deciding_grader_that_scored_nothing_decides_nothing(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def tone(item, trial):\n    raise RuntimeError('no model')\n")
    items = [case(f"c{n}") for n in range(60)]
    done = [t for one in items for t in trials(one, old="11", new="11")]
    given = settings(
        tmp_path, grading=GradingSection(graders=("./own.py:tone",)), gate=GateSection(metrics=("tone",))
    )
    with filled(tmp_path, items, done) as con:
        result = compute(con, RUN_ID, given)
    assert result.answer.value == "CAN'T TELL"
    assert result.reason == (
        "tone must decide, but scored no item: the grader failed: RuntimeError: no model"
    )


def test_recorded_calls_without_a_result_are_counted(tmp_path: Path) -> None:
    lost = replace(CALLS[0], answered=False, result=None)
    items = [item(f"t{n}", tape=(lost, CALLS[1])) for n in range(3)]
    with filled(tmp_path, items, [t for one in items for t in trials(one, old="1", new="1")]) as con:
        result = compute(con, RUN_ID, settings(tmp_path))
    assert any(
        warning.startswith("3 recorded tool calls have no recorded result") for warning in result.warnings
    )


NEVER = "cancel_order was recorded for 160 trials of lane new (new); it writes, and none of its trials asked"
WRITTEN = "cancel_order was recorded for 160 trials of lane new (new); trials that did not ask for it wrote "


@pytest.mark.parametrize(
    ("asked_in", "with_it", "without_it", "reason"),
    [
        (0, "", "", NEVER),
        (1, "", "", None),
        (1, "", "orders.json", f"{WRITTEN}orders.json"),
        (1, "agent-1.log", "agent-22.log", None),
    ],
    ids=["never", "once", "files without it", "the same files"],
)
def test_a_recorded_write_that_may_have_run_unasked_is_never_shipped(
    tmp_path: Path, asked_in: int, with_it: str, without_it: str, reason: str | None
) -> None:
    """Every answer is good; the tool may have run past the patch points."""
    lanes = {lane: version(str(lane), tools=("app:call",)) for lane in (Lane.OLD, Lane.NEW)}
    items = [item(f"t{n:02}") for n in range(80)]
    done = [
        trial(
            one,
            lane,
            index,
            calls=CALLS if (asked := lane == "old" or n < asked_in) else CALLS[:1],
            scores={"good": 1.0},
            files=tuple(WrittenFile(path=path) for path in [with_it if asked else without_it] if path),
        )
        for n, one in enumerate(items)
        for lane in ("old", "new")
        for index in range(2)
    ]
    gate = GateSection(metrics=("score:good",))
    with filled(tmp_path, items, done, lanes=lanes) as con:
        result = compute(con, RUN_ID, settings(tmp_path, gate=gate))
        ignoring = settings(tmp_path, gate=gate, agent=AgentSection(ignore=("cancel_order",)))
        assert compute(con, RUN_ID, ignoring).answer is Answer.SHIP
    if reason is None:
        assert result.answer is Answer.SHIP
    else:
        assert result.answer is Answer.CANNOT_TELL
        assert result.reason.startswith(reason)
        assert result.next == f"replay show t{asked_in:02} --run {RUN_ID}"
