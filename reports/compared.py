"""What reports say of several candidates, of what trials take, and of calls that were never recorded.

Shared by all formats: texts and rows of texts, each figure written by `reports.numbers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replaydiff.diff.result import Candidate, DiffResult, RankedMetric, UsageDelta
from replaydiff.diff.slices import FEWEST
from replaydiff.replay.model import Lane
from replaydiff.replay.terminal.plain import one_line
from replaydiff.reports import numbers

_METRICS = 3
"""Metrics of a candidate that are told."""
_MISSES = 4
_LABELS = {
    "cost_usd": "cost of a trial",
    "latency_ms": "latency, mean",
    "latency_p50_ms": "latency p50",
    "latency_p95_ms": "latency p95",
    "input_tokens": "tokens in",
    "output_tokens": "tokens out",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """One figure of what trials take."""

    label: str
    values: str
    """`$0.0042 → $0.0031`."""
    change: str
    interval: str
    items: int


def usage_rows(result: DiffResult) -> list[UsageRow]:
    """Cost, latency and tokens of a trial, as far as they are known of both lanes."""
    return [_usage(name, change) for name, change in result.usage.items() if change.old or change.new]


def told_metrics(candidate: Candidate) -> list[tuple[str, RankedMetric]]:
    """The metrics that decide, else all; the first few of them."""
    deciding = [(name, metric) for name, metric in candidate.metrics.items() if metric.gated]
    return (deciding or list(candidate.metrics.items()))[:_METRICS]


def ranking_caption(result: DiffResult) -> str:
    """What the table of candidates rests on, and which of them the rest is about."""
    shown = next(candidate for candidate in result.ranking if candidate.shown)
    return (
        f"The intervals hold for all {len(result.ranking)} together with {numbers.share(result.confidence)}; "
        f"p is corrected for as many. What follows is of {shown.lane}, called new."
    )


def against_first(result: DiffResult) -> list[str]:
    """How each candidate stands to the one that ranks first, in a sentence each."""
    return [
        f"{candidate.lane} against {result.ranking[0].lane}: {one_line(name, 60)} "
        f"{numbers.change(-metric.behind)} {numbers.interval(_turned(metric.behind_ci))}"
        + ("" if apart(metric) else ", not told apart")
        for candidate in result.ranking[1:]
        for name, metric in told_metrics(candidate)[:1]
        if metric.behind is not None
    ]


def apart(metric: RankedMetric) -> bool:
    """Whether a candidate and the first differ beyond chance."""
    return metric.behind_ci is not None and not metric.behind_ci[0] <= 0 <= metric.behind_ci[1]


def slices_caption(result: DiffResult) -> str:
    """What the slices' p-values mean, and how many of them are more than chance."""
    beyond = sum(part.p is not None and part.p <= 1 - result.confidence for part in result.slices)
    found = f"{numbers.plural(beyond, 'slice')} changed beyond chance" if beyond else "none is beyond chance"
    return f"{found}; p is corrected for all {len(result.slices)}, and fewer than {FEWEST} items are no slice"


def missed(result: DiffResult, lanes: list[Lane]) -> list[tuple[Lane, str]]:
    """By lane, which calls were never recorded: `3 × get_order_status (other arguments)`."""
    told = []
    for lane in lanes:
        misses = result.lanes[lane].misses
        parts = [f"{miss.calls} × {one_line(miss.tool, 40)} ({miss.kind})" for miss in misses[:_MISSES]]
        if len(misses) > _MISSES:
            parts.append(f"{len(misses) - _MISSES} more kinds")
        if parts:
            told.append((lane, ", ".join(parts)))
    return told


def _turned(ci: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if ci is None else (-ci[1], -ci[0])


def _usage(name: str, change: UsageDelta) -> UsageRow:
    write: Callable[[float | None], str]
    if name == "cost_usd":
        write = numbers.dollars
    elif name.startswith("latency"):
        write = numbers.duration
    else:
        write = _tokens
    ends = change.ci and [_signed(end, write) for end in change.ci]
    return UsageRow(
        label=_LABELS[name],
        values=f"{write(change.old)} → {write(change.new)}",
        change=_signed(change.delta, write),
        interval=numbers.NONE if not ends else f"[{ends[0]},\u00a0{ends[1]}]",
        items=change.items,
    )


def _tokens(value: float | None) -> str:
    return numbers.tokens(None if value is None else round(value))


def _signed(value: float | None, write: Callable[[float | None], str]) -> str:
    text = write(None if value is None else abs(value))
    if value is None or not any(digit in text for digit in "123456789"):
        return text
    return ("−" if value < 0 else "+") + text
