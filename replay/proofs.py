"""How far a tool's results are the same in every trace: what allows another trace to answer a call.

Each recorded call is left out in turn, with all calls of its session: do the other sessions agree on its
result, and is it the one that was recorded? The share of false answers of a tool, with its upper bound,
decides whether its calls may be answered from other traces at all:

    get_product(sku="A")   "tea" in 40 sessions                     40 checked, 0 false
    get_price(sku="A")     5, 5, 5, 5 and once 7                     1 checked, 1 false

Only calls with arguments count, and only those before the first write of their trace: what was written
would be another state.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replaydiff.replay.renames import Renames
from replaydiff.replay.store.memory import all_rows

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

    @property
    def bound(self) -> float:
        """The upper end of the one-sided 95 % interval of the share of false answers (Clopper-Pearson)."""
        return upper_bound(self.false, self.checked)

    def describe(self, max_false: float) -> str:
        """Return the count and what follows, for a person: `proven: 0 of 412 …`."""
        if not self.checked:
            return "not proven: no call with arguments has one result in several other sessions"
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


_LEAVE_ONE_OUT = """
WITH named AS (
    SELECT trace_id, index, coalesce(map($earlier, $present)[name], name) AS tool, answered,
        args, hash(result::VARCHAR, error) AS outcome
    FROM tool_calls
), first_writes AS (
    SELECT trace_id, min(index) AS first FROM named WHERE NOT list_contains($reads, tool) GROUP BY trace_id
), calls AS (
    SELECT tool, coalesce(session_id, trace_id) AS session, outcome,
        list_transform(
            list_sort(list_filter(
                json_keys(args), lambda key: NOT list_contains($ignored, tool || ' ' || key)
            )),
            lambda key: key || '=' || coalesce(
                try(json_extract(args, '$."' || key || '"')::VARCHAR), args::VARCHAR
            )
        ) AS args
    FROM named JOIN traces USING (trace_id) LEFT JOIN first_writes USING (trace_id)
    WHERE list_contains($reads, tool) AND answered AND (first IS NULL OR index < first)
), results AS (
    SELECT tool, args, session, outcome, count(*) AS calls FROM calls WHERE len(args) > 0 GROUP BY ALL
), left_out AS (
    SELECT tool, outcome, calls, min(outcome) OVER apart AS lowest, max(outcome) OVER apart AS highest,
        sum(calls) OVER apart AS agreeing, count(DISTINCT session) OVER apart AS sessions
    FROM results
    WINDOW apart AS (
        PARTITION BY tool, args ORDER BY session
        RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE GROUP
    )
)
SELECT tool, sum(calls)::BIGINT, coalesce(sum(calls) FILTER (outcome <> lowest), 0)::BIGINT FROM left_out
WHERE lowest = highest AND agreeing >= $least AND sessions >= $least
GROUP BY tool
"""


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
    names = renames.names if renames else {}
    values = {
        "earlier": [*names],
        "present": [*names.values()],
        "reads": [*reads],
        "ignored": [f"{tool} {key}" for tool, keys in (ignored or {}).items() for key in keys],
        "least": least,
    }
    counted = {tool: Proof(checked, false) for tool, checked, false in all_rows(con, _LEAVE_ONE_OUT, values)}
    return {tool: counted.get(tool, Proof()) for tool in reads}
