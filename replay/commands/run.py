"""`replay run`, the options of a run that several commands take, and its summary."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from replaydiff.replay.api.options import RunOptions
from replaydiff.replay.commands.options import App, command, json_option, say
from replaydiff.replay.errors import ExitCode, SettingsError
from replaydiff.replay.terminal.text import show, single_line

if TYPE_CHECKING:
    from replaydiff.replay.api.results import Run
    from replaydiff.replay.model import Blocked, Lane

GOLDEN = ""
"""`--cases` without a path: the golden set of the settings."""
LATEST = ""
"""`--resume` without a run."""
cases_option = click.option(
    "--cases",
    is_flag=False,
    flag_value=GOLDEN,
    metavar="[PATH]",
    help="Take the cases of a golden set; without a value: cases/golden.jsonl, or [cases] path.",
)
resume_option = click.option(
    "--resume",
    is_flag=False,
    flag_value=LATEST,
    metavar="[RUN]",
    help="Continue what was interrupted or stopped by its budget; without a value: the latest such run.",
)

_OPTIONS = (
    click.option("--old", metavar="VERSION", help="The version in use: a name, git:REF, `.`, observed …"),
    click.option(
        "--new",
        metavar="VERSION",
        multiple=True,
        help="The version to compare with it; without it one lane runs. Repeatable: each is compared with "
        "--old, and they are ranked.",
    ),
    click.option("--trials", type=int, help="Trials for each item and lane; default 2, or 1 for `check`."),
    click.option(
        "--calls",
        type=click.IntRange(1),
        metavar="N",
        help="Spend so many replays of the agent, over all lanes, where they count most: items first.",
    ),
    click.option(
        "--aa/--no-aa",
        default=None,
        help="Run the old version a second time on all items, or on none; default on a fifth of them, to "
        "test whether it differs from itself.",
    ),
    click.option(
        "--until-known/--all-items",
        default=None,
        help="Compute the answer during the run, and stop once it is known; default --all-items.",
    ),
    click.option(
        "--continue",
        "continues",
        metavar="RUN",
        help="Go on from this run, which ended with CAN'T TELL: its trials are kept, one error is shared.",
    ),
    click.option("--concurrency", type=int, metavar="N", help="Trials in flight at once; default 4."),
    click.option("--budget", type=float, metavar="USD", help="No item starts whose trials this may not pay."),
    click.option(
        "--executor",
        metavar="NAME",
        help="Where trials run: local (default), this machine; ray, a Ray cluster (see docs/scale.md); or "
        "another distribution's executor.",
    ),
    click.option(
        "--no-boundary",
        is_flag=True,
        default=None,
        help="Run agents without a boundary of the operating system: what is not answered is real.",
    ),
    click.option("--pair-by", metavar="FIELD", help="Pair observed traces with items: metadata.task_id …"),
    click.option(
        "--mode",
        type=click.Choice(["rollout", "step"]),
        help="rollout (default): the whole agent; step: repeat each recorded decision of the model.",
    ),
    click.option("--judge/--no-judge", default=None, help="Grade with the judge; default if it has a model."),
)


def run_options(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add options of a run (without names: all of them); the command gets them as one `RunOptions`."""
    chosen = [option for option in _OPTIONS if not names or _name_of(option) in names]

    def declare(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def gather(app: App, /, **options: Any) -> Any:
            of_run = {name: options.pop(name) for name in map(_name_of, chosen)}
            return command(
                app, {name: value for name, value in of_run.items() if value is not None}, **options
            )

        declared: Callable[..., Any] = gather
        for option in reversed(chosen):
            declared = option(declared)
        return declared

    return declare


def _name_of(option: Callable[..., Any]) -> str:
    """Return the parameter that an option gives."""
    declared: Any = option(lambda: None)
    [parameter] = declared.__click_params__
    return str(parameter.name)


def golden_of(cases: str | None) -> str | bool | None:
    """Return what `--cases` names, for the API: True for the golden set of the settings."""
    return True if cases == GOLDEN else cases


_SHOWN_BLOCKED = 5
"""Blocked events of a lane that are named."""
_SHOWN_DIVERGENCES = 10
"""Traces whose lanes diverge that are listed."""


def summary(ended: Run) -> str:
    """Return how a run ended, in a few lines."""
    report, grading, diverged = ended.ended.report, ended.ended.grading, ended.divergences()
    run = report.run
    of = f"sample {run.sample}" if run.sample else f"cases of {run.golden_path}"
    width = max(len(single_line(version.name, 40)) for version in run.lanes.values())
    lines = [
        f"run {run.id}: {single_line(of, 60)}, {run.trials} trial{'s' * (run.trials != 1)} per item and lane"
    ]
    for lane, version in run.lanes.items():
        counts = [f"{count} {status.value}" for status, count in report.statuses.get(lane, {}).items()]
        lines.append(
            f"  {lane!s:<4}  {single_line(version.name, 40):<{width}}  {', '.join(counts) or 'no trial'}"
        )
    lines += [
        f"  {failure.lane!s:<4}  {failure.trials} {failure.status.value}: {single_line(failure.reason, 100)}"
        for failure in report.failures
    ]
    lines += _blocked_lines(report.blocked)
    for divergence in diverged[:_SHOWN_DIVERGENCES]:
        actions = "; ".join(
            f"{lane} {single_line(action, 60)}" for lane, action in sorted(divergence.actions.items())
        )
        trace = single_line(divergence.trace_id, 40)
        lines.append(f"  diverges at decision {divergence.decision} of {trace}: {actions}")
    if len(diverged) > _SHOWN_DIVERGENCES:
        lines.append(f"  and in {len(diverged) - _SHOWN_DIVERGENCES} more traces: --json lists them")
    if grading is not None:
        counts = [f"{count} {state.value}" for state, count in grading.states.items()]
        earlier = f", {grading.already_graded} were there before" if grading.already_graded else ""
        pairs = f", {grading.pairs} pairs compared" if grading.pairs else ""
        lines.append(f"  judge: {', '.join(counts) or 'nothing to grade'}{earlier}{pairs}")
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


def _blocked_lines(blocked: Mapping[Lane, Mapping[Blocked, int]]) -> Iterator[str]:
    """Yield a line for each thing that a boundary kept from happening, the most frequent first."""
    for lane, events in blocked.items():
        for event, count in [*events.items()][:_SHOWN_BLOCKED]:
            yield f"  {single_line(str(event), 120)} ({count} trial{'s' * (count != 1)} of {lane})"
        if len(events) > _SHOWN_BLOCKED:
            yield f"  blocked: {len(events) - _SHOWN_BLOCKED} more in lane {lane}; `replay show ID` lists all"


@command("run")
@click.option("--sample", metavar="NAME", help="The sample to replay; default the one drawn last.")
@cases_option
@resume_option
@click.option(
    "--retry",
    metavar="STATUS,…",
    help="With --resume: also repeat the trials that ended so, such as infra_error,crashed,timeout; without "
    "a run the latest, finished or not.",
)
@click.option(
    "--accept-changes",
    is_flag=True,
    help="With --resume: replay the rest even where a version has changed; every report says so.",
)
@run_options(
    "old", "new", "trials", "calls", "aa", "until_known", "concurrency", "budget", "executor",
    "no_boundary", "pair_by", "mode", "judge",
)  # fmt: skip
@json_option
def run(
    app: App,
    options: RunOptions,
    sample: str | None,
    cases: str | None,
    resume: str | None,
    retry: str | None,
    accept_changes: bool,
) -> ExitCode:
    """Replay a sample or golden set against two versions.

    Every item runs in both versions, in worker processes; tool calls are answered from the item's recording.
    A VERSION is a name of [versions] in replay.toml, git:REF, a folder such as `.`, model=NAME, observed
    (what production recorded) or observed:CONDITION; also http://…, cmd:PROGRAM and messages, for agents in
    other languages and for no agent at all. An interrupted run loses nothing: --resume continues it.

    --mode step repeats each recorded decision of the model with the same messages and compares the next
    action. It needs no agent code, and the run reports the decision at which two models differ.

    Every other setting of replay.toml can be set for one run: --set run.on_miss=simulate.

    \b
    Examples:
      replay run --sample october --old prod --new candidate
      replay run --sample october --old prod --new candidate --calls 450
      replay run --cases --old git:v1.4.0 --new .
      replay run --old prod --new candidate --new model=claude-sonnet-5-5
      replay run --mode step --old observed --new model=claude-sonnet-5-5
      replay run --resume
      replay run --resume --retry infra_error,crashed,timeout
    """
    if retry is not None and resume is None:
        raise SettingsError("--retry repeats trials of a run that exists; add --resume [RUN]")
    if accept_changes and resume is None:
        raise SettingsError("--accept-changes is for a run that exists; add --resume [RUN]")
    if resume is not None:
        if sample is not None or cases is not None:
            raise SettingsError("--resume continues its run's own items; leave --sample and --cases out")
        statuses = [name.strip() for name in (retry or "").split(",") if name.strip()]
        report = app.project.resume(resume or None, retry=statuses, accept_changes=accept_changes, **options)
    else:
        report = app.project.run(sample, cases=golden_of(cases), **options)
    if not app.printed_json(report.to_dict):
        show(summary(report))
        say(f"next: replay diff {report.id}")
    return report.exit_code
