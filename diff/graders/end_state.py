"""Grade the state after a trial, however the agent reached it.

`[grading] end_state` names a function of the user: it gets the tool calls of a trial, in their order, with
what the tools answered, and gives the state that they leave behind (any JSON value). A case is compared with
its `expected_state`; of an object only the expected keys count, at every depth. A sampled trace is
compared with the state that its recorded calls left, and that must be equal.

    def end_state(calls):
        return {"cancelled": sorted(call.args["order_id"] for call in calls if call.name == "cancel_order")}

A function with a second parameter also gets the files that the trial wrote in its own folder, as far as their
content is kept (`[world] keep`): a mapping from path to a file with the content. A recording has no files, so
such a function grades cases alone.

    def end_state(calls, files):
        with sqlite3.connect(files["shop.db"]) as con:
            return {"cancelled": [row[0] for row in con.execute("SELECT id FROM orders WHERE cancelled")]}

A function that raises is a failure of the grader, not of the trial.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replaydiff.diff.graders.base import Grader, abstained, clipped, failed, scored
from replaydiff.replay.align import equal_json
from replaydiff.replay.files import FILE_CONTENTS
from replaydiff.replay.functions import load_function
from replaydiff.replay.model import Grade, Item, Json, Status, Trial
from replaydiff.replay.settings import Settings

NAME, VERSION = "end_state", "2"
_SETTING = "[grading] end_state"


def applies(item: Item, settings: Settings) -> bool:
    """Return whether the end state of an item can be graded.

    A case with `expected_state`, or a function is set.
    """
    if item.expectation is None:
        return settings.grading.end_state is not None
    return item.expectation.state is not None


def grade(item: Item, trial: Trial, settings: Settings) -> Grade | None:
    """Compare the state after a finished trial with the expected or recorded state."""
    if trial.status.is_error:
        return None
    if trial.status is not Status.OK:
        return abstained(trial, NAME, VERSION, f"stopped on the way: {trial.reason or trial.status.value}")
    if settings.grading.end_state is None:
        return failed(trial, NAME, VERSION, f"expected_state needs a function; name it as {_SETTING}")
    work_out = function(settings.grading.end_state, settings.root)
    try:
        calls = [served.call for served in trial.served]
        if _takes_files(work_out):
            if item.expectation is None:
                return abstained(trial, NAME, VERSION, "a recording has no files to compare with")
            state = work_out(calls, files_with_content(trial, settings))
        else:
            state = work_out(calls)
        expected = work_out(item.tape) if item.expectation is None else item.expectation.state
    except Exception as error:  # noqa: BLE001 - whatever the user's function does, it grades nothing
        return failed(trial, NAME, VERSION, f"{_SETTING} failed: {type(error).__name__}: {error}")
    reason = difference(expected, state, whole=item.expectation is None)
    return scored(trial, NAME, VERSION, float(reason is None), reason=reason)


def files_with_content(trial: Trial, settings: Settings) -> dict[str, Path]:
    """Return the files that a trial wrote and whose content is kept, as path → a file with the content."""
    folder = settings.data_folder / FILE_CONTENTS
    return {file.path: folder / file.sha256 for file in trial.files if file.has_content and file.sha256}


def _takes_files(work_out: Callable[..., Any]) -> bool:
    parameters = inspect.signature(work_out).parameters.values()
    required = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
    ]
    return len(required) > 1


def difference(expected: Json, state: Json, *, whole: bool, path: str = "the state") -> str | None:
    """Return the first difference from the expected state; `whole` also counts unexpected keys."""
    if isinstance(expected, dict) and isinstance(state, dict):
        for key in [*expected, *(key for key in state if whole and key not in expected)]:
            inner = key if path == "the state" else f"{path}.{key}"
            if key not in state:
                return f"{inner} is missing"
            if key not in expected:
                return f"{inner} should not be there"
            inner_difference = difference(expected[key], state[key], whole=whole, path=inner)
            if inner_difference:
                return inner_difference
        return None
    if equal_json(expected, state):
        return None
    return f"{path} should be {clipped(repr(expected))}, and is {clipped(repr(state))}"


@functools.cache
def function(target: str, root: Path) -> Callable[..., Any]:
    """Return the user's function of this name.

    Raises:
        SettingsError: there is none.
    """
    return load_function(target, root, _SETTING)


GRADER = Grader(name=NAME, version=VERSION, applies=applies, grade=grade)
