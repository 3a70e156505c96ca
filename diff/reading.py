"""What a run left in the store, read once: whole blocks with their graded trials, and what each lane did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from replaydiff.diff import validity
from replaydiff.diff.graders.base import free_grades
from replaydiff.diff.lanes import LaneTally
from replaydiff.diff.metrics import Block
from replaydiff.diff.result import GradedTrial
from replaydiff.diff.stored import PAIRWISE, StoredGrades
from replaydiff.diff.walk import by_item
from replaydiff.replay.model import Lane, Run, Status, Trial, VersionKind
from replaydiff.replay.settings import Settings

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

T = TypeVar("T")


@dataclass(slots=True)
class Read:
    """What one walk over a run's items and trials leaves."""

    items: int
    """Items of the run, whether their blocks are whole or not."""
    blocks: list[Block]
    tallies: dict[Lane, LaneTally]
    witnesses: dict[Lane, validity.Witness]


def read_blocks(con: DuckDBPyConnection, run: Run, settings: Settings, stored: StoredGrades) -> Read:
    """Walk over the run once, grading what costs nothing."""
    read = Read(
        items=0,
        blocks=[],
        tallies={lane: LaneTally() for lane in run.lanes},
        witnesses={lane: validity.Witness() for lane in run.lanes},
    )
    for item, trials in by_item(con, run):
        read.items += 1
        trials = [trial for trial in trials if trial.lane in run.lanes]
        for trial in trials:
            read.tallies[trial.lane].add(trial)
        if not _whole(run, trials):
            continue
        lanes: dict[Lane, list[GradedTrial]] = {lane: [] for lane in run.lanes}
        for trial in trials:
            if trial.status is Status.CANCELLED:
                continue
            read.witnesses[trial.lane].add(item, trial)
            grades = {**free_grades(item, trial, settings), **stored.of(trial)}
            lanes[trial.lane].append(GradedTrial(trial=trial, grades=grades))
        read.blocks.append(Block(item=item, lanes={lane: tuple(graded) for lane, graded in lanes.items()}))
    return read


def as_new(run: Run, read: Read, candidate: Lane) -> tuple[Run, Read]:
    """The run and what was read of it, with this candidate as its lane `new` and without the others."""

    def kept(lanes: Mapping[Lane, T]) -> dict[Lane, T]:
        return {
            Lane.NEW if lane is candidate else lane: value
            for lane, value in lanes.items()
            if lane is candidate or not lane.is_new
        }

    def renamed(block: Block) -> Block:
        lanes = kept(_compared_with(candidate, block.lanes))
        lanes[Lane.NEW] = tuple(
            replace(graded, trial=replace(graded.trial, lane=Lane.NEW)) for graded in lanes.get(Lane.NEW, ())
        )
        return replace(block, lanes=lanes)

    return replace(run, lanes=kept(run.lanes)), Read(
        items=read.items,
        blocks=[renamed(block) for block in read.blocks],
        tallies=kept(read.tallies),
        witnesses=kept(read.witnesses),
    )


def _compared_with(
    candidate: Lane, lanes: Mapping[Lane, tuple[GradedTrial, ...]]
) -> Mapping[Lane, tuple[GradedTrial, ...]]:
    """The lanes with the judge's comparisons of the old trials being those with this candidate."""
    if candidate is Lane.NEW or not any(PAIRWISE in one.grades for lane in lanes.values() for one in lane):
        return lanes
    from replaydiff.diff.pairing import rest_of

    said = {one.trial.index: one.grades.get(PAIRWISE) for one in lanes.get(candidate, ())}

    def turned(graded: GradedTrial) -> GradedTrial:
        grades = {name: grade for name, grade in graded.grades.items() if name != PAIRWISE}
        new = said.get(graded.trial.index)
        return replace(graded, grades=grades if new is None else grades | {PAIRWISE: rest_of(new)})

    return {**lanes, Lane.OLD: tuple(turned(one) for one in lanes.get(Lane.OLD, ()))}


def _whole(run: Run, trials: Sequence[Trial]) -> bool:
    """Whether every lane of the item's block has finished. An observed lane has what was recorded."""
    for lane, version in run.lanes.items():
        finished = sum(trial.lane is lane and trial.status is not Status.CANCELLED for trial in trials)
        if finished < (1 if version.kind is VersionKind.OBSERVED else run.trials):
            return False
    return True
