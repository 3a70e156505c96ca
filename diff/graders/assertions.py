"""Check every trial against assertions: `[[assert]]` in the settings, and `assert` of a case.

No model is asked.

A trial passes where every assertion holds; `detail["failed"]` names those that do not, `detail["partial"]` is
the share that does. A trial that was stopped has no answer and may make more calls: it fails where an
assertion on its calls is broken already, and abstains otherwise.

Patterns are matched by RE2 (the engine of DuckDB), whose time grows with the length of the text and never
explodes; it knows no look-around and no back-references.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from replaydiff.diff.graders import json_shape
from replaydiff.diff.graders.base import Grader, abstained, clipped, failed, scored
from replaydiff.replay.errors import SettingsError
from replaydiff.replay.model import Assertion, Grade, Item, JsonObject, Status, Trial
from replaydiff.replay.settings import Settings

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NAME, VERSION = "assertions", "1"


def of_item(item: Item, settings: Settings) -> tuple[Assertion, ...]:
    """Return the assertions on an item's trials: those of the settings, then its own."""
    item_assertions = item.expectation.assertions if item.expectation is not None else None
    return (*settings.assert_, *(item_assertions or ()))


def require(assertions: Sequence[Assertion]) -> None:
    """Refuse patterns and schemas that cannot be used, before anything is spent.

    Raises:
        SettingsError: RE2 cannot read a pattern, or a schema has a keyword that is not checked.
    """
    for assertion in assertions:
        if reason := _unusable(assertion):
            raise SettingsError(f"[[assert]] {describe(assertion)}: {reason}")


def describe(assertion: Assertion) -> str:
    """Return an assertion in words: `contains "refund"`."""
    for kind, value in _values_of(assertion):
        return f"{kind} {clipped(json.dumps(value, ensure_ascii=False))}"
    return ""


def grade(item: Item, trial: Trial, settings: Settings) -> Grade | None:
    """Grade a trial; None for one that errored."""
    assertions = of_item(item, settings)
    if trial.status.is_error or not assertions:
        return None
    for assertion in assertions:
        if reason := _unusable(assertion):
            return failed(trial, NAME, VERSION, f"{describe(assertion)}: {reason}")
    ended = trial.status is Status.OK
    broken = [
        (assertion, reason) for assertion in assertions if (reason := _broken(assertion, trial, ended=ended))
    ]
    if not broken and not ended:
        return abstained(trial, NAME, VERSION, f"stopped before it answered: {trial.reason or trial.status}")
    return scored(
        trial,
        NAME,
        VERSION,
        float(not broken),
        reason="; ".join(reason for _, reason in broken) or None,
        detail={
            "partial": 1 - len(broken) / len(assertions),
            "failed": [describe(assertion) for assertion, _ in broken],
        },
    )


def _values_of(assertion: Assertion) -> Iterator[tuple[str, object]]:
    for kind in _CHECKS:
        if (value := getattr(assertion, kind)) is not None:
            yield kind, value


def _broken(assertion: Assertion, trial: Trial, *, ended: bool) -> str | None:
    """Return why an assertion does not hold; None where it does, or cannot be decided yet."""
    for kind, value in _values_of(assertion):
        if ended or kind in _DECIDED_EARLY:
            return _CHECKS[kind](value, trial)
    return None


def _answer(trial: Trial) -> str:
    return trial.final_response or ""


def _names(trial: Trial) -> list[str]:
    return [served.call.name for served in trial.served]


def _json(value: JsonObject, trial: Trial) -> str | None:
    try:
        answer = json.loads(_answer(trial))
    except (ValueError, RecursionError):
        return "the answer is not JSON"
    wrong = json_shape.first_error(value, answer, _search_pattern)
    return wrong and f"the answer does not meet the schema: {wrong}"


def _unusable(assertion: Assertion) -> str | None:
    if assertion.matches is not None:
        return _pattern_error(assertion.matches)
    if assertion.json_schema is not None:
        return json_shape.unusable(assertion.json_schema, _pattern_error)
    return None


@lru_cache(maxsize=256)
def _pattern_error(pattern: str) -> str | None:
    """Return why RE2 cannot read a pattern."""
    import duckdb

    try:
        _search(pattern, "")
    except duckdb.Error as error:
        return f"not a pattern of RE2: {str(error).partition('Error: ')[2] or error}"
    return None


@lru_cache(maxsize=8192)
def _search_pattern(pattern: str, text: str) -> bool:
    return _search(pattern, text)


_engine = threading.local()


def _search(pattern: str, text: str) -> bool:
    row = _connection().execute("SELECT regexp_matches(?, ?)", [text, pattern]).fetchone()
    return bool(row and row[0])


def _connection() -> DuckDBPyConnection:
    """Return a connection of this thread to an empty store in memory.

    Connections are not shared by threads.
    """
    if not hasattr(_engine, "connection"):
        import duckdb

        _engine.connection = duckdb.connect(":memory:", config={"threads": 1})
    connection: DuckDBPyConnection = _engine.connection
    return connection


_CHECKS: dict[str, Callable[[Any, Trial], str | None]] = {
    "contains": lambda text, trial: _unless(text in _answer(trial), f"the answer does not contain {text!r}"),
    "not_contains": lambda text, trial: _unless(text not in _answer(trial), f"the answer contains {text!r}"),
    "matches": lambda pattern, trial: _unless(
        _search_pattern(pattern, _answer(trial)), f"the answer does not match {pattern!r}"
    ),
    "json_schema": _json,
    "max_chars": lambda most, trial: _unless(
        len(_answer(trial)) <= most, f"the answer has {len(_answer(trial))} characters, more than {most}"
    ),
    "must_call": lambda tool, trial: _unless(tool in _names(trial), f"never called {tool}"),
    "must_not_call": lambda tool, trial: _unless(tool not in _names(trial), f"called {tool}"),
    "max_calls": lambda most, trial: _unless(
        len(trial.served) <= most, f"made {len(trial.served)} calls, more than {most}"
    ),
}
"""Field of an assertion → why its value does not hold for a trial; None where it does."""


def _unless(holds: bool, broken: str) -> str | None:
    return None if holds else broken


_DECIDED_EARLY = ("must_not_call", "max_calls")
"""What no further call can correct."""


def _applies(item: Item, settings: Settings) -> bool:
    return bool(of_item(item, settings))


GRADER = Grader(name=NAME, version=VERSION, applies=_applies, grade=grade)
