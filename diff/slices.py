"""Find where the change occurs: slice the items by properties known before the run.

Cut by tool path (and by stratum, where the sample was drawn by something else), category, difficulty, tag,
environment, release, model and month, and by the fields that `[diff] slice_by` names. A slice has at least
`FEWEST` items, and never all of them. p-values are those of the sign-flip test within the slice, corrected by
Holm over every slice and metric tested, so that cutting often enough finds nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replaydiff.diff.comparison import clusters_of
from replaydiff.diff.result import ItemVerdict, Slice, Verdict
from replaydiff.diff.statistics import noise, paired
from replaydiff.replay.model import Item, Json, tool_path

FEWEST = 5
"""Fewer items are not a slice: three items are an anecdote."""


def slices(
    items: Sequence[ItemVerdict], metrics: Iterable[str], fields: Sequence[str] = ()
) -> tuple[Slice, ...]:
    """Every slice on every metric, the worst first; `fields` are those of the user, as `metadata.plan`."""
    keys = {item.item.id: dict.fromkeys(_keys(item.item, fields)) for item in items}
    found: list[Slice] = []
    for metric in metrics:
        members: dict[tuple[str, str], list[ItemVerdict]] = {}
        held = [item for item in items if metric in item.metrics and item.metrics[metric].delta is not None]
        for item in held:
            for key in keys[item.item.id]:
                members.setdefault(key, []).append(item)
        found += [
            _slice(by, value, metric, group)
            for (by, value), group in members.items()
            if FEWEST <= len(group) < len(held)
        ]
    corrected = noise.holm([1.0 if part.p is None else part.p for part in found])
    found = [_with_p(part, p) for part, p in zip(found, corrected, strict=True)]
    return tuple(sorted(found, key=lambda part: (part.delta or 0.0, part.metric, part.by, part.value)))


def _keys(item: Item, fields: Sequence[str]) -> Iterable[tuple[str, str]]:
    if item.trace_id is not None and item.case_id is None:
        path = tool_path(call.name for call in item.tape)
        yield "tool_path", path
        if item.stratum not in ("-", path):
            yield "stratum", item.stratum
    known = (
        ("category", item.category),
        ("difficulty", item.difficulty),
        ("environment", item.environment),
        ("release", item.release),
        ("model", item.model),
        ("month", None if item.started_at is None else f"{item.started_at:%Y-%m}"),
    )
    yield from ((name, value) for name, value in known if value and name not in fields)
    yield from ((field, value) for field in fields if (value := _field(item, field)))
    yield from (("tag", tag) for tag in item.tags)


def _field(item: Item, name: str) -> str | None:
    """A field of the metadata at any depth, as text: `metadata.plan`, or `plan` alone."""
    value: Json = item.metadata
    for key in name.removeprefix("metadata.").split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if value is None or isinstance(value, dict | list):
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _slice(by: str, value: str, metric: str, group: Sequence[ItemVerdict]) -> Slice:
    deltas = [delta for item in group if (delta := item.metrics[metric].delta) is not None]
    clusters = clusters_of(item.item for item in group)
    grouped = paired.clusters(deltas, [clusters[item.item.id] for item in group])
    verdicts = [item.metrics[metric].verdict for item in group]
    return Slice(
        by=by,
        value=value,
        items=len(group),
        metric=metric,
        delta=grouped.mean,
        p=paired.sign_flip(grouped),
        regressed=verdicts.count(Verdict.REGRESSED),
        improved=verdicts.count(Verdict.IMPROVED),
    )


def _with_p(part: Slice, p: float) -> Slice:
    return Slice(
        by=part.by,
        value=part.value,
        items=part.items,
        metric=part.metric,
        delta=part.delta,
        p=p,
        regressed=part.regressed,
        improved=part.improved,
    )
