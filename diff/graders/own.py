"""Graders of the user's own: functions of (item, trial), named in `[grading] graders`.

What a function may give for a trial that ended `ok` (others are never shown to it):

    None                       nothing to grade; an item without any grade is left out of the metric
    True, False                passed, or not
    a number from 0 to 1       the score; it passes at 1
    (either of them, "why")    with a reason
    {"score", "passed", "reason"}   the same by name: `passed` for a pass mark of one's own

Anything else, and an exception, is an error of the grader: the trial has no score, stays in the bounds, and
the report says why. The metric has the function's name, or that of its entry point in `replaydiff.graders`.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replaydiff.diff.graders.base import BUILTIN, Grader, failed, scored
from replaydiff.diff.stored import JUDGE, PAIRWISE
from replaydiff.replay.errors import SettingsError, UnknownNameError
from replaydiff.replay.functions import load_function
from replaydiff.replay.model import Grade, Item, Status, Trial
from replaydiff.replay.settings import Settings

GROUP = "replaydiff.graders"
"""Entry points of this group are graders of other packages, used where the settings name them."""
_SETTING = "[grading] graders"
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_KEYS = {"score", "passed", "reason"}

Function = Callable[[Item, Trial], Any]


@functools.cache
def own(targets: tuple[str, ...], root: Path) -> tuple[Grader, ...]:
    """The graders of these targets, in their order.

    Raises:
        SettingsError: one cannot be loaded, or its name is taken.
        UnknownNameError: there is no entry point of that name.
    """
    found: dict[str, Grader] = {}
    for target in targets:
        name, function = _find(target, root)
        if name in BUILTIN or name in found or name in (JUDGE, PAIRWISE) or not _NAME.fullmatch(name):
            why = "cannot name a metric" if not _NAME.fullmatch(name) else "is the name of another grader"
            raise SettingsError(f"{_SETTING} = {target!r}: {name!r} {why}; rename the function")
        if inspect.iscoroutinefunction(function):
            raise SettingsError(f"{_SETTING} = {target!r} is async; a grader is a plain function")
        found[name] = _grader(name, function)
    return tuple(found.values())


def _find(target: str, root: Path) -> tuple[str, Function]:
    if ":" in target:
        return target.rpartition(":")[2], load_function(target, root, _SETTING)
    from importlib.metadata import entry_points

    strangers = {entry.name: entry for entry in entry_points(group=GROUP)}
    if target not in strangers:
        raise UnknownNameError("grader", target, strangers, f"of {_SETTING}")
    return target, load_function(strangers[target].value, root, _SETTING)


def _grader(name: str, function: Function) -> Grader:
    version = _version(function)

    def grade(item: Item, trial: Trial, settings: Settings) -> Grade | None:  # noqa: ARG001
        if trial.status is not Status.OK:
            return None
        try:
            answer = function(item, trial)
        except Exception as error:  # noqa: BLE001 - whatever the user's code does, it grades nothing
            return failed(trial, name, version, f"the grader failed: {type(error).__name__}: {error}")
        return _read(answer, trial, name, version)

    return Grader(name=name, version=version, applies=None, grade=grade)


def _read(answer: Any, trial: Trial, name: str, version: str) -> Grade | None:
    score, passed, reason = answer, None, None
    if isinstance(answer, tuple) and len(answer) == 2:
        score, reason = answer
    elif isinstance(answer, dict) and "score" in answer and answer.keys() <= _KEYS:
        score, passed, reason = answer["score"], answer.get("passed"), answer.get("reason")
    if score is None and passed is None and reason is None:
        return None
    fits = (
        isinstance(score, int | float)
        and math.isfinite(score)
        and 0 <= score <= 1
        and isinstance(passed, bool | None)
        and isinstance(reason, str | None)
    )
    if not fits:
        return failed(
            trial, name, version,
            f"the grader gave {_clip(answer)}; it must give True, False, a number from 0 to 1, or None, "
            "alone or with a reason",
        )  # fmt: skip
    return scored(trial, name, version, float(score), passed=passed, reason=reason)


def _version(function: Function) -> str:
    """Changes with the file that the function stands in."""
    try:
        source = Path(inspect.getfile(inspect.unwrap(function))).read_bytes()
    except (OSError, TypeError):
        return "1"
    return f"sha256:{hashlib.sha256(source).hexdigest()[:16]}"


def _clip(value: object, width: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= width else text[: width - 1] + "…"
