"""Evaluate the gate, which decides a command's exit code.

`default` lets the answer decide: SHIP holds, HOLD does not, CAN'T TELL is undecided. Otherwise each condition
is `FIGURE OP NUMBER` with OP one of <= >= < > == !=, and FIGURE one of

    regressed improved mixed changed unchanged inconclusive total compared     items by verdict
    errors                                                             trials that ended in an error
    METRIC.old .new .delta .se .p .p_any .mde .noise .n .sample_delta         a metric over the run
    METRIC.ci_low .ci_high .bounds_low .bounds_high
    METRIC.improved .regressed .unchanged .inconclusive .changed .changed_share
    fidelity.LANE cost.LANE latency_p50.LANE latency_p95.LANE          a lane (old, new, old2); USD and ms

A condition on a figure that is not known is undecided. All conditions must hold: one that does not outweighs
one that is undecided.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from replaydiff.diff.result import Answer, Counts, Gate, GateCondition, LaneSummary, MetricDelta
from replaydiff.replay.errors import ExitCode, SettingsError, UnknownNameError
from replaydiff.replay.model import Lane

DEFAULT = "default"

_FORM = re.compile(
    r"\s*(?P<figure>[^<>=!\s][^<>=!]*?)\s*(?P<op><=|>=|==|!=|<|>)\s*(?P<number>[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?)\s*"
)
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}
_TIE = 1e-9
_COUNTS = ("regressed", "improved", "mixed", "changed", "unchanged", "inconclusive", "total", "compared")
_PLAIN = (
    "old",
    "new",
    "delta",
    "se",
    "p",
    "p_any",
    "mde",
    "noise",
    "n",
    "sample_delta",
    "improved",
    "regressed",
    "unchanged",
    "inconclusive",
    "changed",
    "changed_share",
)
_PAIRS = {
    "ci_low": ("ci", 0),
    "ci_high": ("ci", 1),
    "bounds_low": ("bounds", 0),
    "bounds_high": ("bounds", 1),
}
_LANE_FIGURES = {
    "fidelity": "fidelity",
    "cost": "cost_usd",
    "latency_p50": "latency_p50_ms",
    "latency_p95": "latency_p95_ms",
}


def evaluate(
    expressions: Sequence[str] | None,
    *,
    answer: Answer,
    counts: Counts,
    errors: int,
    metrics: dict[str, MetricDelta],
    lanes: dict[Lane, LaneSummary],
) -> Gate:
    """Evaluate the conditions of a gate; without any the gate was not requested.

    Raises:
        SettingsError: an expression that is no condition.
        UnknownNameError: a figure that does not exist; names the nearest.
    """
    if not expressions:
        return Gate()
    figures = _figures(counts, errors, metrics, lanes)
    conditions = [
        GateCondition(expression=DEFAULT, value=None, is_met=_BY_ANSWER[answer])
        if expression.strip() == DEFAULT
        else _condition(expression, figures)
        for expression in expressions
    ]
    states = {condition.is_met for condition in conditions}
    is_met = False if False in states else None if None in states else True
    return Gate(conditions=tuple(conditions), requested=True, is_met=is_met)


def exit_code(gate: Gate) -> ExitCode:
    """Return the exit code of a command by its gate."""
    if not gate.conditions or gate.is_met:
        return ExitCode.OK
    return ExitCode.CANNOT_TELL if gate.is_met is None else ExitCode.GATE_FAILED


_BY_ANSWER: dict[Answer, bool | None] = {Answer.SHIP: True, Answer.HOLD: False, Answer.CANNOT_TELL: None}


def check_form(expressions: Sequence[str]) -> None:
    """Refuse, before anything is spent, what can be no condition in any run, and what none can hold.

    Raises:
        SettingsError: an expression that is no condition, or conditions that contradict each other.
    """
    by_figure: dict[str, list[tuple[str, str, float]]] = {}
    for expression in expressions:
        if expression.strip() != DEFAULT:
            figure, op, number = _parse(expression)
            by_figure.setdefault(figure, []).append((expression.strip(), op, number))
    for figure, conditions in by_figure.items():
        values = _candidates(figure, [number for *_, number in conditions])
        if not any(all(_OPERATORS[op](value, number) for _, op, number in conditions) for value in values):
            texts = " and ".join(f"--gate {expression!r}" for expression, *_ in conditions)
            why = " contradict each other: " if len(conditions) > 1 else ": "
            raise SettingsError(f"{texts}{why}no run can hold that; correct the numbers or leave one out")


def _candidates(figure: str, numbers: Sequence[float]) -> list[float]:
    """Return values of a figure that meet its conditions if any value does: the numbers, and between them."""
    ordered = sorted(numbers)
    values = [*ordered, ordered[0] - 1, ordered[-1] + 1]
    values += [(low + high) / 2 for low, high in pairwise(ordered)]
    if figure in _COUNTS or figure == "errors":
        # Whole numbers, none below 0.
        near = {math.floor(value) + step for value in values for step in (-1, 0, 1, 2)}
        return [float(value) for value in near if value >= 0]
    return [value for value in values if value >= 0 or figure.partition(".")[0] not in _LANE_FIGURES]


def _parse(expression: str) -> tuple[str, str, float]:
    form = _FORM.fullmatch(expression)
    if form is None:
        raise SettingsError(
            f"--gate {expression!r} is not a condition; write `default`, or a figure, a comparison and a "
            "number, as in 'regressed<=2' or 'judge.delta>=-0.05'"
        )
    return form["figure"], form["op"], float(form["number"])


def _condition(expression: str, figures: dict[str, float | None]) -> GateCondition:
    name, op, number = _parse(expression)
    if name not in figures:
        raise UnknownNameError("figure", name, figures, where=f"--gate {expression!r}")
    value = figures[name]
    if value is None:
        return GateCondition(expression=expression.strip(), value=None, is_met=None)
    if abs(value - number) <= _TIE:
        value = number  # 0.8500000000000001 is 0.85 to the person who wrote the condition
    return GateCondition(expression=expression.strip(), value=value, is_met=_OPERATORS[op](value, number))


def _figures(
    counts: Counts, errors: int, metrics: dict[str, MetricDelta], lanes: dict[Lane, LaneSummary]
) -> dict[str, float | None]:
    """Return every figure a condition may name, with its value."""
    figures: dict[str, float | None] = {name: float(getattr(counts, name)) for name in _COUNTS}
    figures["errors"] = float(errors)
    for name, metric in metrics.items():
        for field in _PLAIN:
            figures[f"{name}.{field}"] = getattr(metric, field)
        for alias, (field, end) in _PAIRS.items():
            pair = getattr(metric, field)
            figures[f"{name}.{alias}"] = None if pair is None else pair[end]
    for lane, summary in lanes.items():
        for alias, field in _LANE_FIGURES.items():
            figures[f"{alias}.{lane}"] = getattr(summary, field)
    return figures
