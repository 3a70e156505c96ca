"""What is odd about a trace beside the others of its month: errors, bad scores, long paths, loops, cost.

A signal is a query over the store and a sentence; `SIGNALS` lists them, the gravest first. "Its month" is
every trace that started in a month of the chosen traces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LOOP = 3
"""The same call with the same arguments this often is a loop."""
LONG_CALLS = 5
"""A path shorter than this is never long."""
HIGH, LOW = 0.95, 0.1
"""Quantiles of the month beyond which a cost or a path is high, or a score low."""
_MOST_CORPUS = 20_000
_BAD = (
    "bad", "negative", "thumbs down", "thumbsdown", "down", "dislike", "disliked", "poor", "incorrect",
    "wrong", "fail", "failed", "unhelpful", "not helpful", "no", "false",
)  # fmt: skip
"""Categories of a score that say it was bad."""

_OF_MONTH = """
    WITH chosen AS (SELECT unnest($ids::VARCHAR[]) AS trace_id),
    months AS (SELECT DISTINCT date_trunc('month', started_at) AS one FROM traces
               JOIN chosen USING (trace_id)),
    month AS (SELECT * FROM traces WHERE date_trunc('month', started_at) IN (SELECT one FROM months))
"""
_SCORED = """,
    scored AS (SELECT trace_id, key AS name, json_type(value) AS kind, value ->> '$' AS score,
                      TRY_CAST(value ->> '$' AS DOUBLE) AS number
               FROM month, json_each(month.scores))
"""


class Signal(NamedTuple):
    """One way in which a trace is odd."""

    name: str
    sql: str
    """What follows the common table expressions `chosen` (trace_id) and `month` (traces): `trace_id`, and the
    columns that `text` shows, of the chosen traces that have the signal."""
    text: str
    """A sentence with the columns of the query as its fields."""


SIGNALS = (
    Signal(
        "error",
        "SELECT trace_id, error FROM traces JOIN chosen USING (trace_id) WHERE error IS NOT NULL",
        "it ended in an error in production: {error}",
    ),
    Signal(
        "false score",
        f"{_SCORED} SELECT trace_id, name FROM scored JOIN chosen USING (trace_id)"
        " WHERE kind = 'BOOLEAN' AND score = 'false' ORDER BY name",
        "score {name} is false",
    ),
    Signal(
        "bad category",
        f"{_SCORED} SELECT trace_id, name, score FROM scored JOIN chosen USING (trace_id)"
        " WHERE kind = 'VARCHAR'"
        rf" AND lower(trim(regexp_replace(score, '[^\p{{L}}\p{{N}}]+', ' ', 'g'))) IN {_BAD} ORDER BY name",
        "score {name} is {score!r}",
    ),
    Signal(
        "low score",
        f"{_SCORED}, limits AS (SELECT name, quantile_cont(number, {LOW}) AS low, median(number) AS middle"
        " FROM scored WHERE number IS NOT NULL GROUP BY name)"
        " SELECT trace_id, name, number FROM scored JOIN limits USING (name) JOIN chosen USING (trace_id)"
        " WHERE kind NOT IN ('VARCHAR', 'BOOLEAN') AND number <= low AND number < middle ORDER BY name",
        "score {name} is {number:g}, among the lowest tenth of the month",
    ),
    Signal(
        "loop",
        "SELECT trace_id, name, count(*) AS times FROM tool_calls JOIN chosen USING (trace_id)"
        f" GROUP BY trace_id, name, args HAVING times >= {LOOP} ORDER BY times DESC, name",
        "{name} was called {times} times with the same arguments",
    ),
    Signal(
        "long path",
        ", paths AS (SELECT trace_id, count(index) AS calls FROM month"
        " LEFT JOIN tool_calls USING (trace_id) GROUP BY trace_id)"
        " SELECT trace_id, calls, (SELECT median(calls) FROM paths) AS usual FROM paths"
        " JOIN chosen USING (trace_id)"
        f" WHERE calls >= {LONG_CALLS} AND calls > (SELECT quantile_cont(calls, {HIGH}) FROM paths)",
        "long path: {calls} tool calls; the month's median is {usual:g}",
    ),
    Signal(
        "cost",
        "SELECT trace_id, cost_usd, (SELECT median(cost_usd) FROM month) AS usual"
        " FROM traces JOIN chosen USING (trace_id) WHERE cost_usd >"
        f" (SELECT greatest(quantile_cont(cost_usd, {HIGH}), 2 * median(cost_usd)) FROM month)",
        "it cost ${cost_usd:.4f}; the month's median is ${usual:.4f}",
    ),
)


def signals_of(con: DuckDBPyConnection, trace_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the signals of these traces in sentences, the gravest first; only of those that have one."""
    sentences: dict[str, list[str]] = defaultdict(list)
    for signal in SIGNALS if trace_ids else ():
        cursor = con.execute(f"{_OF_MONTH} {signal.sql}", {"ids": list(trace_ids)})
        names = [column[0] for column in cursor.description or ()]
        for row in cursor.fetchall():
            values = dict(zip(names, row, strict=True))
            sentences[values["trace_id"]].append(signal.text.format(**values))
    return sentences


def inputs_of_month(con: DuckDBPyConnection, trace_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return id and input of the traces of the month, at most 20,000 drawn by their ids' hash."""
    return con.execute(
        f"{_OF_MONTH} SELECT trace_id, input FROM month"
        f" ORDER BY md5(trace_id), trace_id LIMIT {_MOST_CORPUS}",
        {"ids": list(trace_ids)},
    ).fetchall()
