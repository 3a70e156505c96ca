"""How far a tool's results are the same in every trace: what allows another trace to answer a call.

Each recorded call is left out in turn, with all calls of its session: do the other sessions agree on its
result, and is it the one that was recorded? The share of false answers of a tool, with its upper bound,
decides whether its calls may be answered from other traces at all:

    get_product(sku="A")   "tea" in 40 sessions                     40 checked, 0 false
    get_price(sku="A")     5, 5, 5, 5 and once 7                     1 checked, 1 false

Only calls with arguments count, and only those before the first write of their trace: what was written
would be another state.

Traces of the same user, or session, may answer each other without proof, unless the recordings speak against
it: in the same way each trace of a user who wrote nothing is left out, and the user's other traces answer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replaydiff.replay.renames import Renames

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Proof:
    """What was counted for one tool."""

    checked: int = 0
    """Calls that other sessions would have answered."""
    false: int = 0
    """Those of them with another answer than was recorded."""
    related: int = 0
    """Calls that other traces of the same user or session would have answered."""
    related_false: int = 0
    """Those of them with another answer than was recorded."""

    @property
    def bound(self) -> float:
        """Return the upper end of the one-sided 95 % interval of the share of false answers
        (Clopper-Pearson).
        """
        return upper_bound(self.false, self.checked)

    def allows_related(self, max_false: float) -> bool:
        """Return whether no recording speaks against answers from traces of the same user or session."""
        return self.related_false <= max_false * self.related

    def describe(self, max_false: float) -> str:
        """Return the count and what follows, for a person: `proven: 0 of 412 …`."""
        if not self.checked:
            return "not proven: too few calls repeat alike across sessions"
        counts = f"{self.false} of {self.checked} answers from other sessions false"
        if self.bound <= max_false:
            return f"proven: {counts}, at most {self.bound:.1%}"
        return f"not proven: {counts}, possibly up to {self.bound:.1%}, where {max_false:.1%} is allowed"


def upper_bound(false: int, checked: int, confidence: float = CONFIDENCE) -> float:
    """Return the one-sided upper Clopper-Pearson bound of a share.

    Args:
        false: how many were false.
        checked: of how many.
        confidence: of the bound.
    """
    if checked == 0 or false >= checked:
        return 1.0
    low, high = false / checked, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _at_most(false, checked, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(successes: int, number: int, share: float) -> float:
    """Return the probability of so many successes or fewer (binomial)."""
    if share >= 1:
        return 0.0
    total = 0.0
    for count in range(successes + 1):
        ways = math.lgamma(number + 1) - math.lgamma(count + 1) - math.lgamma(number - count + 1)
        total += math.exp(ways + count * math.log(share) + (number - count) * math.log1p(-share))
    return total


_LEFT_OUT = """
WITH named AS (
    SELECT trace_id, index, coalesce(map($earlier, $present)[name], name) AS tool, answered,
        args, hash(result::VARCHAR, error) AS outcome
    FROM tool_calls
), first_writes AS (
    SELECT trace_id, min(index) AS first FROM named WHERE NOT list_contains($reads, tool) GROUP BY trace_id
), calls AS (
    SELECT tool, UNIT AS session, outcome,
        list_transform(
            list_sort(list_filter(
                json_keys(args), lambda key: NOT list_contains($ignored, tool || ' ' || key)
            )),
            lambda key: key || '=' || coalesce(
                try(json_extract(args, '$."' || key || '"')::VARCHAR), args::VARCHAR
            )
        ) AS args, OWNER AS owner
    FROM named JOIN traces USING (trace_id) LEFT JOIN first_writes USING (trace_id)
    WHERE list_contains($reads, tool) AND answered AND (first IS NULL OR index < first) AND CONDITION
), results AS (
    SELECT tool, list_append(args, owner) AS args, session, outcome, count(*) AS calls
    FROM calls WHERE len(args) > 0 GROUP BY ALL
), spread AS (
    SELECT *, count(*) OVER (PARTITION BY tool, args, outcome) AS sessions FROM results
), by_session AS (
    SELECT *, sum(calls) OVER same_session AS session_calls,
        count(*) FILTER (sessions = 1) OVER same_session AS session_only
    FROM spread WINDOW same_session AS (PARTITION BY tool, args, session)
), by_arguments AS (
    SELECT tool, args, count(DISTINCT session) AS all_sessions, sum(calls) AS all_calls,
        count(*) FILTER (sessions = 1) AS lone, count(DISTINCT outcome) FILTER (sessions > 1) AS shared,
        max(outcome) FILTER (sessions > 1) AS shared_outcome
    FROM spread GROUP BY tool, args
)
SELECT tool, sum(calls)::BIGINT,
    coalesce(sum(calls) FILTER (shared = 0 OR outcome <> shared_outcome), 0)::BIGINT
FROM by_session JOIN by_arguments USING (tool, args)
-- Without this session, the others have one outcome: the shared one, or that of the only other session.
WHERE shared + lone - session_only = 1
    AND all_calls - session_calls >= $least AND all_sessions - 1 >= $least
GROUP BY tool
"""
_BY_SESSION = _LEFT_OUT.replace("UNIT", "coalesce(session_id, trace_id)").replace("OWNER", "''")
_BY_SESSION = _BY_SESSION.replace("CONDITION", "true")
_SAME_USER = "coalesce(user_id, session_id)"
_BY_TRACE_OF_A_USER = _LEFT_OUT.replace("UNIT", "trace_id").replace("OWNER", _SAME_USER)
_BY_TRACE_OF_A_USER = _BY_TRACE_OF_A_USER.replace(
    "CONDITION",
    f"{_SAME_USER} NOT IN (SELECT {_SAME_USER} FROM first_writes JOIN traces USING (trace_id)"
    f" WHERE {_SAME_USER} IS NOT NULL)",
)


def prove_tools(
    con: DuckDBPyConnection,
    reads: Collection[str],
    least: int,
    ignored: Mapping[str, Collection[str]] | None = None,
    renames: Renames | None = None,
) -> dict[str, Proof]:
    """Return what leaving out each call of a tool shows, for each tool that reads.

    Args:
        con: the store.
        reads: the tools, under their present names; every other tool counts as writing.
        least: how many calls, in as many sessions, must agree.
        ignored: tool → arguments that never count.
        renames: bring recorded names to the present ones.
    """
    from replaydiff.replay.store.memory import all_rows

    names = renames.names if renames else {}
    values = {
        "earlier": [*names],
        "present": [*names.values()],
        "reads": [*reads],
        "ignored": [f"{tool} {key}" for tool, keys in (ignored or {}).items() for key in keys],
        "least": least,
    }
    by_session = {tool: counts for tool, *counts in all_rows(con, _BY_SESSION, values)}
    by_user = {tool: counts for tool, *counts in all_rows(con, _BY_TRACE_OF_A_USER, {**values, "least": 1})}
    return {tool: Proof(*by_session.get(tool, (0, 0)), *by_user.get(tool, (0, 0))) for tool in reads}
