"""What is odd about a trace beside the others of its month: errors, bad scores, long paths, loops, cost.

Set work over the store. "Its month" is every trace that started in a month of the traces asked about.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from replaydiff.replay.store.bulk import reader

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LOOP = 3
"""The same call with the same arguments this often is a loop."""
LONG_CALLS = 5
"""A path shorter than this is never long."""
HIGH, LOW = 0.95, 0.1
"""Quantiles of the month beyond which a cost or a path is high, or a score low."""
_MOST_CORPUS = 20_000
_BAD = {
    "bad", "negative", "thumbs down", "thumbsdown", "down", "dislike", "disliked", "poor", "incorrect",
    "wrong", "fail", "failed", "unhelpful", "not helpful", "no", "false",
}  # fmt: skip
"""Categories of a score that say it was bad."""

_read_scores: Any = reader(dict[str, Any])

_OF_MONTH = """
    WITH asked AS (SELECT unnest($ids::VARCHAR[]) AS trace_id),
    months AS (SELECT DISTINCT date_trunc('month', started_at) AS one FROM traces
               JOIN asked USING (trace_id)),
    month AS (SELECT * FROM traces WHERE date_trunc('month', started_at) IN (SELECT one FROM months))
"""


def signals_of(con: DuckDBPyConnection, trace_ids: Sequence[str]) -> dict[str, list[str]]:
    """What is odd about each of these traces, in words, the gravest first; only those that have something."""
    found: dict[str, list[str]] = defaultdict(list)
    if not trace_ids:
        return found
    ids = {"ids": list(trace_ids)}
    for trace_id, error in con.execute(
        f"{_OF_MONTH} SELECT trace_id, error FROM traces JOIN asked USING (trace_id) WHERE error IS NOT NULL",
        ids,
    ).fetchall():
        found[trace_id].append(f"it ended in an error in production: {error}")
    for trace_id, reason in _bad_scores(con, ids):
        found[trace_id].append(reason)
    for trace_id, name, times in con.execute(
        f"{_OF_MONTH} SELECT trace_id, name, count(*) AS times FROM tool_calls JOIN asked USING (trace_id)"
        f" GROUP BY trace_id, name, args HAVING times >= {LOOP} ORDER BY times DESC, name",
        ids,
    ).fetchall():
        found[trace_id].append(f"{name} was called {times} times with the same arguments")
    for trace_id, calls, usual in con.execute(
        f"{_OF_MONTH}, paths AS (SELECT trace_id, count(index) AS calls FROM month"
        " LEFT JOIN tool_calls USING (trace_id) GROUP BY trace_id)"
        " SELECT trace_id, calls, (SELECT median(calls) FROM paths) FROM paths JOIN asked USING (trace_id)"
        f" WHERE calls >= {LONG_CALLS} AND calls > (SELECT quantile_cont(calls, {HIGH}) FROM paths)",
        ids,
    ).fetchall():
        found[trace_id].append(f"a long way: {calls} tool calls, where the month's median is {usual:g}")
    for trace_id, cost, usual in con.execute(
        f"{_OF_MONTH} SELECT trace_id, cost_usd, (SELECT median(cost_usd) FROM month)"
        " FROM traces JOIN asked USING (trace_id) WHERE cost_usd >"
        f" (SELECT greatest(quantile_cont(cost_usd, {HIGH}), 2 * median(cost_usd)) FROM month)",
        ids,
    ).fetchall():
        found[trace_id].append(f"it cost ${cost:.4f}, where the month's median is ${usual:.4f}")
    return found


def inputs_of_month(con: DuckDBPyConnection, trace_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Id and input of the traces of the month, at most 20,000 drawn by their ids' hash."""
    return con.execute(
        f"{_OF_MONTH} SELECT trace_id, input FROM month"
        f" ORDER BY md5(trace_id), trace_id LIMIT {_MOST_CORPUS}",
        {"ids": list(trace_ids)},
    ).fetchall()


def _bad_scores(con: DuckDBPyConnection, ids: dict[str, list[str]]) -> list[tuple[str, str]]:
    rows = con.execute(
        f"{_OF_MONTH} SELECT trace_id, scores FROM traces JOIN asked USING (trace_id)"
        " WHERE scores::VARCHAR <> '{}'",
        ids,
    ).fetchall()
    scored = [(trace_id, _read_scores(text)) for trace_id, text in rows]
    numeric = {
        name
        for _, scores in scored
        for name, value in scores.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    low = {name: _low(con, ids, name) for name in sorted(numeric)}
    bad = []
    for trace_id, scores in scored:
        for name, value in scores.items():
            if value is False:
                bad.append((trace_id, f"score {name} is false"))
            elif isinstance(value, str) and _says_bad(value):
                bad.append((trace_id, f"score {name} is {value!r}"))
            elif name in low and not isinstance(value, str) and _is_low(float(value), low[name]):
                bad.append((trace_id, f"score {name} is {value:g}, among the lowest tenth of the month"))
    return bad


def _says_bad(value: str) -> bool:
    """Whether a category is one of those by which people and tools say that it was bad."""
    return re.sub(r"[\W_]+", " ", value).strip().lower() in _BAD


def _is_low(value: float, limits: tuple[float, float] | None) -> bool:
    return limits is not None and value <= limits[0] and value < limits[1]


def _low(con: DuckDBPyConnection, ids: dict[str, list[str]], name: str) -> tuple[float, float] | None:
    """The lowest tenth's end and the median of a score in the month."""
    path = '$."' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    found = con.execute(
        f"{_OF_MONTH}, scored AS"
        " (SELECT TRY_CAST(json_extract_string(scores, $path) AS DOUBLE) AS score FROM month)"
        f" SELECT quantile_cont(score, {LOW}), median(score) FROM scored WHERE score IS NOT NULL",
        {**ids, "path": path},
    ).fetchone()
    return (found[0], found[1]) if found and found[0] is not None else None
