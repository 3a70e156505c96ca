"""Cases that end now so, now so, with one version: what stored runs say about the golden set itself.

Trials of one lane, and those of `old` and `old2` together (the A/A lane is the old version once more), are
all of one version: where some pass and some fail, case or agent is not steady, and a verdict on it is noise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from replaydiff.diff.judge.judge import versions_of
from replaydiff.diff.reading import StoredGrades, read_blocks
from replaydiff.diff.result import Block, GradedTrial
from replaydiff.replay.model import Lane, Run
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.runs import list_runs

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

RUNS = 5
"""How many runs of golden sets are looked at, the latest first."""


def flaky(con: DuckDBPyConnection, settings: Settings, cases: Collection[str]) -> dict[str, str]:
    """Case id → what the latest run in which it flipped shows."""
    said: dict[str, str] = {}
    runs = [run for run in list_runs(con) if run.golden_path is not None and run.finished_at is not None]
    for run in sorted(runs, key=lambda run: run.created_at, reverse=True)[:RUNS]:
        stored = StoredGrades.read(con, run, versions_of(settings))
        for block in read_blocks(con, run, settings, stored).blocks:
            name, told = block.item.case_id, next(_flips(run, block), None)
            if name is not None and name in cases and told is not None:
                said.setdefault(name, told)
    return said


def _flips(run: Run, block: Block) -> Iterator[str]:
    by_version: dict[str, Sequence[GradedTrial]] = {
        lane.value: trials for lane, trials in block.lanes.items() if lane is not Lane.OLD2
    }
    if Lane.OLD2 in block.lanes:
        by_version["old and old2"] = [*block.lanes.get(Lane.OLD, ()), *block.lanes[Lane.OLD2]]
        by_version.pop("old", None)
    for lanes, trials in by_version.items():
        ended = [passed for trial in trials if (passed := _passed(trial)) is not None]
        if len(set(ended)) > 1:
            yield (
                f"flaky: {ended.count(True)} of {len(ended)} trials of one version passed ({lanes} of run "
                f"{run.id}); say what may vary, or put it in quarantine"
            )


def _passed(trial: GradedTrial) -> bool | None:
    """Whether every grade that says so passed; None where an error or a judge leaves it open."""
    passes = [grade.passed for grade in trial.grades.values()]
    return False if False in passes else None if not passes or None in passes else True
