"""Samples, runs, trials, grades, decisions and rejects: kept once, read back the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection

from replaydiff.replay.errors import InputError, UnknownNameError
from replaydiff.replay.model import (
    Action,
    Decision,
    Expectation,
    ExpectedCall,
    Grade,
    GradeState,
    Item,
    Lane,
    Rule,
    SampleItem,
    SampleRecord,
    ServedCall,
    Status,
    ToolCall,
    Trial,
    Usage,
    Vote,
)
from replaydiff.replay.store.connection import transaction
from replaydiff.replay.store.grades import add_decision, decisions, iter_grades, write_grades
from replaydiff.replay.store.import_records import list_rejects, write_rejects
from replaydiff.replay.store.item_trials import iter_trials
from replaydiff.replay.store.runs import (
    create_run,
    finish_run,
    get_item,
    get_run,
    iter_items,
    latest_run,
    list_runs,
)
from replaydiff.replay.store.samples import get_sample, list_samples, sample_items, write_sample
from replaydiff.replay.store.trials import finished_keys, trials_of, write_trials
from tests.stand_ins.stores import open_for_writing
from tests.store.build import WHEN, calls, items, run

RUN = "20261003-142205-ab12"


@pytest.fixture
def con(tmp_path: Path) -> Iterator[DuckDBPyConnection]:
    with open_for_writing(tmp_path / "s.duckdb") as opened:
        yield opened


def trial(item_id: str, lane: Lane = Lane.OLD, index: int = 0, **fields: object) -> Trial:
    return Trial(
        **{"run_id": RUN, "item_id": item_id, "lane": lane, "index": index, "status": Status.OK, **fields}  # type: ignore[arg-type]
    )


def test_a_run_comes_back_without_the_values_of_its_environment(con: DuckDBPyConnection) -> None:
    given = run(RUN, sample="oct", budget_usd=1.5, settings={"timeout": 3, "pair_by": None})
    create_run(con, given, items(3))
    lanes = {lane: replace(version, env={}) for lane, version in given.lanes.items()}
    assert get_run(con, RUN) == replace(given, lanes=lanes)
    assert "secret" not in str(con.execute("SELECT * FROM runs").fetchall())


def test_items_keep_their_order_and_everything_in_them(con: DuckDBPyConnection) -> None:
    given = [
        *items(450),
        Item(
            id="case",
            case_id="case",
            input="é",
            expectation=Expectation(
                tool_calls=(ExpectedCall(name="a", args={"x": 1}),), extra={"tone": ["warm"]}
            ),
            tape=calls("a", "b"),
            tags=("t",),
            metadata={"k": [1, None]},
            weight=2.5,
        ),
    ]
    create_run(con, run(RUN), iter(given))
    assert list(iter_items(con, RUN)) == given
    assert get_item(con, RUN, "item-00037") == next(item for item in given if item.id == "item-00037")
    assert get_item(con, RUN, "case").expectation == given[-1].expectation


@pytest.mark.slow
def test_items_can_be_read_while_trials_are_written(con: DuckDBPyConnection) -> None:
    # More than are read at once.
    create_run(con, run(RUN), items(230))
    for item in iter_items(con, RUN):
        write_trials(con, [trial(item.id)])
    assert len(finished_keys(con, RUN)) == 230


def test_items_of_one_id_are_refused_and_the_run_does_not_exist(con: DuckDBPyConnection) -> None:
    with pytest.raises(InputError, match="two items of the run have the id 'item-00000'"):
        create_run(con, run(RUN), [*items(2), *items(2)])
    assert list_runs(con) == []


def test_a_run_without_items_is_refused(con: DuckDBPyConnection) -> None:
    with pytest.raises(InputError, match="nothing to replay"):
        create_run(con, run(RUN), [])


def test_finding_runs(con: DuckDBPyConnection) -> None:
    assert latest_run(con) is None
    with pytest.raises(UnknownNameError, match="there is no run '2026'; start one with `replay run`"):
        get_run(con, "2026")
    ids = ["20261001-000000-aaaa", "20261002-000000-bbbb", "20261002-000001-cccc"]
    for n, run_id in enumerate(ids):
        create_run(con, run(run_id, created_at=WHEN + timedelta(days=n)), items(1))
    finish_run(con, ids[2], WHEN)
    newest, unfinished = latest_run(con), latest_run(con, finished=False)
    assert newest is not None
    assert unfinished is not None
    assert (newest.id, newest.finished_at, unfinished.id) == (ids[2], WHEN, ids[1])
    assert [found.id for found in list_runs(con)] == ids
    assert get_run(con, "20261001").id == ids[0]
    with pytest.raises(InputError, match="several runs begin with '20261002'"):
        get_run(con, "20261002")
    with pytest.raises(UnknownNameError, match="did you mean '20261001-000000-aaaa'"):
        get_run(con, "20261001-000000-aaab")


def test_items_by_the_beginning_of_their_id(con: DuckDBPyConnection) -> None:
    create_run(con, run(RUN), [Item(id="abcdef1"), Item(id="abcdef12"), Item(id="z")])
    assert get_item(con, RUN, "abcdef1").id == "abcdef1"
    assert get_item(con, RUN, "abcdef12").id == "abcdef12"
    with pytest.raises(InputError, match="several items begin with 'abcdef'"):
        get_item(con, RUN, "abcdef")
    with pytest.raises(UnknownNameError, match=f"run {RUN}: there is no item 'abcd'"):
        get_item(con, RUN, "abcd")


def test_trials_come_back_by_position_of_their_item(con: DuckDBPyConnection) -> None:
    given_items = items(20)
    create_run(con, run(RUN), given_items)
    served = (
        ServedCall(call=ToolCall(name="a", args={"x": [1]}, result="r"), rule=Rule.TAPE, from_trace_id="t"),
        ServedCall(call=ToolCall(name="b"), rule=Rule.MISS, note="never recorded"),
    )
    given = [
        trial(
            item.id,
            lane,
            index,
            status=Status.DIVERGED,
            reason="why",
            final_response="said",
            served=served,
            usage=Usage(input_tokens=1),
            cost_usd=0.5,
            latency_ms=1.5,
            started_at=WHEN,
            attempts=2,
            scores={"reward": 1.0},
            stderr="half \ud83d",
        )
        for item in given_items
        for lane in (Lane.NEW, Lane.OLD)
        for index in range(2)
    ]
    write_trials(con, given[::-1])
    stored = [replace(one, stderr="half \ufffd") for one in given]
    assert list(iter_trials(con, RUN)) == stored
    assert trials_of(con, RUN, given_items[3].id) == stored[12:16]


@pytest.mark.parametrize("around", [nullcontext, transaction])
def test_a_finished_trial_is_never_overwritten_but_a_cancelled_one_gives_way(
    con: DuckDBPyConnection, around: Callable[[DuckDBPyConnection], AbstractContextManager[object]]
) -> None:
    create_run(con, run(RUN), [Item(id="a"), Item(id="b")])
    with around(con):
        write_trials(con, [trial("a", final_response="first"), trial("b", status=Status.CANCELLED)])
    assert finished_keys(con, RUN) == {("a", "old", 0)}
    with around(con):
        write_trials(con, [trial("a", final_response="again"), trial("b", final_response="done")])
    assert [t.final_response for t in iter_trials(con, RUN)] == ["first", "done"]
    write_trials(con, [trial("b", status=Status.CANCELLED)])
    assert finished_keys(con, RUN) == {("a", "old", 0), ("b", "old", 0)}


def test_one_trial_twice_in_a_batch(con: DuckDBPyConnection) -> None:
    create_run(con, run(RUN), [Item(id="a")])
    write_trials(con, [trial("a", status=Status.CANCELLED), trial("a", final_response="x"), trial("a")])
    assert [t.final_response for t in iter_trials(con, RUN)] == ["x"]


def test_a_grade_of_the_same_version_replaces_the_earlier_one(con: DuckDBPyConnection) -> None:
    grade = Grade(
        run_id=RUN,
        item_id="a",
        lane=Lane.NEW,
        trial=0,
        grader="judge",
        grader_version="1",
        state=GradeState.SCORED,
        score=0.5,
        passed=False,
        reason="why",
        detail={"a": {"b": 1}},
        votes=(Vote(index=0, state=GradeState.REFUSED, reason="no"),),
        cost_usd=0.01,
    )
    write_grades(con, [grade, replace(grade, grader_version="2")])
    write_grades(con, [replace(grade, score=1.0, passed=True), replace(grade, score=0.75)])
    assert list(iter_grades(con, RUN)) == [replace(grade, score=0.75), replace(grade, grader_version="2")]
    assert list(iter_grades(con, "other")) == []


def test_decisions_are_appended_in_order(con: DuckDBPyConnection) -> None:
    given = [
        Decision(item_id="a", action=Action.PROMOTE, at=WHEN, person="é <e@x>", run_id=RUN, case_id="c"),
        Decision(item_id="a", action=Action.DISMISS, at=WHEN, person="p", reason="odd"),
    ]
    for decision in given:
        add_decision(con, decision)
    assert decisions(con) == given


SAMPLE = SampleRecord(
    name="oct",
    created_at=WHEN,
    month="2026-10",
    where="true",
    by=("model", "tags"),
    size=2,
    seed=-1,
    population=9,
)
ITEMS = [
    SampleItem(sample="oct", trace_id=trace_id, position=n, stratum="s | -", weight=4.5)
    for n, trace_id in enumerate(["z", "a"])
]


def test_a_sample_is_written_once_and_never_changed(con: DuckDBPyConnection) -> None:
    assert write_sample(con, SAMPLE, ITEMS)
    assert get_sample(con, "oct") == SAMPLE
    assert sample_items(con, "oct") == ITEMS
    assert not write_sample(con, replace(SAMPLE, created_at=datetime(2027, 1, 1)), ITEMS)
    assert list_samples(con) == [SAMPLE]
    for sample, its in ((replace(SAMPLE, seed=2), ITEMS), (SAMPLE, ITEMS[::-1])):
        with pytest.raises(InputError, match=r"sample 'oct' exists with .*; choose another --name"):
            write_sample(con, sample, its)
    assert sample_items(con, "oct") == ITEMS
    with pytest.raises(UnknownNameError, match="there is no sample 'okt'; did you mean 'oct'"):
        sample_items(con, "okt")


@dataclass
class Bad:
    source: str
    file: str
    line: int
    reason: str
    excerpt: str
    id: str = ""
    record: str | None = None
    alone: bool = False


def test_a_reject_of_the_same_line_replaces_the_earlier_one(con: DuckDBPyConnection) -> None:
    write_rejects(con, [Bad("x", "f", 2, "no id", "{}"), Bad("x", "f", 1, "old", "\ud800")])
    write_rejects(con, [Bad("x", "f", 1, "new", "\x00"), Bad("x", "f", 1, "newest", "\x00")])
    assert [(r.file, r.line, r.reason, r.excerpt) for r in list_rejects(con)] == [
        ("f", 1, "newest", "\ufffd"),
        ("f", 2, "no id", "{}"),
    ]
