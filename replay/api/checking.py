"""Check a version against the golden set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from replaydiff.replay.api import running
from replaydiff.replay.api.channel import Channel
from replaydiff.replay.api.options import RunOptions, new_versions, resumed_settings, settings_with
from replaydiff.replay.errors import InputError
from replaydiff.replay.settings import Settings, override

if TYPE_CHECKING:
    from replaydiff.cases.check.outcome import CheckResult

WORKING_TREE = "."


def check(
    store: Path,
    base: Settings,
    options: RunOptions,
    channel: Channel,
    *,
    golden: Path,
    tags: Sequence[str],
    changed: str | None,
    threshold: float | None,
) -> tuple[CheckResult, running.Ended] | None:
    """Replay the cases of a golden set against one version; None where no case was selected.

    Args:
        store: path of the store.
        base: the settings.
        options: `new` is the version, by default the working tree; `old` is checked beside it.
        channel: where messages and progress go.
        golden: the golden set.
        tags: only cases with one of these tags; empty: all.
        changed: only cases that a change since this revision affects; empty text: since the default
            branch; None: all.
        threshold: the share of cases that must pass; None: that of the settings.
    """
    from replaydiff.cases.check.select import select_cases
    from replaydiff.replay.model import Lane

    options = {**options, "new": new_versions(options) or (WORKING_TREE,)}
    settings = _settings(settings_with(base, options), threshold)
    judge = running.judge_of(options, settings)
    lanes = running.lanes_of(options, settings)
    choice = select_cases(golden, tags, changed, lanes[Lane.NEW], settings)
    if choice.note:
        channel.message(choice.note)
    if choice.source is None:
        return None
    start = running.start(store, settings, options, choice.source, lanes)
    return _checked(store, settings, running.replay_and_judge(store, settings, judge, start, channel))


def resume_check(
    store: Path, base: Settings, options: RunOptions, channel: Channel, run_id: str | None
) -> tuple[CheckResult, running.Ended]:
    """Resume a check (None: the latest unfinished run).

    Raises:
        InputError: there is none, or the run is not a check.
    """
    from replaydiff.replay.model import Lane
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.runs import get_run, latest_run

    settings = _settings(resumed_settings(base, options), None)
    with open_store(store, read_only=True) as con:
        run = get_run(con, run_id) if run_id else latest_run(con, unfinished=True)
    if run is None:
        raise InputError("there is no unfinished check to resume; `replay check` starts one")
    if run.golden_path is None or Lane.NEW not in run.lanes:
        raise InputError(
            f"run {run.id} is not a check: it replays "
            f"{'a sample' if run.sample else 'the old version alone'}; "
            f"go on with `replay run --resume {run.id}`"
        )
    judge = running.judge_of(options, settings)
    resume = running.resume(store, settings, run.id)
    return _checked(store, settings, running.replay_and_judge(store, settings, judge, resume, channel))


def _settings(settings: Settings, threshold: float | None) -> Settings:
    settings = replace(settings, cases=override(settings.cases, threshold=threshold))
    # [run] aa is for comparing two versions; a check compares each version with the cases alone, and runs on
    # every change.
    return replace(settings, run=replace(settings.run, aa=False, trials=settings.run.trials or 1))


def _checked(store: Path, settings: Settings, ended: running.Ended) -> tuple[CheckResult, running.Ended]:
    from replaydiff.cases.check.outcome import read_check

    return read_check(store, ended.report.run.id, settings), ended
