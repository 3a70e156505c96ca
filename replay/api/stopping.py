"""Runs that end as soon as their answer is known: whether one can, what it continues, and its looks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replaydiff.replay.api.channel import Channel
from replaydiff.replay.errors import InputError, ReplayError, SettingsError
from replaydiff.replay.model import JsonObject, Lane, Look, RunRecord, Version, VersionKind
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.connection import open_store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from replaydiff.diff.judge.judge import Judge
    from replaydiff.replay.api.options import RunOptions
    from replaydiff.replay.api.sampling import SampleOptions


def check_early_stopping(settings: Settings, lanes: dict[Lane, Version]) -> None:
    """Check that a run of these lanes can end early.

    Raises:
        SettingsError: it cannot.
    """
    if all(version.kind is VersionKind.OBSERVED for version in lanes.values()):
        raise SettingsError(
            "--until-known ends a run early, and recordings need no run; leave it out (or set [run] "
            "until_known = false)"
        )
    if settings.judge.model is not None and settings.judge.batch:
        raise SettingsError(
            "--until-known asks the judge at every look, and a batch takes up to a day; leave --until-known "
            "or batch in [judge] out"
        )


def continued_run(store: Path, run_id: str, lanes: dict[Lane, Version]) -> RunRecord:
    """Return the run that a new one continues.

    Raises:
        InputError: it has not finished, or compared other versions.
    """
    from replaydiff.replay.engine.versions import changes
    from replaydiff.replay.store.runs import get_run

    with open_store(store, read_only=True) as con:
        run = get_run(con, run_id)
    if run.finished_at is None:
        raise InputError(f"run {run.id} has not finished; `replay run --resume {run.id}` continues it")
    compared, now = (
        {lane: version for lane, version in versions.items() if lane != Lane.OLD2}
        for versions in (run.lanes, lanes)
    )
    if compared.keys() != now.keys() or any(changes(compared[lane], now[lane]) for lane in now):
        raise InputError(
            f"run {run.id} compared other versions; a new comparison has an error rate of its own; leave "
            "--continue out"
        )
    return run


def plan_for(
    settings: Settings, items: int, trials: int, earlier: RunRecord | None, items_before: int
) -> JsonObject:
    """Return the plan of a run that stops early, or that continues another one.

    Args:
        settings: of the run.
        items: of the run.
        trials: of each item and lane.
        earlier: the run that it continues; None for none.
        items_before: of that run.
    """
    from replaydiff.diff.stopping import earlier_looks, new_plan, total_error

    early = settings.run.until_known
    if earlier is None:
        return new_plan(items, early=early).to_json()
    before = earlier_looks(earlier, items_before, trials, settings.gate.confidence)
    if before and before[-1].items >= items:
        raise InputError(
            f"run {earlier.id} has all these items and trials already; continue it with a larger --size, or "
            "with more --trials"
        )
    return new_plan(items, before, total=total_error(earlier), early=early).to_json()


def as_continued(
    store: Path, run_id: str, options: RunOptions, draw: SampleOptions
) -> tuple[RunOptions, SampleOptions, str | None, str | None]:
    """Return the options of a run that continues another one: what is not named is as it was.

    Args:
        store: path of the store.
        run_id: the run that is continued.
        options: of the new run.
        draw: of its sample: `size` names a larger one.

    Returns:
        The options, how the sample is drawn, or the name of the sample, or the path of the golden set.
    """
    from replaydiff.replay.engine.run import AA_ITEMS
    from replaydiff.replay.store.runs import get_run
    from replaydiff.replay.store.samples import get_sample

    with open_store(store, read_only=True) as con:
        run = get_run(con, run_id)
        sample = get_sample(con, run.sample) if run.sample else None
    pair_by: Any = run.settings.get("pair_by")
    old = run.lanes.get(Lane.OLD2 if run.has_control else Lane.OLD)
    options_of_run: RunOptions = {
        "old": None if old is None else old.name,
        "new": [version.name for lane, version in run.lanes.items() if lane.is_new],
        "trials": run.trials,
        "aa": None if AA_ITEMS in run.settings else Lane.OLD2 in run.lanes,
        "mode": str(run.mode),
        "pair_by": pair_by,
        "seed": run.seed,
    }
    named = {name: value for name, value in options.items() if value not in (None, ())}
    filled: Any = {
        **{name: value for name, value in options_of_run.items() if value not in (None, [])},
        **named,
    }
    if sample is None:
        return filled, {}, None, run.golden_path
    size = draw.get("size")
    if size is None:
        return filled, {}, sample.name, None
    if size <= sample.size:
        raise InputError(
            f"run {run.id} has a sample of {sample.size}; --size must be larger to continue it, not {size}"
        )
    larger: SampleOptions = {
        "month": sample.month,
        "where": sample.where,
        "by": sample.by,
        "seed": sample.seed,
        "size": size,
        "name": draw.get("name") or f"{sample.name}-{size}",
    }
    return filled, larger, None, None


def going_on(run_id: str) -> str:
    """Return how a run goes on whose judge was stopped."""
    return f"`replay run --resume {run_id}` continues with the judge"


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
        from replaydiff.replay.store.trials import spent_usd

        if judge is not None:
            budget = run.budget_usd
            if budget is not None:
                replayed = spent_usd(con, run.id, [*run.lanes]) or 0.0
                simulated: Any = run.settings.get(SIMULATED_USD, 0.0)
                budget = max(0.0, budget - replayed - simulated - spent(con, run.id))
            try:
                grade_run(con, run.id, judge, budget_usd=budget)
            except ReplayError:
                channel.message(f"the trials of run {run.id} are kept; {going_on(run.id)}")
                raise
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
