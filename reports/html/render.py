"""Render the HTML report: one file that opens from disk, without network, and runs only its own script.

Jinja2 escapes every text; the page's policy allows its own style and script by their hash and nothing else:
no other script, font, form or connection, and no image that is not in the file itself (`pictures`), even if a
text ever became markup. What the script draws it sets as text; the policy leaves it no other way (trusted
types). Links are http(s) alone (`transcripts.case`).
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from replaydiff.diff.result import Answer, DiffResult, ItemVerdict, Verdict
from replaydiff.replay.model import Lane, Status
from replaydiff.replay.terminal.text import single_line, visible
from replaydiff.reports import causes, phrases
from replaydiff.reports import format as fmt
from replaydiff.reports.html import plots, transcripts

_FOLDER = Path(__file__).parent
MOST_ITEMS = 5_000
"""Items that the page lists: with more it would take long to open, and be far too large to send."""
_CHOICES = 200
"""Strata and tags that a filter offers, the most frequent ones."""

TONE = {Answer.SHIP: "better", Answer.HOLD: "worse", Answer.CANNOT_TELL: "unsure"}
"""How an answer is coloured."""


def render(result: DiffResult, *, width: int, color: bool) -> str:  # noqa: ARG001
    """Return the page as one text."""
    style, script = asset("report.css"), asset("report.js")
    page = environment().get_template("report.html.j2")
    return page.render(**parts(result), policy=_policy(style, script), style=style, script=script)


def parts(result: DiffResult) -> dict[str, Any]:
    """Return the values of a result's template by name."""
    # Items are in the order of their verdicts, so those that are left out changed least.
    listed = replace(result, items=result.items[:MOST_ITEMS])
    limit, whole = transcripts.text_limit(listed), transcripts.shows_all(listed)
    return {
        "result": result,
        "check": phrases.is_check(result),
        "tone": TONE[result.answer],
        "data": embedded(transcripts.data(listed, listed.items, limit, whole=whole)),
        "about": _about(result),
        "verdicts": _verdicts(result),
        "metrics": _metrics(result),
        "scatters": [] if phrases.is_check(result) else plots.scatters(result),
        "bars": plots.bars(result),
        "ranking": _ranking(result),
        "causes": causes.shown(result),
        "causes_summary": causes.summary(result),
        "usage": phrases.usage_rows(result),
        "slices_caption": phrases.slices_caption(result),
        "lanes": _lanes(result),
        "filters": _filters(listed),
        "rows": _rows(listed),
        "left_out": _left_out(result),
        "shortened": limit < transcripts.MOST,
        "whole": whole,
    }


@cache
def environment(*folders: Path) -> Environment:
    """Return the templates of the report, after those of other folders, with the filters they share."""
    environment = Environment(
        loader=FileSystemLoader([*folders, _FOLDER / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        score=fmt.score,
        figure=fmt.figure,
        change=fmt.change,
        interval=fmt.interval,
        p=fmt.p_value,
        share=fmt.share,
        count=fmt.count,
        dollars=fmt.dollars,
        duration=fmt.duration,
        tokens=fmt.tokens,
        moment=fmt.moment,
        line=single_line,
        visible=visible,
    )
    return environment


@cache
def asset(name: str) -> str:
    """Return the text of the report's own style or script."""
    return (_FOLDER / "assets" / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def embedded(data: dict[str, Any]) -> str:
    """Return JSON that is safe inside a script element: nothing in it can end the element or begin a
    comment."""
    text = msgspec.json.encode(data).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _about(result: DiffResult) -> list[str]:
    parts = [*phrases.run_line(result), phrases.compared(result)]
    if not phrases.is_check(result):
        parts.append(phrases.NOISE_SOURCE[result.noise])
    parts.append(f"{fmt.moment(result.run.created_at)} UTC")
    if result.run.finished_at is None:
        parts.append("not finished")
    return [single_line(part) for part in parts]


def _verdicts(result: DiffResult) -> list[dict[str, Any]]:
    """Return each verdict with its number, and its stretch of the bar in percent."""
    counts = phrases.verdict_counts(result)
    total = sum(number for _, _, number in counts)
    rows, at = [], 0.0
    for verdict, name, number in counts:
        wide = 100 * number / total if total else 0.0
        rows.append(
            {"key": verdict.value, "name": name, "count": number, "x": round(at, 3), "wide": round(wide, 3)}
        )
        at += wide
    return rows


def _metrics(result: DiffResult) -> list[dict[str, Any]]:
    drawn, axes = plots.delta_plots(result.metrics)
    return [
        {
            "name": visible(name),
            "figures": metric,
            "notes": [visible(note) for note in phrases.metric_notes(name, metric, likeness=result.likeness)],
            "plot": drawn.get(name),
            "ends": axes[name].ends if name in axes else None,
        }
        for name, metric in result.metrics.items()
    ]


def _lanes(result: DiffResult) -> list[dict[str, Any]]:
    names = {Lane.OLD: "old", Lane.NEW: "new", Lane.OLD2: "old2 (the old version once more)"}
    missed = dict(phrases.unrecorded_calls(result, phrases.lanes(result)))
    return [
        {
            "name": names[lane],
            "version": visible(phrases.version_name(summary.version)),
            "facts": [
                (visible(label), visible(value)) for label, value in phrases.version_facts(summary.version)
            ],
            "statuses": [
                (visible(status), number, status != Status.OK)
                for status, number in summary.statuses.items()
                if number
            ],
            "figures": summary,
            "missed": missed.get(lane, ""),
            "served": phrases.served(summary),
        }
        for lane, summary in ((lane, result.lanes[lane]) for lane in phrases.lanes(result))
    ]


def _ranking(result: DiffResult) -> dict[str, Any] | None:
    if not result.ranking:
        return None
    candidates = [
        {
            "lane": str(candidate.lane),
            "shown": candidate.shown,
            "version": visible(phrases.version_name(candidate.summary.version)),
            "answer": candidate.answer.value,
            "tone": TONE[candidate.answer],
            "metrics": phrases.main_metrics(candidate),
            "counts": candidate.counts,
            "cost_usd": candidate.summary.cost_usd,
        }
        for candidate in result.ranking
    ]
    notes = [phrases.ranking_caption(result), *phrases.against_first(result)]
    return {"candidates": candidates, "notes": notes}


def _left_out(result: DiffResult) -> str:
    """Return how many items the page does not list, by verdict; empty where it lists all."""
    missing = Counter(phrases.verdict_name(result, item.verdict) for item in result.items[MOST_ITEMS:])
    if not missing:
        return ""
    listed = ", ".join(f"{fmt.count(number)} {name}" for name, number in missing.items())
    return f"{fmt.count(missing.total())} of {fmt.count(len(result.items))} items are left out: {listed}"


def _filters(result: DiffResult) -> dict[str, list[str]]:
    """Return the entries of the filters' lists; a row names its entries by their place."""
    strata = Counter(item.item.stratum for item in result.items)
    tags = Counter(tag for item in result.items for tag in item.item.tags)
    return {
        "metrics": list(result.metrics),
        "strata": [name for name, _ in strata.most_common(_CHOICES)] if len(strata) > 1 else [],
        "tags": [name for name, _ in tags.most_common(_CHOICES)],
    }


def _rows(result: DiffResult) -> list[dict[str, Any]]:
    filters = _filters(result)
    places = {kind: {name: index for index, name in enumerate(names)} for kind, names in filters.items()}
    return [_row(result, item, places) for item in result.items]


def _row(result: DiffResult, item: ItemVerdict, places: dict[str, dict[str, int]]) -> dict[str, Any]:
    changed = [name for name, metric in item.metrics.items() if metric.verdict is not Verdict.UNCHANGED]
    why = phrases.metric_reasons(item)
    figures = changed or list(item.metrics)
    return {
        "key": item.verdict.value,
        "name": phrases.verdict_name(result, item.verdict),
        "id": single_line(item.item.id, 200),
        "input": single_line(item.item.excerpt, 140),
        "why": single_line(why[0][1], 220) if why else "",
        "figures": [(single_line(name, 40), item.metrics[name]) for name in figures[:3]],
        "stratum": places["strata"].get(item.item.stratum, ""),
        "tags": " ".join(str(places["tags"][tag]) for tag in item.item.tags if tag in places["tags"]),
        "metrics": " ".join(str(places["metrics"][name]) for name in changed if name in places["metrics"]),
    }
