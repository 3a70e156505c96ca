"""JUnit XML, as CI systems read it (schema: junit-10.xsd of Jenkins' xUnit plugin): one test case an item.

    regressed, mixed                        failure (skipped for a case in quarantine, which decides nothing)
    inconclusive, a new trial errored       error
    inconclusive otherwise                  skipped, with the reason
    unchanged, improved                     passed

A case's time is that of its trials in the new lane. The answer is among the suite's properties and in its
output. Characters that XML cannot carry are written out (`\\x1b`).
"""

from __future__ import annotations

from enum import StrEnum
from xml.etree import ElementTree

from replaydiff.diff.expectations import is_quarantined
from replaydiff.diff.result import DiffResult, ItemVerdict, Verdict
from replaydiff.replay.model import Lane
from replaydiff.replay.terminal.text import single_line, visible
from replaydiff.reports import phrases

_TEXT = 20_000
"""Characters of a case's text: CI systems show it in a list."""


class _Outcome(StrEnum):
    PASSED = "passed"
    FAILURE = "failure"
    ERROR = "error"
    SKIPPED = "skipped"


def render(result: DiffResult, *, width: int, color: bool) -> str:  # noqa: ARG001
    """Return the suite as one XML document."""
    outcomes = [_outcome(item) for item in result.items]
    seconds = [_seconds(item) for item in result.items]
    figures = {
        "tests": str(len(outcomes)),
        "failures": str(outcomes.count(_Outcome.FAILURE)),
        "errors": str(outcomes.count(_Outcome.ERROR)),
        "time": f"{sum(seconds):.3f}",
    }
    source = result.run.sample or phrases.without_folder(result.run.golden_path or "") or result.run.id
    suite_name = f"replaydiff {single_line(source, 200)}"
    suites = ElementTree.Element("testsuites", {"name": "replaydiff", **figures})
    suite_figures = {
        "skipped": str(outcomes.count(_Outcome.SKIPPED)),
        "timestamp": result.run.created_at.replace(microsecond=0).isoformat(),
    }
    suite = ElementTree.SubElement(suites, "testsuite", {"name": suite_name, **figures, **suite_figures})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in _facts(result):
        ElementTree.SubElement(properties, "property", {"name": name, "value": _safe(value)})
    for item, outcome, time in zip(result.items, outcomes, seconds, strict=True):
        _case(suite, result, item, outcome, time)
    output = [f"{result.answer}: {result.reason}", f"next: {result.next}", *result.warnings]
    ElementTree.SubElement(suite, "system-out").text = _safe("\n".join(output))
    ElementTree.indent(suites)
    # U+FFFE and U+FFFF are characters, but not in XML, wherever they are.
    text = (
        ElementTree.tostring(suites, encoding="unicode")
        .replace("\ufffe", "\\ufffe")
        .replace("\uffff", "\\uffff")
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _facts(result: DiffResult) -> list[tuple[str, str]]:
    versions = [
        (f"version.{lane}", phrases.version_name(result.lanes[lane].version))
        for lane in phrases.lanes(result)
    ]
    return [("answer", result.answer.value), ("reason", result.reason), ("run", result.run.id), *versions]


def _case(
    suite: ElementTree.Element, result: DiffResult, item: ItemVerdict, outcome: _Outcome, time: float
) -> None:
    where = {
        "classname": f"replaydiff.{single_line(item.item.stratum, 200)}",
        "name": single_line(_name(item), 400),
    }
    case = ElementTree.SubElement(suite, "testcase", {**where, "time": f"{time:.3f}"})
    why = [f"{name}: {reason}" for name, reason in phrases.metric_reasons(item)]
    ended = [
        f"new trial {trial.index + 1} ended {trial.status}: {trial.reason or 'no reason given'}"
        for trial in phrases.failed_trials(item, Lane.NEW)
    ]
    lines = [*ended, *why] if outcome is _Outcome.ERROR else [*why, *ended]
    if outcome is not _Outcome.PASSED:
        name = phrases.verdict_name(result, item.verdict)
        message = single_line(f"{name}: {lines[0]}" if lines else name, 1000)
        node = ElementTree.SubElement(case, outcome.value, {"type": name, "message": message})
        if lines:
            node.text = _safe("\n".join(lines))
    if item.item.input:
        ElementTree.SubElement(case, "system-out").text = _safe(f"input: {item.item.input}")


def _name(item: ItemVerdict) -> str:
    """Return the id, after the input where the id is a hash."""
    return item.item.id if item.item.has_id else f"{item.item.label} [{item.item.id}]"


def _outcome(item: ItemVerdict) -> _Outcome:
    if item.verdict in (Verdict.REGRESSED, Verdict.MIXED):
        return _Outcome.SKIPPED if is_quarantined(item.item) else _Outcome.FAILURE
    if item.verdict is not Verdict.INCONCLUSIVE:
        return _Outcome.PASSED
    return _Outcome.ERROR if phrases.failed_trials(item, Lane.NEW) else _Outcome.SKIPPED


def _seconds(item: ItemVerdict) -> float:
    return sum((graded.trial.latency_ms or 0.0) for graded in item.lanes.get(Lane.NEW, ())) / 1000


def _safe(text: str) -> str:
    text = visible(text[: _TEXT + 1])
    return text if len(text) <= _TEXT else text[:_TEXT] + "…"
