"""Runs that end as soon as their answer is known: whether one can, what it continues, and its looks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replaydiff.replay.api.channel import Channel
from replaydiff.replay.errors import InputError, SettingsError
from replaydiff.replay.settings import Settings

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from replaydiff.diff.judge.judge import Judge
    from replaydiff.replay.model import Lane, Look, RunRecord, Version


def check_until_known(settings: Settings, lanes: dict[Lane, Version]) -> None:
    """Check that a run of these lanes can end early.

    Raises:
        SettingsError: it cannot.
    """
    from replaydiff.replay.model import VersionKind

    if all(version.kind is VersionKind.OBSERVED for version in lanes.values()):
        raise SettingsError(
            "--until-known ends a run early, and recordings need no run; leave it out (or set [run] "
            "until_known = false)"
        )
    if settings.judge.model is not None and settings.judge.batch:
        raise SettingsError(
            "--until-known asks the judge at every look, and a batch takes up to a day; leave --until-known "
            "or --batch out"
        )


def continued_run(store: Path, run_id: str, lanes: dict[Lane, Version]) -> RunRecord:
    """Return the run that a new one continues.

    Raises:
        InputError: it was no such run, or compared other versions.
    """
    from replaydiff.diff.stopping import plan_of
    from replaydiff.replay.engine.versions import changes
    from replaydiff.replay.model import Lane
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.runs import get_run

    with open_store(store, read_only=True) as con:
        run = get_run(con, run_id)
    if plan_of(run) is None:
        raise InputError(
            f"run {run.id} was not started with --until-known, so it has no error rate left to spend",
            hint="leave --continue out",
        )
    compared, now = ({k: v for k, v in found.items() if k != Lane.OLD2} for found in (run.lanes, lanes))
    if compared.keys() != now.keys() or any(changes(compared[lane], now[lane]) for lane in now):
        raise InputError(
            f"run {run.id} compared other versions; a new comparison has an error rate of its own; leave "
            "--continue out"
        )
    return run


def look_with(
    settings: Settings, judge: Judge | None, channel: Channel, lane: Lane | None = None
) -> Callable[[DuckDBPyConnection, RunRecord, int], Look]:
    """Return what takes a look at a run that may stop early.

    Args:
        settings: of the answer.
        judge: grades what was replayed before each look; None for none.
        channel: gets a sentence on each look.
        lane: the only lane that counts, as in a check; None for all.
    """

    def look(con: DuckDBPyConnection, run: RunRecord, items: int) -> Look:
        # Imported here: most runs take no look, and this is a fifth of the time in which a run starts.
        from replaydiff.diff.compute import compute
        from replaydiff.diff.judge.grading import grade_run
        from replaydiff.diff.judge.questions import spent
        from replaydiff.diff.stopping import FUTILITY, plan_of, why_to_stop
        from replaydiff.replay.engine.agents import SIMULATED_USD
        from replaydiff.replay.model import Look
        from replaydiff.replay.store.trials import spent_usd

        if judge is not None:
            budget = run.budget_usd
            if budget is not None:
                replayed = spent_usd(con, run.id, [*run.lanes]) or 0.0
                simulated: Any = run.settings.get(SIMULATED_USD, 0.0)
                budget = max(0.0, budget - replayed - simulated - spent(con, run.id))
            grade_run(con, run.id, judge, budget_usd=budget)
        result = compute(con, run.id, settings, lane=lane, look=items)
        planned = result.counts.total
        stopped = why_to_stop(result, items, planned)
        plan = plan_of(run)
        of = f"look {len(run.looks) + 1}" + (f" of {len(plan.looks)}" if plan else "")
        why = "; neither SHIP nor HOLD is likely with the rest" if stopped == FUTILITY else ""
        channel.message(
            f"{of}, {items} of {planned} items: {result.answer.value}{why}"
            + ("" if stopped is None else f"; stopped, {planned - items} items are not replayed")
        )
        return Look(items=items, answer=result.answer.value, stopped=stopped)

    return look
