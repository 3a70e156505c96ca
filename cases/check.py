"""The golden set against one version: which cases pass.

A case passes when every metric that applies to it passes in all its trials; one that could be either (an
error, a judge that cannot decide) is undecided. `diff.answer` holds the share against the threshold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from diff.result import DiffResult, ItemVerdict, Verdict
from replay.model import Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How the cases of a check ended."""

    passed: int
    failed: int
    undecided: int
    threshold: float

    @property
    def rate(self) -> float | None:
        """Share of all cases that passed; None without cases."""
        total = self.passed + self.failed + self.undecided
        return self.passed / total if total else None


def tally(result: DiffResult, threshold: float) -> Tally:
    """Count the cases of a run with the lane `new` alone."""
    verdicts = [item.verdict for item in result.items]
    failed = sum(verdict in (Verdict.REGRESSED, Verdict.MIXED) for verdict in verdicts)
    undecided = verdicts.count(Verdict.INCONCLUSIVE)
    return Tally(
        passed=len(verdicts) - failed - undecided, failed=failed, undecided=undecided, threshold=threshold
    )


def word(item: ItemVerdict) -> str:
    """`pass`, `fail` or `undecided`."""
    if item.verdict is Verdict.INCONCLUSIVE:
        return "undecided"
    return "fail" if item.verdict in (Verdict.REGRESSED, Verdict.MIXED) else "pass"


def document(result: DiffResult, tally: Tally) -> dict[str, Any]:
    """What `--json` adds to the diff document under `check`."""
    return {
        "cases": len(result.items),
        "passed": tally.passed,
        "failed": tally.failed,
        "undecided": tally.undecided,
        "rate": tally.rate,
        "threshold": tally.threshold,
        "held": result.gate.held,
    }


def text(result: DiffResult, tally: Tally, width: int) -> str:
    """The table, the rate, and for each case that did not pass what was asked, expected and done."""
    from replay.terminal.plain import one_line
    from replay.terminal.table import Column, table

    names = list(result.metrics)
    columns = [Column("CASE", grows=True, least=12), *(Column(name) for name in names), Column("OVERALL")]
    rows = [
        [item.item.id, *(_figure(item, name) for name in names), word(item)]
        for item in sorted(result.items, key=lambda item: item.item.id)
    ]
    rate = "-" if tally.rate is None else f"{tally.rate:.0%}"
    counts = f"{tally.passed} passed, {tally.failed} failed, {tally.undecided} undecided"
    lines = [
        f"{result.answer.value}: {result.reason}",
        "",
        table(columns, rows, width),
        "",
        f"{rate} of {len(result.items)} cases pass ({counts}); the threshold is {tally.threshold:.0%}",
    ]
    for item in result.items:
        if word(item) != "pass":
            lines += ["", f"{word(item)}: {one_line(item.item.id, 60)}"]
            lines += [f"  {label:<12}{one_line(told, width - 14)}" for label, told in _told(item)]
    return "\n".join(lines)


def _told(item: ItemVerdict) -> Iterator[tuple[str, str]]:
    """What was asked, expected and done in a case that did not pass."""
    yield "input", item.item.input
    expected = item.item.expectation.tool_calls if item.item.expectation else None
    if expected is not None:
        yield "expected", ", ".join(_call(call.name, call.args) for call in expected) or "no call"
    for graded in item.lanes.get(Lane.NEW, ())[:1]:
        trial = graded.trial
        yield "made", ", ".join(_call(one.call.name, one.call.args) for one in trial.served) or "no call"
        if trial.reason:
            yield "status", f"{trial.status.value}: {trial.reason}"
    for name, metric in item.metrics.items():
        if metric.verdict is not Verdict.UNCHANGED:
            yield name, metric.reason


def _figure(item: ItemVerdict, name: str) -> str:
    metric = item.metrics.get(name)
    if metric is None:
        return "-"
    return "?" if metric.new is None else f"{metric.new:.2f}"


def _call(name: str, args: Any) -> str:
    from replay.tape import show_call

    return name if args is None else show_call(name, args)
