"""A bisection in one process: versions of commits, hunks and settings, replayed until the cause is certain.

What to try, and when to stop, is decided in `replay.bisect` on the counts of the trials so far. They are
counted anew before each decision, so a trial of an earlier process counts as one of this.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from replaydiff.diff.actions import fails_as
from replaydiff.diff.graders.registry import free_grades
from replaydiff.diff.result import GradedTrial
from replaydiff.replay.api.channel import Channel
from replaydiff.replay.bisect.history import Commit, History
from replaydiff.replay.bisect.hunks import compose, parse_hunks
from replaydiff.replay.bisect.inference import Floats, changed
from replaydiff.replay.bisect.minimise import Effect, minimise
from replaydiff.replay.bisect.result import BisectResult, TestedCommit, TestedHunk, TestedSetting
from replaydiff.replay.bisect.search import Search, SearchResult
from replaydiff.replay.engine import revisions
from replaydiff.replay.engine.checkout import patched_checkout
from replaydiff.replay.engine.experiment import AdaptiveRun
from replaydiff.replay.engine.versions import at_commit, in_folder
from replaydiff.replay.errors import InputError, VersionError
from replaydiff.replay.model import GradeState, Status, Trial, Version
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.runs import EXPERIMENT
from replaydiff.replay.terminal.text import single_line

ALL = "all"
"""The metric that a trial passes if it passes every metric that costs nothing."""
_CERTAIN = 0.98
"""Probability at which a part of the change is known to have its effect, or not to."""
_MOST = 40
"""Trials after which it is not known."""
_ERRORS = 3
"""Trials of a commit that all ended in an error, after which it is left out."""


def read_history(settings: Settings, good: str, bad: str) -> History:
    """Return the commits between two revisions.

    Raises:
        VersionError: there are none.
    """

    commits = [
        Commit(id=name, parents=parents, subject=single_line(subject, 200))
        for name, parents, subject in revisions.commits_between(settings.root, good, bad)
    ]
    return History(good=_commit(settings, good), commits=tuple(commits))


def _commit(settings: Settings, name: str) -> Commit:
    return Commit(id=name, subject=single_line(revisions.subject_of(settings.root, name), 200))


class Bisection:
    """A bisection in this process."""

    def __init__(self, experiment: AdaptiveRun, settings: Settings, channel: Channel) -> None:
        self._experiment, self._settings, self._channel = experiment, settings, channel
        facts: Any = experiment.run.settings[EXPERIMENT]
        self._facts: Mapping[str, Any] = facts
        self._ids = list(experiment.items)
        self._stopped = False
        """The budget was spent."""

    async def run(self) -> BisectResult:
        """Search the commits, then the requested hunks and settings."""
        facts, settings = self._facts, self._settings
        tested_settings: tuple[TestedSetting, ...] | None = None
        reason = ""
        if facts["settings"]:
            tested_settings, reason = await self._cross_settings()
        search, finding = None, None
        if facts["good"] != facts["bad"]:
            history = read_history(settings, facts["good"], facts["bad"])
            points = history.points
            search = await self._search(
                history, lambda point: at_commit(facts["bad_spec"], points[point].id, settings)
            )
            finding = search.finding()
            reason = f"{reason}; {finding.reason}" if reason else finding.reason
        else:
            history = History(good=_commit(settings, facts["good"]), commits=())
        commit = None if finding is None or finding.commit is None else history.commits[finding.commit]
        hunks: tuple[TestedHunk, ...] | None = None
        if facts["hunks"] and search is not None and finding is not None and commit is not None:
            hunks = await self._reduce_hunks(search, finding, commit)
        if self._stopped:
            reason = f"{self._spent()}; {reason}"
        if not self._stopped and not (search is not None and search.trial_count >= search.max_trials):
            self._experiment.finish()
        return BisectResult(
            run=self._experiment.run.id,
            commit=None if commit is None else commit.id,
            confidence=0.0 if finding is None else finding.confidence,
            reason=reason,
            trials=len(self._experiment.trials),
            cost_usd=self._experiment.cost_usd,
            metric=str(facts["metric"]),
            history=tuple(_tested(history, search, position) for position in range(len(history.points))),
            hunks=hunks,
            settings=tested_settings,
            finished=not self._stopped,
        )

    async def _search(self, history: History, version: Callable[[int], Version]) -> Search:
        """Search a history; `version` returns the version of one of its points."""
        versions: dict[int, Version] = {}
        skipped: dict[int, str] = {}
        ends = (0, len(history.points) - 1)
        left = len(history.commits) + 1
        for end in ends:
            versions[end] = version(end)
            # An end that does not start is found out before any trial.
            await self._experiment.start(versions[end])
        while True:
            search = self._counted(history, versions, skipped)
            if 1 - search.belief.unchanged > _CERTAIN and (now := _credible(search)) <= left // 2:
                left = now
                self._channel.message(f"{search.trial_count} trials: {_remaining(history, search, now)}")
            batch = search.next()
            if batch is None or self._is_spent():
                return search
            try:
                if batch.point not in versions:
                    versions[batch.point] = version(batch.point)
                await self._experiment.replay(
                    versions[batch.point], [self._ids[item] for item in batch.items]
                )
            except VersionError as error:
                if batch.point in ends:
                    raise
                skipped[batch.point] = str(error)
                self._channel.message(f"skipped {history.points[batch.point].id[:12]}: {error}")

    def _counted(self, history: History, versions: dict[int, Version], skipped: Mapping[int, str]) -> Search:
        """Return the search with every trial so far, those of an earlier process included."""
        facts = self._facts
        search = Search(
            history,
            len(self._ids),
            confidence=float(facts["confidence"]),
            max_trials=int(facts["max_trials"]),
            batch=max(self._settings.run.concurrency, 1),
        )
        trials = [self._trials(f"git:{point.id[:12]}", versions.get(number)) for number, point in enumerate(
            history.points)]  # fmt: skip
        errors_fail = _errors_fail(trials[0], trials[-1])
        for point, reason in skipped.items():
            search.skip(point, reason)
        for point, version_trials in enumerate(trials):
            errors = [trial for trial in version_trials if trial.status.is_error]
            inside = 0 < point < len(trials) - 1
            if inside and not errors_fail and len(errors) >= _ERRORS and len(errors) == len(version_trials):
                search.skip(point, f"its trials end in {errors[0].status.value}: {errors[0].reason}")
            for trial in version_trials:
                search.add(point, self._item_index(trial), self._failed(trial, errors_fail=errors_fail))
        return search

    def _trials(self, name: str, version: Version | None) -> list[Trial]:
        """Return the trials of a version."""
        name = name if version is None else version.name
        lanes = {
            lane for lane, lane_version in self._experiment.run.lanes.items() if lane_version.name == name
        }
        return [trial for trial in self._experiment.trials if trial.lane in lanes]

    def _item_index(self, trial: Trial) -> int:
        return self._ids.index(trial.item_id)

    def _failed(self, trial: Trial, *, errors_fail: bool) -> bool | None:
        """Return whether a trial failed its item by the metric; None where that is not known."""
        if cause := self._facts.get("cause"):
            return self._shows(trial, str(cause["id"]), more=bool(cause["more"]))
        if trial.status.is_error:
            return True if errors_fail and trial.status is not Status.INFRA_ERROR else None
        grades = free_grades(self._experiment.items[trial.item_id], trial, self._settings)
        metric = self._facts["metric"]
        metric_grades = [
            grade
            for name, grade in grades.items()
            if metric in (ALL, name) and grade.state is GradeState.SCORED
        ]
        if any(
            grade.passed is False or (grade.passed is None and (grade.score or 0) < 1)
            for grade in metric_grades
        ):
            return True
        if metric == ALL and trial.status is Status.DIVERGED:
            return True
        return False if metric_grades else None

    def _shows(self, trial: Trial, cause: str, *, more: bool) -> bool | None:
        """Return whether a trial shows the cause that is searched for; None where that is not known."""
        item = self._experiment.items[trial.item_id]
        graded = GradedTrial(trial=trial, grades=free_grades(item, trial, self._settings))
        return fails_as(cause, item, graded, self._settings, more=more)

    def _is_spent(self) -> bool:
        self._stopped = self._experiment.is_spent
        return self._stopped

    def _spent(self) -> str:
        cost, run = self._experiment.cost_usd or 0.0, self._experiment.run
        if run.budget_usd is not None and cost >= run.budget_usd:
            return f"the budget of ${run.budget_usd:.2f} is spent (${cost:.2f})"
        return f"{run.max_tokens:,} tokens are spent"

    # --- parts of a change ---

    async def _reduce_hunks(
        self, search: Search, finding: SearchResult, commit: Commit
    ) -> tuple[TestedHunk, ...]:
        """Find the smallest set of the commit's hunks that has its effect."""
        settings, number = self._settings, finding.commit or 0
        parent = commit.parents[0]
        hunks = parse_hunks(revisions.changes_of(settings.root, parent, commit.id))
        rates = _rates(search, number)
        self._channel.message(f"commit {commit.id[:12]} has {len(hunks)} hunks; trying them apart")

        async def has_effect(chosen: frozenset[int]) -> bool | None:
            named = _numbers(chosen)
            try:
                version = self._patched(parent, compose(hunks, chosen), named)
                return await self._shows_change(version, rates)
            except VersionError as error:
                self._channel.message(f"hunks {named} cannot be tried alone: {error}")
                return None

        reproducing = await self._minimal(len(hunks), has_effect)
        return tuple(
            TestedHunk(file=hunk.file, lines=hunk.lines, reproduces=position in reproducing)
            for position, hunk in enumerate(hunks)
        )

    async def _minimal(self, parts: int, has_effect: Effect) -> tuple[int, ...]:
        """Return the smallest parts with the effect; none where the budget ended the search for them."""
        reproducing = await minimise(parts, has_effect)
        return () if self._stopped else reproducing

    def _patched(self, parent: str, patch: bytes, named: str) -> Version:
        settings = self._settings
        folder = patched_checkout(settings.root, parent, patch, settings.data_folder)
        name = f"git:{parent[:12]} with hunks {named}"
        return in_folder(self._facts["bad_spec"], name, folder / revisions.prefix_of(settings.root), settings)

    async def _shows_change(self, version: Version, rates: tuple[Floats, Floats]) -> bool | None:
        """Replay until it is known whether a version fails as after the change; None where it is not."""
        before, after = rates
        spread, batch = after - before, max(self._settings.run.concurrency, 1)
        while True:
            failures, trials = np.zeros(len(self._ids)), np.zeros(len(self._ids))
            version_trials = self._trials(version.name, version)
            for trial in version_trials:
                if (failed := self._failed(trial, errors_fail=False)) is not None:
                    failures[self._item_index(trial)] += failed
                    trials[self._item_index(trial)] += 1
            share = changed(failures, trials, before, after)
            if share >= _CERTAIN or share <= 1 - _CERTAIN:
                return share >= _CERTAIN
            if (
                len(version_trials) >= _MOST
                or (len(version_trials) >= _ERRORS and not trials.any())
                or self._is_spent()
            ):
                return None
            order = np.argsort(-spread / (1 + trials), kind="stable")[: min(batch, 2)]
            await self._experiment.replay(version, [self._ids[int(position)] for position in order])

    async def _cross_settings(self) -> tuple[tuple[TestedSetting, ...], str]:
        """Find the settings of the bad version that have the effect on the good version's code."""
        facts = self._facts
        good, bad, differing = differing_settings(
            facts["good_spec"], facts["bad_spec"], facts["good"], self._settings
        )

        def crossed(chosen: Collection[int]) -> Version:
            names = [differing[position] for position in sorted(chosen)]
            return _with_settings(good, bad, names)

        history = History(good=Commit(id="good", subject=""), commits=(Commit(id="bad", subject=""),))
        ends = [crossed(()), crossed(range(len(differing)))]
        search = await self._search(history, lambda point: ends[point])
        reproducing: tuple[int, ...] = ()
        if search.finding().commit is not None:
            rates = _rates(search, 0)
            reproducing = await self._minimal(
                len(differing), lambda chosen: self._shows_change(crossed(chosen), rates)
            )
            reason = "with the code of the good version"
        else:
            reason = f"settings alone do not make the change: {search.finding().reason}"
        return tuple(
            TestedSetting(
                name=name, good=_shown(good, name), bad=_shown(bad, name), reproduces=position in reproducing
            )
            for position, name in enumerate(differing)
        ), reason


def _errors_fail(good: Sequence[Trial], bad: Sequence[Trial]) -> bool:
    """Return whether errors are what changed.

    Most trials of the bad end ended in one, and few of the good end.
    """

    def share(trials: Sequence[Trial]) -> float:
        return sum(trial.status.is_error for trial in trials) / len(trials) if trials else 0.0

    return share(bad) >= 0.5 > share(good) and bool(good)


def _tested(history: History, search: Search | None, position: int) -> TestedCommit:
    commit = history.points[position]
    if search is None:
        return TestedCommit(commit=commit.id, subject=commit.subject, trials=0, failures=0, probability=0.0)
    skipped = search.skipped.get(position)
    return TestedCommit(
        commit=commit.id,
        subject=commit.subject,
        trials=int(search.trials[position].sum()),
        failures=int(search.failures[position].sum()),
        probability=float(search.belief.probability[position - 1]) if position else 0.0,
        skipped=None if skipped is None else single_line(skipped, 300),
    )


def _credible(search: Search) -> int:
    """Return how many of the likeliest commits together have the wanted probability."""
    ordered = np.sort(search.belief.probability[:-1])[::-1]
    return int(np.searchsorted(np.cumsum(ordered), search.confidence) + 1)


def _remaining(history: History, search: Search, number: int) -> str:
    best = history.commits[int(np.argmax(search.belief.probability[:-1]))]
    return f"{number} of {len(history.commits)} commits remain; most likely {best.id[:12]} ({best.subject})"


def _rates(search: Search, commit: int) -> tuple[Floats, Floats]:
    """Return the items' failure rates before and after a commit."""
    return search.belief.before[commit], search.belief.after[commit]


def _numbers(chosen: Collection[int]) -> str:
    return ", ".join(str(position + 1) for position in sorted(chosen))


def differing_settings(
    good: str, bad: str, commit: str, settings: Settings
) -> tuple[Version, Version, list[str]]:
    """Return two versions on the same code, and the names of the settings in which they differ.

    Args:
        good: the version in which items pass.
        bad: the one in which they fail.
        commit: whose code both get.
        settings: with [versions].

    Raises:
        InputError: they differ in none.
    """
    good_version, bad_version = at_commit(good, commit, settings), at_commit(bad, commit, settings)
    differing = _differing(good_version, bad_version)
    if not differing:
        raise InputError(
            f"no setting differs between {good} and {bad}",
            hint="name two versions of [versions] whose args, model or env differ",
        )
    return good_version, bad_version, differing


def _differing(good: Version, bad: Version) -> list[str]:
    """Return the settings in which two versions differ: `args.NAME`, `env.NAME`."""
    absent = object()
    return [
        f"{kind}.{name}"
        for kind in ("args", "env")
        for name in sorted({*getattr(good, kind), *getattr(bad, kind)})
        if getattr(good, kind).get(name, absent) != getattr(bad, kind).get(name, absent)
    ]


def _with_settings(good: Version, bad: Version, names: Sequence[str]) -> Version:
    """Return the good version with these settings of the bad one."""
    values: dict[str, dict[str, Any]] = {"args": dict(good.args), "env": dict(good.env)}
    others: dict[str, Mapping[str, Any]] = {"args": bad.args, "env": bad.env}
    for name in names:
        kind, _, key = name.partition(".")
        if key in others[kind]:
            values[kind][key] = others[kind][key]
        else:
            values[kind].pop(key, None)
    named = f"{good.name} with {', '.join(names)}" if names else f"{good.name} as it was"
    return replace(
        good, name=named, args=values["args"], env=values["env"], env_names=tuple(sorted(values["env"]))
    )


def _shown(version: Version, name: str) -> str | None:
    """Return a setting's value as JSON; of an environment variable only whether it is set."""
    kind, _, key = name.partition(".")
    if kind == "env":
        return "set" if key in version.env else None
    return json.dumps(version.args[key], ensure_ascii=False) if key in version.args else None
