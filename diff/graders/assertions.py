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
from typing import TYPE_CHECKING

from replaydiff.diff.graders import json_shape
from replaydiff.diff.graders.base import Grader, abstained, failed, scored
from replaydiff.replay.errors import SettingsError
from replaydiff.replay.model import Assertion, Grade, Item, Status, Trial
from replaydiff.replay.settings import Settings

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NAME, VERSION = "assertions", "1"
_SHOWN = 60


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
        text = json.dumps(value, ensure_ascii=False)
        return f"{kind} {text if len(text) <= _SHOWN else text[: _SHOWN - 1] + '…'}"
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


def _contains(value: object, trial: Trial) -> str | None:
    return None if str(value) in _answer(trial) else f"the answer does not contain {value!r}"


def _not_contains(value: object, trial: Trial) -> str | None:
    return f"the answer contains {value!r}" if str(value) in _answer(trial) else None


def _matches(value: object, trial: Trial) -> str | None:
    return None if _search_pattern(str(value), _answer(trial)) else f"the answer does not match {value!r}"


def _json(value: object, trial: Trial) -> str | None:
    try:
        answer = json.loads(_answer(trial))
    except (ValueError, RecursionError):
        return "the answer is not JSON"
    assert isinstance(value, dict)  # noqa: S101 - the model's type
    wrong = json_shape.first_error(value, answer, _search_pattern)
    return wrong and f"the answer does not meet the schema: {wrong}"


def _max_chars(value: object, trial: Trial) -> str | None:
    length = len(_answer(trial))
    return f"the answer has {length} characters, more than {value}" if length > int(str(value)) else None


def _must_call(value: object, trial: Trial) -> str | None:
    return None if value in _names(trial) else f"never called {value}"


def _must_not_call(value: object, trial: Trial) -> str | None:
    return f"called {value}" if value in _names(trial) else None


def _max_calls(value: object, trial: Trial) -> str | None:
    calls = len(trial.served)
    return f"made {calls} calls, more than {value}" if calls > int(str(value)) else None


_CHECKS: dict[str, Callable[[object, Trial], str | None]] = {
    "contains": _contains,
    "not_contains": _not_contains,
    "matches": _matches,
    "json_schema": _json,
    "max_chars": _max_chars,
    "must_call": _must_call,
    "must_not_call": _must_not_call,
    "max_calls": _max_calls,
}
_DECIDED_EARLY = ("must_not_call", "max_calls")
"""What no further call can correct."""


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


def _applies(item: Item, settings: Settings) -> bool:
    return bool(of_item(item, settings))


GRADER = Grader(name=NAME, version=VERSION, applies=_applies, grade=grade)
