"""Which ways through the tools the golden set holds, and which ways of last month have no case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replaydiff.replay.model import NO_TOOLS, Case

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncovered:
    """A tool path of a month that no case has."""

    tool_path: str
    traces: int
    examples: tuple[str, ...]
    """Ids of such traces to look at: those whose ids have the smallest hashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """A month against a golden set."""

    month: str
    traces: int
    covered: int
    """Traces whose tool path a case has."""
    missing: tuple[Uncovered, ...]
    """The most frequent first."""


def path_of(case: Case) -> str | None:
    """The tool path a case expects, else that of its tape; None where neither says."""
    if case.expectation.tool_calls is not None:
        return ">".join(call.name for call in case.expectation.tool_calls) or NO_TOOLS
    return ">".join(call.name for call in case.tape) or None


def coverage(con: DuckDBPyConnection, cases: Sequence[Case], month: str) -> Coverage:
    """How much of a month's traffic goes a way that a case goes, too."""
    paths = sorted({path for case in cases if (path := path_of(case)) is not None})
    rows = con.execute(
        "SELECT tool_path, count(*) AS traces, arg_min(trace_id, md5(trace_id), $2) AS examples FROM traces"
        " WHERE strftime(started_at, '%Y-%m') = $1 GROUP BY tool_path ORDER BY traces DESC, tool_path",
        [month, _EXAMPLES],
    ).fetchall()
    return Coverage(
        month=month,
        traces=sum(traces for _, traces, _ in rows),
        covered=sum(traces for path, traces, _ in rows if path in paths),
        missing=tuple(
            Uncovered(tool_path=path, traces=traces, examples=tuple(examples))
            for path, traces, examples in rows
            if path not in paths
        ),
    )


def counted(cases: Sequence[Case]) -> dict[str, dict[str, int]]:
    """How many cases there are by tag, category and difficulty, the most frequent first."""
    by: dict[str, Counter[str]] = {"tag": Counter(), "category": Counter(), "difficulty": Counter()}
    for case in cases:
        by["tag"].update(case.tags)
        by["category"].update([case.category] if case.category else [])
        by["difficulty"].update([case.difficulty] if case.difficulty else [])
    return {name: dict(counter.most_common()) for name, counter in by.items() if counter}
