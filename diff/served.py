"""Count what answered the tool calls of a lane's trials, and how many trials reached their end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from replaydiff.diff.result import Served
from replaydiff.diff.statistics.paired import largest_share
from replaydiff.replay.model import MissReason, Rule, RunRecord, ServedCall

_TAIL = 0.05
"""The bound of false answers from other traces is one-sided at 95 %."""


@dataclass(slots=True)
class ServedCounts:
    """Tool calls of a lane by what answered them."""

    rules: Counter[Rule] = field(default_factory=Counter)
    misses: Counter[MissReason] = field(default_factory=Counter)
    """Of the calls that nothing answered: why."""
    from_others: Counter[str] = field(default_factory=Counter)
    """Tool → its calls that other traces answered."""

    def add(self, calls: Iterable[ServedCall]) -> None:
        """Count the calls of one trial."""
        for served in calls:
            self.rules[served.rule] += 1
            if served.rule is Rule.MISS and served.miss is not None:
                self.misses[served.miss] += 1
            elif served.rule is Rule.CORPUS:
                self.from_others[served.call.name] += 1

    def summary(self, run: RunRecord) -> Served:
        """Return the counts, with the largest bound of false answers of the tools that other traces answered.

        Args:
            run: whose settings have what was counted of each tool when it began.
        """
        proven = _proven(run)
        return Served(
            tape=self.rules[Rule.TAPE],
            corpus=self.rules[Rule.CORPUS],
            live=self.rules[Rule.LIVE],
            simulated=self.rules[Rule.SIMULATED],
            miss=self.rules[Rule.MISS],
            stale=self.misses[MissReason.STALE],
            never_recorded=self.misses[MissReason.NEVER_RECORDED],
            corpus_related=sum(calls for tool, calls in self.from_others.items() if tool not in proven),
            corpus_max_false=max((proven[tool] for tool in self.from_others if tool in proven), default=None),
        )


def _proven(run: RunRecord) -> dict[str, float]:
    """Return the upper bound of false answers of each tool that other sessions could answer in a run."""
    facts: Any = run.settings.get("facts")
    allowed: Any = run.settings.get("max_false")
    proofs = facts.get("proofs", {}) if isinstance(facts, dict) and allowed is not None else {}
    bounds = {tool: largest_share(false, checked, _TAIL) for tool, (checked, false, *_) in proofs.items()}
    return {tool: bound for tool, bound in bounds.items() if bound <= allowed}
