"""What the recordings of a store show about tools, as far as the tape needs it: computed once for a run.

It goes beyond what a single recording can show: which tools write, which change others beyond the objects of
their calls, which return something else at every call, and which values identify nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import astuple, dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from replaydiff.replay.effects import Effect, learn_effects
from replaydiff.replay.model import JsonObject
from replaydiff.replay.objects import Objects, common_values
from replaydiff.replay.proofs import Proof, prove_tools
from replaydiff.replay.renames import Renames
from replaydiff.replay.settings import ToolSection
from replaydiff.replay.tape import TapeRules, dependent_tools

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TRACES = 5_000
"""The newest traces whose arguments are read."""
CHANGED_TRACES = 1_000
"""The newest traces with equal calls that differ, which are read whole."""

_UNREAD = ("messages", "steps", "metadata", "scores", "usage")
_ARGUMENTS = """
WITH newest AS (SELECT trace_id FROM traces ORDER BY started_at DESC, trace_id LIMIT ?)
SELECT trace_id, args FROM tool_calls SEMI JOIN newest USING (trace_id) ORDER BY trace_id, index
"""
_CHANGED = """
SELECT trace_id FROM (
    SELECT DISTINCT trace_id FROM tool_calls WHERE answered
    GROUP BY trace_id, name, args::VARCHAR HAVING count(DISTINCT hash(result::VARCHAR, error)) > 1
) JOIN traces USING (trace_id) ORDER BY started_at DESC, trace_id LIMIT ?
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFacts:
    """What a store shows about tools. A run stores it, so that it is resumed with the same."""

    effects: Mapping[str, Effect] = field(default_factory=dict)
    """Tool → its effect, where recordings show it and no setting does."""
    dependent: Collection[tuple[str, str]] = ()
    """Writing and reading tools of which the one changes the other beyond the objects of their calls."""
    unsteady: Collection[str] = ()
    """Tools whose equal calls differ with no write between them."""
    common: Collection[str] = ()
    """Values that are used in too many traces to identify anything."""
    contradictions: Mapping[str, str] = field(default_factory=dict)
    """Tool that is set to read → what recordings show against it."""
    proofs: Mapping[str, Proof] = field(default_factory=dict)
    """Tool that reads → how often other sessions would have answered it falsely."""

    def to_json(self) -> JsonObject:
        """Return what a run stores of it."""
        return {
            "effects": dict(self.effects),
            "dependent": [[writer, reader] for writer, reader in sorted(self.dependent)],
            "unsteady": [*sorted(self.unsteady)],
            "common": [*sorted(self.common)],
            "contradictions": dict(self.contradictions),
            "proofs": {name: [*astuple(proof)] for name, proof in self.proofs.items()},
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> RecordedFacts:
        """Return what `to_json` wrote."""
        return cls(
            effects=dict(stored.get("effects", {})),
            dependent=frozenset((writer, reader) for writer, reader in stored.get("dependent", ())),
            unsteady=frozenset(stored.get("unsteady", ())),
            common=frozenset(stored.get("common", ())),
            contradictions=dict(stored.get("contradictions", {})),
            proofs={name: Proof(*counts) for name, counts in stored.get("proofs", {}).items()},
        )


def read_facts(
    con: DuckDBPyConnection,
    tools: Mapping[str, ToolSection],
    *,
    ignored: Callable[[str], Collection[str]] = lambda _: (),
    least: int = 3,
) -> RecordedFacts:
    """Return what the recordings of a store show about its tools.

    Args:
        con: the store.
        tools: `[tools]` of the settings.
        ignored: returns the arguments of a tool that never count.
        least: how many sessions must agree on an answer (`[world] proven`).
    """
    from replaydiff.replay.store import sql
    from replaydiff.replay.store.memory import all_rows
    from replaydiff.replay.store.traces import iter_traces

    read_args = sql.reader(JsonObject)
    learnt = learn_effects(con, tools)
    effects: dict[str, Effect] = {
        name: tool.effect for name, tool in learnt.items() if tool.effect and tool.basis != "name"
    }
    rows = all_rows(con, _ARGUMENTS, [TRACES])
    traces = groupby(rows, itemgetter(0))
    common = common_values([read_args(args) for _, args in calls] for _, calls in traces)
    rules = TapeRules(effects=effects, objects=Objects(common=common))
    renames = Renames.of(tools)
    changed = [trace_id for (trace_id,) in all_rows(con, _CHANGED, [CHANGED_TRACES])]
    dependent: set[tuple[str, str]] = set()
    for trace in iter_traces(con, changed, without=_UNREAD):
        dependent |= dependent_tools([renames.call(call) for call in trace.tool_calls], rules)
    reads = [name for name, tool in learnt.items() if tool.effect == "read"]
    return RecordedFacts(
        effects={
            name: tool.effect for name, tool in learnt.items() if tool.basis == "recordings" and tool.effect
        },
        dependent=frozenset(dependent),
        unsteady=frozenset(name for name, tool in learnt.items() if not tool.steady),
        common=common,
        contradictions={name: tool.contradiction for name, tool in learnt.items() if tool.contradiction},
        proofs=prove_tools(con, reads, least, {name: ignored(name) for name in reads}, renames),
    )
