"""How `run` and `compare` tell of a run that has ended: to people and as `--json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replaydiff.replay.errors import ExitCode
from replaydiff.replay.options import App

if TYPE_CHECKING:
    from replaydiff.diff.judge.grading import GradingReport
    from replaydiff.replay.engine.report import RunReport
    from replaydiff.replay.engine.steps import Parting
    from replaydiff.replay.model import Version

_SHOWN_PARTINGS = 10
"""Traces whose lanes part that are listed for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A run and what its judge said of it."""

    report: RunReport
    grading: GradingReport | None

    @property
    def code(self) -> ExitCode:
        """3 where a trial ended in an error or the judge failed, else 0."""
        from replaydiff.diff.judge.grading import FAILED

        failed = self.grading is not None and any(self.grading.states[state] for state in FAILED)
        return ExitCode.PARTIAL if self.report.errors or failed else ExitCode.OK


def notes_on(report: RunReport) -> list[str]:
    """What a person should know about a run that has ended, in sentences."""
    run, notes = report.run, []
    observed: Any = run.settings.get("observed") or {}
    for lane, counted in observed.items():
        if counted["items_without_trace"]:
            notes.append(
                f"note: {counted['items_without_trace']} items have no trace in lane {lane} "
                f"({run.lanes[lane].name}) and are left out of every figure"
            )
    if report.missing:
        if run.max_tokens is not None and report.tokens >= run.max_tokens:
            spent, more = f"{run.max_tokens:,} tokens are taken ({report.tokens:,})", "--max-tokens N"
        else:
            spent = f"the budget of ${run.budget_usd or 0:.2f} is spent (${report.cost_usd or 0:.2f})"
            more = "--budget USD"
        notes.append(
            f"{spent}: {report.missing} trials were not begun; go on with "
            f"`replay run --resume {run.id} {more}`"
        )
    if run.max_tokens is not None and report.uncounted:
        notes.append(
            f"note: of {report.uncounted} trials no tokens are known, and they did not count against "
            "--max-tokens"
        )
    for lane, version in run.lanes.items() if report.recorded is not None else ():
        if lane not in (report.recorded or {}) and lane in report.statuses and _is_run(version):
            notes.append(
                f"note: lane {lane.value} ({version.name}) asked no model through the gateway: it asks none, "
                "or its code names a base URL of its own; see docs/gateway.md"
            )
    if run.budget_usd is not None and report.unpriced:
        notes.append(
            f"note: {report.unpriced} trials have no known cost and did not count against the budget: they "
            "ended before the agent reported its usage, or it reports none, or no model is named in `args`"
        )
    return notes


def partings_of(app: App, report: RunReport) -> list[Parting]:
    """In step mode, where the lanes part for the first time, trace by trace; else nothing."""
    from replaydiff.replay.engine.steps import partings
    from replaydiff.replay.model import Mode
    from replaydiff.replay.store.connection import open_store

    if report.run.mode is not Mode.STEP:
        return []
    with open_store(app.store_path, read_only=True) as con:
        return list(partings(con, report.run))


def document(done: Done, parted: Sequence[Parting] = ()) -> dict[str, Any]:
    """A run that has ended, for `--json`."""
    report, grading = done.report, done.grading
    run = report.run
    return {
        "run": run.id,
        "sample": run.sample,
        "cases": run.golden_path,
        "mode": run.mode.value,
        "partings": [
            {
                "trace_id": parting.trace_id,
                "decision": parting.decision,
                "actions": {lane.value: action for lane, action in parting.actions.items()},
            }
            for parting in parted
        ],
        "created_at": run.created_at.isoformat(),
        "finished": run.finished_at is not None,
        "trials": run.trials,
        "lanes": {
            lane.value: {
                "version": version.name,
                "commit": version.commit,
                "statuses": {status.value: n for status, n in report.statuses.get(lane, {}).items()},
            }
            for lane, version in run.lanes.items()
        },
        "missing": report.missing,
        "forecast": None if report.forecast is None else report.forecast.document(),
        "cost_usd": report.cost_usd,
        "paid_usd": report.paid_usd,
        "tokens": report.tokens,
        "recorded": None
        if report.recorded is None
        else {lane.value: count for lane, count in report.recorded.items()},
        "judge": None
        if grading is None
        else {
            "graded": grading.graded,
            "kept": grading.kept,
            "pairs": grading.pairs,
            "left": grading.left,
            "states": {state.value: count for state, count in grading.states.items()},
            "cost_usd": grading.cost_usd,
        },
        "next": f"replay diff {run.id}",
    }


def _is_run(version: Version) -> bool:
    from replaydiff.replay.model import VersionKind

    return version.kind is not VersionKind.OBSERVED


def summary(done: Done, parted: Sequence[Parting] = ()) -> str:
    """A run that has ended, in a few lines."""
    from replaydiff.replay.terminal.plain import one_line

    report, grading = done.report, done.grading
    run = report.run
    of = f"sample {run.sample}" if run.sample else f"cases of {run.golden_path}"
    width = max(len(one_line(version.name, 40)) for version in run.lanes.values())
    lines = [
        f"run {run.id}: {one_line(of, 60)}, {run.trials} trial{'s' * (run.trials != 1)} an item and lane"
    ]
    for lane, version in run.lanes.items():
        counts = [f"{count} {status.value}" for status, count in report.statuses.get(lane, {}).items()]
        lines.append(
            f"  {lane.value:<4}  {one_line(version.name, 40):<{width}}  {', '.join(counts) or 'no trial'}"
        )
    for parting in parted[:_SHOWN_PARTINGS]:
        actions = "; ".join(
            f"{lane.value} {one_line(action, 60)}" for lane, action in sorted(parting.actions.items())
        )
        lines.append(f"  parts at decision {parting.decision} of {one_line(parting.trace_id, 40)}: {actions}")
    if len(parted) > _SHOWN_PARTINGS:
        lines.append(f"  and in {len(parted) - _SHOWN_PARTINGS} more traces: --json lists them")
    if grading is not None:
        counts = [f"{count} {state.value}" for state, count in grading.states.items()]
        kept = f", {grading.kept} were there" if grading.kept else ""
        pairs = f", {grading.pairs} pairs compared" if grading.pairs else ""
        lines.append(f"  judge: {', '.join(counts) or 'nothing to grade'}{kept}{pairs}")
    costs = [
        f"{what} {'of unknown cost' if cost is None else f'${cost:.4f}'}"
        for what, cost in (("agents", report.cost_usd), ("judge", grading.cost_usd if grading else None))
        if cost is not None or (what == "judge" and grading is not None and grading.calls)
    ]
    if costs:
        recorded = run.settings.get("replay_model")
        lines.append(
            f"  cost: {', '.join(costs)}"
            + (f" (as run {recorded} recorded it; its agents were not paid again)" if recorded else "")
        )
    if report.recorded is not None:
        lines.append(f"  recorded: {sum(report.recorded.values()):,} requests to models")
    return "\n".join(lines)
