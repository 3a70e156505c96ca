"""What is in the store after an import, on one screen: tools, conversations, and what a sample would draw."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replaydiff.replay.months import month_at, month_range
from replaydiff.replay.settings.toml import tool_table
from replaydiff.replay.terminal.text import single_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from replaydiff.replay.effects import ToolEffect
    from replaydiff.replay.result_form import ResultForms

_ROWS = 12
_LONGEST_NAME = 32
_CONTENTS = "SELECT count(*), count(session_id), count(DISTINCT session_id), max(started_at) FROM traces"
_MONTH = """
SELECT count(*) FILTER (state = 'complete'), count(DISTINCT tool_path) FILTER (state = 'complete')
FROM traces WHERE started_at >= ? AND started_at < ?
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOverview:
    """The contents of a store, as far as an import reports them."""

    calls: Mapping[str, int] = field(default_factory=dict)
    """Tool → its recorded calls."""
    forms: Mapping[str, ResultForms] = field(default_factory=dict)
    """Tool → what its results are, for tools some of whose results are JSON text."""
    traces: int = 0
    in_sessions: int = 0
    """Traces with a session id."""
    sessions: int = 0
    month: str | None = None
    """The latest month with traces."""
    complete: int = 0
    """Traces of it that a sample can draw."""
    paths: int = 0
    """Their distinct tool paths."""


def overview_of(con: DuckDBPyConnection, zone: str) -> StoreOverview:
    """Return what is in a store, with its latest month in a time zone."""
    from replaydiff.replay.store.traces import count_tool_calls, result_forms

    [(traces, in_sessions, sessions, last)] = con.execute(_CONTENTS).fetchall()
    month = None if last is None else month_at(last, zone)
    [(complete, paths)] = [(0, 0)] if month is None else con.execute(_MONTH, [*month_range(month)]).fetchall()
    return StoreOverview(
        calls=count_tool_calls(con),
        forms={forms.name: forms for forms in result_forms(con)},
        traces=traces,
        in_sessions=in_sessions,
        sessions=sessions,
        month=month,
        complete=complete,
        paths=paths,
    )


def tool_lines(
    overview: StoreOverview, effects: Sequence[ToolEffect], unclear: Collection[str]
) -> Iterator[str]:
    """Yield a table of the recorded tools, the most frequent first, and how to correct it.

    Args:
        overview: the contents of the store.
        effects: what each tool does.
        unclear: tools of which nothing shows whether they return JSON text or the value.
    """
    by_name = {effect.name: effect for effect in effects}
    names = [name for name in overview.calls if name in by_name]
    if not names:
        return
    rows = [
        (name, f"{overview.calls[name]:,}", _effect(by_name[name]), _results(overview.forms.get(name)))
        for name in names[:_ROWS]
    ]
    rows.insert(0, ("tool", "calls", "effect", "results"))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    widths[0] = min(widths[0], _LONGEST_NAME)
    for raw_name, calls, effect, results in rows:
        name = single_line(raw_name)
        shown = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
        line = f"{shown:{widths[0]}}  {calls:>{widths[1]}}  {effect:{widths[2]}}  {results}"
        yield line.rstrip()
    if len(names) > _ROWS:
        yield f"and {len(names) - _ROWS} more tools, which `replay doctor` lists"
    open_effects = [name for name in names if by_name[name].basis != "set"]
    open_effects.sort(key=lambda name: by_name[name].effect is not None)
    if unclear:
        yield f'JSON text is answered as text, unless {tool_table(min(unclear))} sets result = "json"'
    if open_effects:
        yield f'a wrong or unknown effect is set in {tool_table(open_effects[0])}: effect = "read" or "write"'


def content_lines(overview: StoreOverview) -> Iterator[str]:
    """Yield whether traces are conversations, and what a sample would draw."""
    if overview.in_sessions:
        share = f"{overview.in_sessions:,} of {count(overview.traces, 'trace')}"
        yield f"sessions: {share} in {count(overview.sessions, 'session')}"
    else:
        yield "sessions: no trace names one, so each counts as a conversation of its own"
    if overview.complete:
        traces, paths = count(overview.complete, "trace"), count(overview.paths, "tool path")
        yield f"sample: {overview.month} has {traces} to draw from, with {paths}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, such as `2 traces`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _effect(effect: ToolEffect) -> str:
    if effect.effect is None:
        return "unknown: as write"
    return effect.effect if effect.basis == "set" else f"{effect.effect} (by {effect.basis})"


def _results(forms: ResultForms | None) -> str:
    if forms is None:
        return "as recorded"
    share = f"{forms.json_texts:,} of {forms.total:,} are JSON text"
    return f"{share}, answered as values" if forms.form == "json" else share
