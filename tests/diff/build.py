"""Runs for tests: items and trials said in a line each, in a real store."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection

from replaydiff.replay.model import (
    Expectation,
    ExpectedCall,
    Grade,
    GradeState,
    Item,
    Lane,
    Match,
    Rule,
    RunRecord,
    ServedCall,
    Status,
    ToolCall,
    Trial,
    Version,
    VersionKind,
)
from replaydiff.replay.settings import MatchSection, Settings
from replaydiff.replay.store.grades import write_grades
from replaydiff.replay.store.runs import create_run
from replaydiff.replay.store.trials import write_trials
from tests.stand_ins.stores import open_for_writing, write_filled

RUN_ID = "20261120-221305-ab12"
WHEN = datetime(2026, 11, 20, 22, 13, 5)

CALLS = (
    ToolCall(name="get_order_status", args={"order_id": "1"}, result="shipped"),
    ToolCall(name="cancel_order", args={"order_id": "1"}, result="done", index=1),
)
"""What production did in every item of these tests."""


def item(name: str, **fields: Any) -> Item:
    """A sampled trace that looked up an order and cancelled it."""
    return Item(**{"id": name, "trace_id": name, "input": f"cancel {name}", "tape": CALLS, **fields})


def case(name: str, *calls: ExpectedCall, match: Match | None = None, **expected: Any) -> Item:
    """A case that expects calls; without any and without `expected`, the recorded two."""
    wanted = calls or (() if expected else tuple(ExpectedCall(name=c.name, args=c.args) for c in CALLS))
    fields: dict[str, Any] = {"tool_calls": wanted or None, "match": match or Match(), **expected}
    return Item(id=name, case_id=name, input=name, tape=CALLS, expectation=Expectation(**fields))


def trial(
    of: Item | str,
    lane: Lane | str,
    index: int = 0,
    passed: bool = True,
    *,
    calls: Sequence[ToolCall] | None = None,
    rules: Sequence[Rule] | None = None,
    **fields: Any,
) -> Trial:
    """A trial that made the recorded calls, or (not `passed`) cancelled without looking first."""
    made = CALLS[0 if passed else 1 :] if calls is None else calls
    served = tuple(
        ServedCall(call=call, rule=rules[place] if rules else Rule.TAPE) for place, call in enumerate(made)
    )
    given: dict[str, Any] = {"status": Status.OK, "final_response": "done", "latency_ms": 100.0, **fields}
    return Trial(
        run_id=RUN_ID,
        item_id=of if isinstance(of, str) else of.id,
        lane=Lane.parse(lane),
        index=index,
        served=served,
        **given,
    )


def trials(of: Item | str, **lanes: str) -> list[Trial]:
    """Trials of one item by lane: `old="110"` is two passes and a failure, `E` an error, `C` cancelled."""
    made = []
    for lane, outcomes in lanes.items():
        for index, outcome in enumerate(outcomes):
            if outcome in "EC":
                status = Status.CRASHED if outcome == "E" else Status.CANCELLED
                made.append(trial(of, lane, index, calls=(), status=status, reason="it died"))
            else:
                made.append(trial(of, lane, index, outcome == "1"))
    return made


def version(name: str = "prod", kind: VersionKind = VersionKind.PYTHON, **fields: Any) -> Version:
    """A version that was never run."""
    return Version(name=name, kind=kind, entrypoint="app:run", **fields)


def store(
    folder: Path,
    items: Sequence[Item],
    done: Sequence[Trial],
    *,
    grades: Sequence[Grade] = (),
    lanes: Mapping[Lane, Version] | None = None,
    **fields: Any,
) -> Path:
    """A store that holds one run with these items, trials and grades."""
    path = folder / "replay.duckdb"
    contents = pickle.dumps((items, done, grades, lanes, fields))
    write_filled(path, contents, lambda con: _fill(con, items, done, grades, lanes, fields))
    return path


@contextmanager
def filled(
    folder: Path,
    items: Sequence[Item],
    done: Sequence[Trial],
    *,
    grades: Sequence[Grade] = (),
    lanes: Mapping[Lane, Version] | None = None,
    **fields: Any,
) -> Iterator[DuckDBPyConnection]:
    """Such a store, open: for who only reads on, and need not open it a second time."""
    with open_for_writing(folder / "replay.duckdb") as con:
        _fill(con, items, done, grades, lanes, fields)
        yield con


def _fill(
    con: DuckDBPyConnection,
    items: Sequence[Item],
    done: Sequence[Trial],
    grades: Sequence[Grade],
    lanes: Mapping[Lane, Version] | None,
    fields: Mapping[str, Any],
) -> None:
    present = {trial.lane for trial in done}
    chosen = lanes or {
        lane: version("candidate" if lane == Lane.NEW else "prod")
        for lane in sorted(present, key=lambda lane: lane.order)
    }
    given: dict[str, Any] = {
        "created_at": WHEN,
        "finished_at": datetime(2026, 11, 20, 22, 20),
        "trials": max((trial.index + 1 for trial in done), default=1),
        "seed": 7,
        "golden_path": "cases/golden.jsonl",
        **fields,
    }
    create_run(con, RunRecord(id=RUN_ID, lanes=dict(chosen), **given), items)
    write_trials(con, done)
    write_grades(con, grades)


def judged(of: Item | str, lane: Lane | str, index: int, score: float | None, **fields: Any) -> Grade:
    """A judge's grade; without a score it abstained."""
    given: dict[str, Any] = {
        "grader": "judge",
        "grader_version": "p1",
        "state": GradeState.ABSTAINED if score is None else GradeState.SCORED,
        "passed": None if score is None else score >= 1,
        "detail": {"model": "m", "prompt_hash": "p", "rubric_hash": "r"},
        **fields,
    }
    item_id = of if isinstance(of, str) else of.id
    return Grade(run_id=RUN_ID, item_id=item_id, lane=Lane.parse(lane), trial=index, score=score, **given)


def settings(folder: Path, **sections: Any) -> Settings:
    """Settings rooted in a folder; recordings are trusted unless `match` says otherwise."""
    return Settings(root=folder, **{"match": MatchSection(trust=True), **sections})
