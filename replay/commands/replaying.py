"""What `run` and `compare` share: the options of a run, lanes and items, running, judging."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replaydiff.replay.commands.telling import Done, notes_on
from replaydiff.replay.errors import Interrupted, ReplayError, SettingsError
from replaydiff.replay.options import App, say
from replaydiff.replay.settings import Settings, override

if TYPE_CHECKING:
    from replaydiff.diff.judge.grading import GradingReport
    from replaydiff.diff.judge.judge import Judge
    from replaydiff.replay.engine.items import SampleSource, Source
    from replaydiff.replay.engine.report import RunReport
    from replaydiff.replay.engine.run import Hooks
    from replaydiff.replay.model import Lane, Mode, Version

GOLDEN = ""
"""`--cases` without a path: the golden set of the settings."""
RECORDED = "latest"
"""`--replay-model` without a run."""
_INT64 = 2**63

_OPTIONS = (
    click.option("--old", metavar="VERSION", help="The version in use: a name, git:REF, `.`, observed …"),
    click.option(
        "--new",
        metavar="VERSION",
        multiple=True,
        help="The version to compare with it; without it one lane runs. Repeatable: each is compared with "
        "--old, and they are ranked.",
    ),
    click.option("--trials", type=int, help="Trials an item and lane; default 1, or [run] trials."),
    click.option("--aa/--no-aa", default=None, help="Run the old version once more, to learn the noise."),
    click.option("--concurrency", type=int, metavar="N", help="Trials in flight at once; default 4."),
    click.option("--budget", type=float, metavar="USD", help="No new item starts once this is spent."),
    click.option("--max-tokens", type=int, metavar="N", help="No new item starts once so many are taken."),
    click.option(
        "--record",
        is_flag=True,
        default=None,
        help="Keep what the agents ask their models, in any language: see docs/gateway.md.",
    ),
    click.option(
        "--replay-model",
        is_flag=False,
        flag_value=RECORDED,
        metavar="[RUN]",
        help="Answer the agents' models from what this run recorded; bare: the latest such run.",
    ),
    click.option("--timeout", type=float, metavar="SECONDS", help="For one trial; default 120."),
    click.option(
        "--seed", type=click.IntRange(-_INT64, _INT64 - 1), help="Another seed, another order (and sample)."
    ),
    click.option("--retries", type=int, metavar="N", help="After infrastructure errors; default 3."),
    click.option(
        "--on-miss",
        type=click.Choice(["stop", "error", "simulate"]),
        help="A tool call never recorded: stop the trial (default), give the agent an error, or have the "
        "model of [simulate] answer.",
    ),
    click.option(
        "--no-network",
        is_flag=True,
        default=None,
        help="Refuse connections of a Python agent that lead elsewhere than to its model.",
    ),
    click.option("--pair-by", metavar="FIELD", help="Pair observed traces with items: metadata.task_id …"),
    click.option(
        "--mode",
        type=click.Choice(["rollout", "step"]),
        help="rollout (default): the whole agent; step: each recorded decision of the model, asked again.",
    ),
    click.option(
        "--judge/--no-judge", default=None, help="Grade with the judge; default where it has a model."
    ),
    click.option(
        "--pairwise/--no-pairwise",
        default=None,
        help="Have the judge compare old and new responses side by side, too; default [judge] pairwise.",
    ),
    click.option(
        "--batch/--no-batch",
        default=None,
        help="Ask the judge through Anthropic's Message Batches: half the price, minutes to hours; default "
        "[judge] batch.",
    ),
)


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a run; the command gets them as one `Asked`."""
    return some_run_options(*Asked.__dataclass_fields__)(command)


def some_run_options(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """These options of a run; the command gets them as an `Asked` in which nothing else was said."""

    def declare(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def gathered(app: App, /, **options: Any) -> Any:
            return command(app, Asked(**{name: options.pop(name) for name in names}), **options)

        declared: Callable[..., Any] = gathered
        for option in reversed(_OPTIONS):
            if _name_of(option) in names:
                declared = option(declared)
        return declared

    return declare


def _name_of(option: Callable[..., Any]) -> str:
    """The parameter that an option gives."""
    declared: Any = option(lambda: None)
    [parameter] = declared.__click_params__
    return str(parameter.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the flags of a run said; None where they said nothing."""

    old: str | None = None
    new: tuple[str, ...] = ()
    """Empty where none was named."""
    trials: int | None = None
    aa: bool | None = None
    concurrency: int | None = None
    budget: float | None = None
    timeout: float | None = None
    seed: int | None = None
    retries: int | None = None
    on_miss: str | None = None
    no_network: bool | None = None
    pair_by: str | None = None
    mode: str | None = None
    judge: bool | None = None
    batch: bool | None = None
    pairwise: bool | None = None
    max_tokens: int | None = None
    record: bool | None = None
    replay_model: str | None = None

    def settings(self, base: Settings) -> Settings:
        """The settings with these flags laid over `[run]`.

        Raises:
            SettingsError: a value that cannot be.
        """
        section = override(
            base.run,
            trials=self.trials,
            aa=self.aa,
            concurrency=self.concurrency,
            budget=self.budget,
            max_tokens=self.max_tokens,
            record=self.record,
            replay_model=self.replay_model,
            timeout=self.timeout,
            seed=self.seed,
            retries=self.retries,
            on_miss=self.on_miss,
            no_network=self.no_network,
        )
        return replace(
            base, run=section, judge=override(base.judge, batch=self.batch, pairwise=self.pairwise)
        )

    @property
    def replayed(self) -> Mode:
        """What is replayed of an item."""
        from replaydiff.replay.model import Mode

        return Mode.STEP if self.mode == "step" else Mode.ROLLOUT

    def refuse_beside_resume(self) -> None:
        """A run goes on as it began: only how fast and how far may be said anew.

        Raises:
            SettingsError: another flag was given.
        """
        free = ("concurrency", "budget", "max_tokens", "retries", "judge", "batch", "pairwise")
        for name in self.__dataclass_fields__:
            if name not in free and getattr(self, name) not in (None, ()):
                raise SettingsError(
                    f"--{name.replace('_', '-')} cannot be given with --resume: the run goes on as it began; "
                    "leave it out, or start a new run"
                )


def with_limits(settings: Settings, asked: Asked) -> Settings:
    """The settings with these limits in the place of theirs: those in replay.toml are for new runs."""
    return replace(settings, run=replace(settings.run, budget=asked.budget, max_tokens=asked.max_tokens))


def choose_lanes(asked: Asked, settings: Settings) -> dict[Lane, Version]:
    """The versions of the lanes, resolved.

    Raises:
        ReplayError: one cannot be, or none was named.
    """
    from replaydiff.replay.engine.versions import FORMS, resolve
    from replaydiff.replay.model import NEW_LANES, Lane, VersionKind

    if asked.old is None and not asked.new:
        named = f" ({', '.join(sorted(settings.versions))})" if settings.versions else ""
        raise SettingsError(
            f"name the versions to compare with --old and --new: a name of [versions]{named}, {FORMS}"
        )
    lanes = {}
    if asked.old is not None:
        lanes[Lane.OLD] = resolve(asked.old, settings, asked.replayed)
        if settings.run.aa and lanes[Lane.OLD].kind is not VersionKind.OBSERVED:
            lanes[Lane.OLD2] = lanes[Lane.OLD]
        elif asked.aa:
            raise SettingsError(
                f"--aa runs the old version once more, and {asked.old!r} is what was recorded: nothing can "
                "be run again; leave --aa out (several traces an item tell the noise too)"
            )
    elif asked.aa:
        raise SettingsError("--aa runs the old version once more; name it with --old")
    if len(asked.new) > 1:
        _check_several(asked)
    for lane, name in zip(NEW_LANES, asked.new, strict=False):
        lanes[lane] = resolve(name, settings, asked.replayed)
    return lanes


def _check_several(asked: Asked) -> None:
    from replaydiff.replay.model import NEW_LANES

    if asked.old is None:
        raise SettingsError("several --new are each compared with the version in use; name it with --old")
    if len(asked.new) > len(NEW_LANES):
        raise SettingsError(
            f"--new was given {len(asked.new)} times, and one run compares {len(NEW_LANES)} at most; "
            "make two runs of it"
        )
    if twice := next((name for name in asked.new if asked.new.count(name) > 1), None):
        raise SettingsError(
            f"--new {twice!r} was given twice; leave one out; --aa runs the old version twice"
        )


def choose_items(app: App, asked: Asked, settings: Settings, sample: str | None, cases: str | None) -> Source:
    """The items: a golden set, a sample by name, or the latest sample (says which).

    Raises:
        ReplayError: there is none, or both were named.
    """
    from replaydiff.replay.engine.items import from_golden, from_sample
    from replaydiff.replay.store.connection import open_store

    if sample is not None and cases is not None:
        raise SettingsError("--sample and --cases name two sets of items; give one of them")
    if cases is not None:
        if asked.mode == "step":
            raise SettingsError(
                "--mode step asks recorded decisions again, and a case has none; name a --sample instead"
            )
        return from_golden(settings.golden_path if cases == GOLDEN else Path(cases))
    with open_store(app.store_path, read_only=True) as con:
        source = from_sample(con, sample)
    if sample is None:
        say(f"replaying the latest sample, {source.sample}; name another with --sample or --cases")
    return as_asked(app, asked, source)


def as_asked(app: App, asked: Asked, source: SampleSource) -> Source:
    """The traces of a sample, or in step mode their decisions.

    Raises:
        InputError: there is none in them.
    """
    from replaydiff.replay.engine.steps import StepSource
    from replaydiff.replay.store.connection import open_store

    if asked.mode != "step":
        return source
    with open_store(app.store_path, read_only=True) as con:
        steps = StepSource(con, source)
    if steps.left_out:
        say(f"note: {steps.left_out} traces hold no decision of a model and are left out")
    return steps


def choose_judge(asked: Asked, settings: Settings) -> Judge | None:
    """The judge of the settings, unless it is off; checked before anything is spent.

    Raises:
        SettingsError: it was asked for and has no model.
        CredentialsError: it has no key.
    """
    if asked.judge is False:
        return None
    if settings.judge.model is None:
        if asked.judge:
            where = settings.file or "replay.toml (`replay init` writes one)"
            raise SettingsError(f"--judge needs a model; name one as `model` in [judge] of {where}")
        return None
    from replaydiff.diff.judge.judge import judge_from

    return judge_from(settings)


def starting(
    app: App, asked: Asked, settings: Settings, source: Source, lanes: dict[Lane, Version]
) -> Callable[[Hooks], RunReport]:
    """What begins a new run of these items in these lanes, for `replay_and_judge`."""
    from replaydiff.replay.engine.run import execute

    return lambda hooks: execute(
        app.store_path,
        source,
        lanes,
        settings,
        mode=asked.replayed,
        pair_by=asked.pair_by,
        hooks=hooks,
    )


def replay_and_judge(
    app: App,
    judge: Judge | None,
    start: Callable[[Hooks], RunReport],
) -> Done:
    """Begin or resume a run under a progress bar, then have the judge grade it.

    Raises:
        ReplayError: among others, a grader of the user's that cannot be loaded; nothing was run then.
    """
    from replaydiff.diff.graders.registry import require
    from replaydiff.replay.engine.run import Hooks
    from replaydiff.replay.terminal.progress import progress

    require(app.settings)
    with progress("replaying", "trials") as tell:
        report = start(Hooks(announce=say, progress=tell, judged=judge is not None))
    for note in notes_on(report):
        say(note)
    if judge is None:
        return Done(report=report, grading=None)
    return Done(report=report, grading=_grade(app, judge, report))


def _grade(app: App, judge: Judge, report: RunReport) -> GradingReport | None:
    from replaydiff.diff.judge.batch import fetch
    from replaydiff.diff.judge.grading import grade_run
    from replaydiff.diff.judge.questions import estimate, spent
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.terminal.progress import progress

    with open_store(app.store_path, read_only=True) as con:
        ahead, before = estimate(con, report.run.id, judge), spent(con, report.run.id)
    left = None
    if report.run.budget_usd is not None:
        left = report.run.budget_usd - (report.paid_usd or 0.0) - before
        if left <= 0:
            say("the budget is spent, so the judge was not asked")
            return None
    again = f"`replay run --resume {report.run.id}` goes on with the judge"
    try:
        if ahead.cost_usd:
            say(f"the judge: {ahead.votes:,} questions, about ${ahead.cost_usd:.2f}")
        fetched = fetch(app.store_path, report.run.id, judge, say=say, budget_usd=left)
        left = None if left is None else left - fetched.spent_usd
        with open_store(app.store_path) as con, progress("judging", "trials") as tell:
            grading = grade_run(con, report.run.id, judge, progress=tell, budget_usd=left, batch=fetched)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; all trials and the grades so far are kept: {again}") from None
    except ReplayError:
        say(f"the trials of run {report.run.id} are kept; {again}")
        raise
    for warning in grading.warnings:
        say(f"warning: {warning}")
    if grading.left:
        say(f"the budget is spent: {grading.left} trials were not judged; {again}, with a larger --budget")
    if grading.first_failure:
        say(f"the judge failed on some trials ({grading.first_failure}); {again}")
    return grading
