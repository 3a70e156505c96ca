"""The golden set against one version: which cases pass.

How a case ends is told in `diff.groups`; `diff.answer` holds the share that passes against the threshold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from diff.groups import Outcome, group, outcome
from diff.result import DiffResult, Group, ItemVerdict, LaneSummary, Verdict
from replay.model import Lane

_WORDS = {
    Outcome.PASSED: "pass",
    Outcome.FAILED: "fail",
    Outcome.UNDECIDED: "undecided",
    Outcome.NOT_GRADED: "not graded",
}
_NEEDS_JUDGE = "only a judge can tell: name its model in [judge], and leave out --no-judge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How the cases of a check ended."""

    counts: Group
    threshold: float


def tally(result: DiffResult, threshold: float) -> Tally:
    """Count the cases of a run with the lane `new` alone."""
    return Tally(counts=group("all", "all", result.items), threshold=threshold)


def word(item: ItemVerdict) -> str:
    """`pass`, `fail`, `undecided` or `not graded`."""
    return _WORDS[outcome(item)]


def document(result: DiffResult, tally: Tally) -> dict[str, Any]:
    """What `--json` adds to the diff document under `check`."""
    counts = tally.counts
    return {
        "cases": counts.items,
        "passed": counts.passed,
        "failed": counts.failed,
        "undecided": counts.undecided,
        "not_graded": counts.not_graded,
        "rate": counts.rate,
        "threshold": tally.threshold,
        "held": result.gate.held,
    }


def text(result: DiffResult, tally: Tally, width: int) -> str:
    """The table, the rates, what it took, and for each case that did not pass what was asked and done."""
    from replay.terminal.plain import one_line
    from replay.terminal.table import Column, table

    names = list(result.metrics)
    columns = [Column("CASE", grows=True, least=12), *(Column(name) for name in names), Column("OVERALL")]
    rows = [
        [item.item.id, *(_figure(item, name) for name in names), word(item)]
        for item in sorted(result.items, key=lambda item: item.item.id)
    ]
    counts = tally.counts
    told = [f"{counts.passed} passed", f"{counts.failed} failed", f"{counts.undecided} undecided"]
    if counts.not_graded:
        told.append(f"{counts.not_graded} not graded, which do not count")
    lines = [f"{result.answer.value}: {result.reason}", "", table(columns, rows, width), ""]
    if result.groups:
        lines += [_groups(result.groups, width), ""]
    lines.append(
        f"{_share(counts.rate)} of {counts.items - counts.not_graded} cases pass ({', '.join(told)}); "
        f"the threshold is {tally.threshold:.0%}"
    )
    if Lane.NEW in result.lanes:
        lines.append(_summary(result.lanes[Lane.NEW]))
    for item in result.items:
        if outcome(item) is not Outcome.PASSED:
            lines += ["", f"{word(item)}: {one_line(item.item.id, 60)}"]
            lines += [f"  {label:<12}{one_line(told, width - 14)}" for label, told in _told(item)]
    return "\n".join(lines)


def _groups(groups: Sequence[Group], width: int) -> str:
    from replay.terminal.table import Column, table

    columns = [
        Column("GROUP", grows=True, least=12),
        *(Column(name, right=True) for name in ("CASES", "PASSED", "FAILED", "UNDECIDED", "RATE")),
    ]
    rows = [
        [
            f"{part.by} {part.value}",
            *(str(count) for count in (part.items, part.passed, part.failed)),
            str(part.undecided + part.not_graded),
            _share(part.rate),
        ]
        for part in groups
    ]
    return table(columns, rows, width)


def _summary(lane: LaneSummary) -> str:
    """`8 trials: 12 ms at the median, 40 ms at p95; 1,240 tokens in, 310 out; $0.0042`."""
    parts = []
    if lane.latency_p50_ms is not None and lane.latency_p95_ms is not None:
        parts.append(f"{lane.latency_p50_ms:,.0f} ms at the median, {lane.latency_p95_ms:,.0f} ms at p95")
    if lane.input_tokens is not None and lane.output_tokens is not None:
        parts.append(f"{lane.input_tokens:,} tokens in, {lane.output_tokens:,} out")
    if lane.cost_usd is not None:
        parts.append(f"${lane.cost_usd:,.4f}")
    trials = f"{lane.trials:,} trial{'' if lane.trials == 1 else 's'}"
    return f"{trials}: {'; '.join(parts)}" if parts else trials


def _share(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.0%}"


def _told(item: ItemVerdict) -> Iterator[tuple[str, str]]:
    """What was asked, expected and done in a case that did not pass."""
    yield "input", item.item.input
    expectation = item.item.expectation
    expected = expectation.tool_calls if expectation else None
    if expected is not None:
        yield "expected", ", ".join(_call(call.name, call.args) for call in expected) or "no call"
    for graded in item.lanes.get(Lane.NEW, ())[:1]:
        trial = graded.trial
        yield "made", ", ".join(_call(one.call.name, one.call.args) for one in trial.served) or "no call"
        if trial.reason:
            yield "status", f"{trial.status.value}: {trial.reason}"
    if expectation and not item.metrics and (expectation.answer is not None or expectation.response_traits):
        yield "note", _NEEDS_JUDGE
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
