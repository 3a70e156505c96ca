"""Read the store: lists, transcripts, plans, trends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from replaydiff.replay.errors import InputError, SettingsError, StoreMissingError, UnknownNameError
from replaydiff.replay.settings import DEFAULT_TRIALS, Settings

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from replaydiff.diff.plan import NoiseEstimate
    from replaydiff.diff.plan import PlannedSize as PlannedSize
    from replaydiff.diff.result import DiffResult
    from replaydiff.diff.trend import TrendPoint as TrendPoint
    from replaydiff.replay.engine.user_error import UserError
    from replaydiff.replay.model import Case, Grade, Item, Lane, ModelCall, RunRecord, Trace, Trial
    from replaydiff.replay.store.traces import Listed

TraceSummary: TypeAlias = "Listed"
"""A trace as `replay traces` lists it."""
PLANNED_ITEMS = (50, 100, 200, 400, 800)
_MOST_PLANNED = 1_000_000


def traces(
    store: Path, *, where: str | None, month: str | None, text: str | None, limit: int, offset: int
) -> tuple[list[Listed], int]:
    """Return the newest traces that fit, and how many fit in all."""
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.traces import list_traces

    with open_store(store, read_only=True) as con:
        return list_traces(con, where, month=month, text=text, limit=limit, offset=offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedItem:
    """An item of a run, with its trials."""

    run: str
    item: Item
    trials: tuple[Trial, ...]
    grades: tuple[Grade, ...]
    """Grades that are stored: those of the judge."""
    model_calls: tuple[ModelCall, ...]
    """What the trials asked their models, where that was recorded."""
    origin: Trial | None = None
    """The trial that these were forked from; None where the run is no fork."""


def find(
    store: Path,
    settings: Settings,
    name: str,
    *,
    run_id: str | None,
    lane: Lane | None,
    trial: int | None,
    golden: Path | None,
) -> Trace | Case | ReplayedItem:
    """Return an item of a run (`run_id`; empty: the latest), else a trace of the store, else a case.

    Args:
        store: path of the store.
        settings: the settings.
        name: its id, or a unique beginning of it; of a session, to read its traces as one conversation.
        run_id: the run.
        lane: only trials of this lane.
        trial: only the trial of this number, from 1.
        golden: look in this golden set alone.

    Raises:
        UnknownNameError: there is none of this name.
    """
    from replaydiff.replay.golden import read_golden
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.conversations import get_conversation
    from replaydiff.replay.store.traces import get_trace

    if run_id is not None:
        with open_store(store, read_only=True) as con:
            return _item(con, name, run_id, lane, trial)
    path = golden or settings.golden_path
    cases = {case.id: case for case in read_golden(path)} if path.exists() else {}
    missing: Exception | None = None
    if golden is None:
        try:
            with open_store(store, read_only=True) as con:
                return get_conversation(con, name) or get_trace(con, name)
        except (UnknownNameError, StoreMissingError) as error:
            missing = error
    if name in cases:
        return cases[name]
    raise missing or UnknownNameError("case", name, cases)


def _item(
    con: DuckDBPyConnection, name: str, run_id: str, lane: Lane | None, trial: int | None
) -> ReplayedItem:
    from replaydiff.replay.store.grades import iter_grades
    from replaydiff.replay.store.model_calls import model_calls_of
    from replaydiff.replay.store.runs import EXPERIMENT, chosen_run, get_item
    from replaydiff.replay.store.trials import trials_of

    run = chosen_run(con, run_id)
    item = get_item(con, run.id, name)
    trials = tuple(
        trial_of_item
        for trial_of_item in trials_of(con, run.id, item.id)
        if lane in (None, trial_of_item.lane) and trial in (None, trial_of_item.index + 1)
    )
    grades = tuple(grade for grade in iter_grades(con, run.id) if grade.item_id == item.id)
    shown = {(trial_of_item.lane, trial_of_item.index) for trial_of_item in trials}
    calls = tuple(call for call in model_calls_of(con, run.id, item.id) if (call.lane, call.trial) in shown)
    return ReplayedItem(
        run=run.id,
        item=item,
        trials=trials,
        grades=grades,
        model_calls=calls,
        origin=_forked_from(con, run) if EXPERIMENT in run.settings else None,
    )


def _forked_from(con: DuckDBPyConnection, run: RunRecord) -> Trial | None:
    from replaydiff.replay.fork.forks import forked_from

    return forked_from(con, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What comparisons of some sizes are likely to answer, and what they cost."""

    run: str
    """The run whose noise and prices it uses."""
    noise: NoiseEstimate
    decides: bool
    """Whether the metric decides the answer of that run."""
    tolerance: float
    """The loss that SHIP leaves open."""
    effect: float
    """The loss that HOLD is promised for."""
    power: float
    lanes: int
    """Lanes that are replayed, the A/A lane aside."""
    table: tuple[PlannedSize, ...]
    needed: Mapping[str, tuple[PlannedSize | None, ...]]
    """What reaches `power` for `ship` and for `hold`, for each number of trials; None: more than a million
    items."""
    hold_loss: float | None
    """With a number of calls, the shared loss that is answered HOLD with `power`."""
    user_error: UserError | None = None
    """The error of the simulated user, where it was measured."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "run": self.run,
            "seen": asdict(self.noise),
            "decides": self.decides,
            "tolerance": self.tolerance,
            "effect": self.effect,
            "power": self.power,
            "lanes": self.lanes,
            "table": [asdict(size) for size in self.table],
            "needed": {
                answer: [None if size is None else asdict(size) for size in sizes]
                for answer, sizes in self.needed.items()
            },
            "held": self.hold_loss,
            "user_error": None if self.user_error is None else self.user_error.to_json(),
        }


def plan(
    store: Path,
    settings: Settings,
    run: str | None,
    *,
    metric: str | None,
    effect: float | None,
    power: float,
    trials: Sequence[int],
    calls: int | None,
    candidates: int,
    aa: bool | None,
    measure_user: bool,
) -> Plan:
    """Return what comparisons are likely to answer, from the noise of a run (None: the latest).

    With `measure_user` the model of `[user]` is asked for recorded turns, and its error kept with the run.

    Raises:
        InputError: the effect is not above 0, or no metric decides.
    """
    from replaydiff.diff.compute import compute
    from replaydiff.diff.plan import (
        design,
        design_of,
        detectable_loss,
        estimate_noise,
        planned_size,
        size_needed,
    )
    from replaydiff.diff.statistics.paired import simultaneous
    from replaydiff.replay.engine.user_error import USER_ERROR, UserError
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.runs import chosen_run

    tolerance = settings.gate.tolerance
    loss = 2 * tolerance if effect is None else effect
    if loss <= 0:
        raise InputError(f"--effect must be above 0, not {loss:g}")
    with open_store(store, read_only=True) as con:
        record = chosen_run(con, run, compared=True)
        run = record.id
        result = compute(con, run, settings, metrics=() if metric is None else (metric,))
    metric = _deciding_metric(result) if metric is None else metric
    noise = estimate_noise(result, metric)
    if measure_user:
        record = _with_user_error(store, settings, record)
    lanes, confidence = 1 + candidates, simultaneous(settings.gate.confidence, candidates)
    share = settings.run.aa_share if aa is None else float(aa)
    planned = partial(planned_size, noise, loss=loss, tolerance=tolerance, confidence=confidence)

    def needed(answer: str, times: int) -> PlannedSize | None:
        size = size_needed(
            noise,
            attrgetter(answer),
            times,
            lanes=lanes,
            share=share,
            loss=loss,
            power=power,
            tolerance=tolerance,
            confidence=confidence,
        )
        return None if size is None else _with_stopping(size, noise, loss, tolerance, confidence)

    tried = tuple(sorted(set(trials))) or (DEFAULT_TRIALS,)
    designs = [
        design_of(items, times, lanes=lanes, share=share) for times in tried for items in PLANNED_ITEMS
    ]
    if calls is not None:
        designs = [
            design(calls, _MOST_PLANNED, lanes=lanes, share=share, trials=times)
            for times in (tuple(sorted(set(trials))) or (None,))
        ]
        if not designs[0].items:
            raise InputError(f"--calls {calls} does not pay for one item; give more")
    return Plan(
        run=run,
        noise=noise,
        decides=result.metrics[metric].gated,
        tolerance=tolerance,
        effect=loss,
        power=power,
        lanes=lanes,
        table=tuple(map(planned, designs)),
        needed={answer: tuple(needed(answer, times) for times in tried) for answer in ("ship", "hold")},
        hold_loss=detectable_loss(noise, designs[0], power=power, tolerance=tolerance, confidence=confidence)
        if calls is not None
        else None,
        user_error=UserError.from_json(record.settings.get(USER_ERROR)),
    )


def _with_user_error(store: Path, settings: Settings, run: RunRecord) -> RunRecord:
    """Measure the simulated user of the settings on a run's conversations, and keep the error with the run.

    Raises:
        SettingsError: no model plays the user.
        InputError: no item is a conversation of several turns, or the model gave no message.
    """
    from replaydiff.replay.agents.simulate import AnswerFile, PaidModel, SimulatedUser
    from replaydiff.replay.engine.redaction import run_redactor
    from replaydiff.replay.engine.user_error import USER_ERROR, measure_user
    from replaydiff.replay.event_loop import run_sync
    from replaydiff.replay.llm import anthropic
    from replaydiff.replay.llm.base import ModelFailure
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.runs import iter_items, set_run_settings

    section = settings.user
    if not section.model:
        raise SettingsError("--measure-user needs a model that plays the user; name it as `model` in [user]")
    model = PaidModel(section, anthropic.USER, "[user] provider", settings.prices, settings.root)
    model.check()

    async def measured() -> UserError | None:
        try:
            return await measure_user(iter_items(con, run.id), SimulatedUser(model), section.model or "")
        finally:
            await model.close()

    with open_store(store) as con:
        redactor = run_redactor(settings, con)
        model.answers = AnswerFile(store, run.id, redact=None if redactor is None else redactor.answer)
        try:
            error = run_sync(measured())
        except ModelFailure as failure:
            raise InputError(f"the simulated user was not measured: {failure}", hint="try again") from None
        if error is None:
            raise InputError(
                f"no item of run {run.id} is a conversation of several turns, so there is nothing to compare "
                "a simulated user with"
            )
        run = replace(run, settings={**run.settings, USER_ERROR: error.to_json()})
        set_run_settings(con, run)
    return run


def _with_stopping(
    size: PlannedSize, noise: NoiseEstimate, loss: float, tolerance: float, confidence: float
) -> PlannedSize:
    """Return a size with what `--until-known` is expected to save."""
    from replaydiff.diff.plan import expected_share

    without_effect, with_effect = (
        expected_share(noise, size.items, size.trials, true, tolerance=tolerance, confidence=confidence)
        for true in (0.0, loss)
    )
    return replace(size, stopping=(without_effect, with_effect))


def _deciding_metric(result: DiffResult) -> str:
    """Return the metric that decides; of several the one with the most noise, which takes the most items."""
    deciding = {name: metric for name, metric in result.metrics.items() if metric.gated and metric.n}
    if not deciding:
        raise InputError(
            f"no metric decides in run {result.run.id}, so no answer can be planned; name one with --metric"
        )
    return max(deciding, key=lambda name: deciding[name].se or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A metric over runs."""

    metric: str
    lane: str
    series: str
    """What the runs have in common: their golden set, or that they are of monthly samples."""
    points: tuple[TrendPoint, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "metric": self.metric,
            "lane": self.lane,
            "of": self.series,
            "runs": [asdict(point) | {"beyond_trials": point.beyond_trials} for point in self.points],
        }


_LEARNT_RUNS = 24


def trend(store: Path, settings: Settings, kind: str | None, *, metric: str, lane: str, last: int) -> Trend:
    """Return a metric over the last runs of one golden set, or of monthly samples.

    Raises:
        InputError: no run has this metric.
        UnknownNameError: there is no such lane.
    """
    from replaydiff.diff.trend import series, series_kind
    from replaydiff.diff.trend import trend as follow
    from replaydiff.replay.model import Lane
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.runs import list_runs

    chosen = Lane.parse(lane)
    with open_store(store, read_only=True) as con:
        runs = series(list_runs(con), kind)
        if not runs:
            raise InputError("there is no finished run to follow; `replay check` or `replay run` makes one")
        # Runs before the shown ones show how much runs vary.
        points = follow(con, runs[-last - _LEARNT_RUNS :], metric, chosen, settings)[-last:]
    if not points:
        raise InputError(f"no run of {series_kind(runs[-1])} has a {metric} score in lane {lane}")
    return Trend(metric=metric, lane=lane, series=series_kind(runs[-1]), points=tuple(points))
