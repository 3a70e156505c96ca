"""The cases as CSV, one row each, for a spreadsheet or a notebook: verdict, and each metric's figures.

Scores are plain numbers; what is not known is an empty cell. A cell that a spreadsheet would take for a
formula gets an apostrophe before it. (`replay export grades` has every single trial, also as Parquet.)
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from diff.result import DiffResult, ItemVerdict
from replay.terminal.plain import visible

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_PLAIN = ("id", "trace_id", "stratum", "weight", "tags", "category", "difficulty", "verdict")
_OF_METRIC = ("old", "new", "delta", "verdict", "reason")


def render(result: DiffResult, *, width: int, color: bool) -> str:  # noqa: ARG001
    """A header, then the cases in the order of every report: regressed first."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = list(result.metrics)
    writer.writerow([*_PLAIN, *(_text(f"{name}.{part}") for name in names for part in _OF_METRIC), "input"])
    for item in result.items:
        writer.writerow(list(_row(item, names)))
    return out.getvalue()


def _row(found: ItemVerdict, names: list[str]) -> Iterator[str | float | None]:
    item = found.item
    yield from map(_text, (item.id, item.trace_id, item.stratum))
    yield item.weight
    yield from map(_text, (", ".join(item.tags), item.category, item.difficulty, str(found.verdict)))
    for name in names:
        metric = found.metrics.get(name)
        if metric is None:
            yield from (None,) * len(_OF_METRIC)
        else:
            yield from (metric.old, metric.new, metric.delta, str(metric.verdict), _text(metric.reason))
    yield _text(item.input)


def _text(text: str | None) -> str | None:
    if text is None:
        return None
    plain = visible(text)
    return f"'{plain}" if plain.startswith(_FORMULA) else plain
