"""When a run may stop early (`--until-known`): its plan, the levels of each look, and whether to stop.

A look computes the answer over the first n items of the run's order, whole blocks. Looking often would find
something by chance, so every look has levels of its own: the interval's lower end, which decides SHIP, has an
O'Brien-Fleming-type boundary, its upper end, which decides HOLD, a Pocock-type one
(`statistics.sequential`). Over all looks each end errs in at most (1 − `confidence`)/2 of runs, whenever the
run stops: for an answer, for futility, or because the budget is spent. So both ends together are a repeated
confidence interval (Jennison & Turnbull, *Group Sequential Methods*, 2000, ch. 9).

Items that regressed beyond the noise are found at a level that grows with the share of the items that were
seen, so that no early look finds an item that the last one would not.

The plan is stored with the run, in `settings["until_known"]`. A run spends at most nine tenths of the error;
one that continues it after CAN'T TELL nine tenths of the rest, and so on. Their shares add up to less than
one, so all of them together err no more often than one comparison may, however their items overlap
(Bonferroni).

A single lane (`replay check`) needs no levels: it stops as soon as the cases that are left cannot change the
answer any more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from replaydiff.diff.result import Answer, DiffResult, Kind, MetricDelta
from replaydiff.diff.statistics.distributions import normal_cdf, normal_quantile
from replaydiff.diff.statistics.sequential import Spending, boundary_levels, obrien_fleming, pocock
from replaydiff.replay.model import JsonObject, RunRecord
from replaydiff.replay.settings import GateSection

SETTING = "until_known"
"""Key of the plan in `RunRecord.settings`."""
FIRST_LOOK = 20
"""Items before the first look: an interval over fewer is too wide to end anything."""
MOST_LOOKS = 10
RUN_SHARE = 0.9
"""Of the error that is left, what a run may spend; the rest is for a run that continues it."""
LEAST_LEVEL = 0.001
"""A look whose level for SHIP is below it does not test: the interval's resamples do not resolve it."""
ANSWER, FUTILITY = "answer", "futility"
"""Why a run stops at a look."""
EARLIEST_FUTILITY = 0.5
"""The share of the items before which no run stops for futility: its estimates are too rough."""
FUTILE = 0.05
"""A run stops where an answer by the last look is less likely than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingPlan:
    """When a run looks at its results, and how much of the error it spends by then."""

    items: int
    looks: tuple[int, ...]
    """Items at each planned look; the last are all."""
    share: float
    """The share of the error that this run may spend."""
    before: float = 0.0
    """What the runs that it continues may have spent."""

    def spent(self, items: int, alpha: float, spending: Spending) -> float:
        """Return how much of α may be spent after so many items."""
        return spending(items / self.items, alpha * self.share)

    def to_json(self) -> JsonObject:
        """Return the plan as it is stored with a run."""
        return {
            "items": self.items,
            "looks": list(self.looks),
            "share": self.share,
            "before": self.before,
            "ship": "obrien-fleming",
            "hold": "pocock",
            "futility": FUTILE,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LookLevels:
    """One look at a run, and how sure each answer must be."""

    number: int
    of: int
    items: int
    planned: int
    ship: float
    """One-sided level of the interval's lower end; 0 where this look cannot end with SHIP."""
    hold: float
    """One-sided level of its upper end."""
    last_ship: float
    """The same at the last look, if all that are planned are taken."""
    last_hold: float
    items_share: float
    """The share of the error for verdicts on items."""

    @property
    def part(self) -> float:
        """The part of the planned items that was seen."""
        return self.items / self.planned


def new_plan(items: int, earlier: RunRecord | None = None) -> StoppingPlan:
    """Return the plan of a run of so many items.

    Args:
        items: of the run.
        earlier: the run that this one continues; None for none.
    """
    known = None if earlier is None else plan_of(earlier)
    before = 0.0 if known is None else known.before + known.share
    step = max(math.ceil(items / MOST_LOOKS), FIRST_LOOK // 2)
    early = (look for look in range(step, items - step // 2, step) if look >= FIRST_LOOK)
    return StoppingPlan(items=items, looks=(*early, items), share=RUN_SHARE * (1 - before), before=before)


def plan_of(run: RunRecord) -> StoppingPlan | None:
    """Return the plan that a run was begun with; None where it replays all its items."""
    kept: Any = run.settings.get(SETTING)
    if not isinstance(kept, dict):
        return None
    return StoppingPlan(
        items=int(kept["items"]),
        looks=tuple(int(look) for look in kept["looks"]),
        share=float(kept["share"]),
        before=float(kept["before"]),
    )


def look_levels(plan: StoppingPlan, taken: Iterable[int], now: int, confidence: float) -> LookLevels:
    """Return the levels of a look.

    Args:
        plan: of the run.
        taken: items at each look so far.
        now: items at this look.
        confidence: two-sided, of the interval over all looks.
    """
    before = sorted({look for look in taken if look < now})
    ahead = [look for look in plan.looks if look > now]
    alpha = (1 - confidence) / 2

    def levels(spending: Spending, least: float) -> tuple[float, float]:
        looks = [*before, now, *ahead]
        found = boundary_levels(
            [look / looks[-1] for look in looks],
            [plan.spent(look, alpha, spending) for look in looks],
            least=least,
        )
        return found[len(before)], found[-1]

    ship, last_ship = levels(obrien_fleming, LEAST_LEVEL)
    hold, last_hold = levels(pocock, 0.0)
    return LookLevels(
        number=len(before) + 1,
        of=len(before) + 1 + len(ahead),
        items=now,
        planned=plan.items,
        ship=ship,
        hold=hold,
        last_ship=last_ship,
        last_hold=last_hold,
        items_share=plan.share * min(1.0, now / plan.items),
    )


def chance_of_answer(metrics: Mapping[str, MetricDelta], look: LookLevels, gate: GateSection) -> float | None:
    """Return how likely SHIP or HOLD is at the last look, given what was seen; None where nothing tells.

    The predictive probability of a flat prior (Spiegelhalter, Freedman & Blackburn 1986): the final estimate
    is normal around the present one with the variance se² − se_N², se_N being the error that all items will
    leave. SHIP takes every metric, HOLD any. Stopping for futility cannot raise the error of either answer,
    since no boundary counts on it.

    Args:
        metrics: those that decide.
        look: the present look.
        gate: the limits.
    """
    ship, hold = 1.0, 0.0
    for metric in metrics.values():
        found = _chances(metric, look, gate)
        if found is None:
            return None
        ship, hold = min(ship, found[0]), max(hold, found[1])
    return min(1.0, ship + hold)


def _chances(metric: MetricDelta, look: LookLevels, gate: GateSection) -> tuple[float, float] | None:
    """Of one metric, the chances that it allows SHIP and that it makes HOLD."""
    if metric.kind is Kind.AGREEMENT:
        if metric.changed_share is None or metric.changed_ci is None or not 0 < look.ship < 0.5:
            return None
        se = (metric.changed_ci[1] - metric.changed_share) / -normal_quantile(look.ship)
        last = se * math.sqrt(look.part)
        limit = gate.max_changed + normal_quantile(look.last_ship) * last
        return _below(limit - metric.changed_share, se, last), 0.0
    if metric.se is None or metric.se_planned is None or metric.delta is None:
        return None
    low, high = metric.bounds or (metric.delta, metric.delta)
    se, last = metric.se, metric.se_planned
    ship = _below(low + gate.tolerance + normal_quantile(look.last_ship) * last, se, last)
    worst = max(-normal_quantile(look.last_hold) * last, gate.tolerance)
    return ship, _below(-worst - high, se, last)


def _below(distance: float, se: float, last: float) -> float:
    """The chance that what is still to come moves the estimate by less than this distance."""
    spread = math.sqrt(max(0.0, se**2 - last**2))
    return normal_cdf(distance / spread) if spread > 0 else float(distance >= 0)


def why_to_stop(result: DiffResult, items: int, planned: int) -> str | None:
    """Return why a run ends at this look; None if it continues or has no items left."""
    if items >= planned:
        return None
    answers = [candidate.answer for candidate in result.ranking] or [result.answer]
    if Answer.CANNOT_TELL not in answers:
        return ANSWER
    futile = result.chance is not None and result.chance < FUTILE and len(answers) == 1
    return FUTILITY if futile and items >= planned * EARLIEST_FUTILITY else None
