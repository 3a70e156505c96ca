"""Records that are almost right: samples with a few odd values in odd places."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from replaydiff.importers.base import BUILTIN
from replaydiff.importers.collect import collected
from replaydiff.importers.reading import Record, records
from tests.importers.reading import SAMPLE_FILES

ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1e308,
    2**70,
    "",
    " ",
    "x",
    "{",
    '[{"role": "user"',
    '{"a": {"b": ["c"]}}',
    "{'a': 1}",
    "Human: a\nAI: b",
    "\ud800\x00",
    "2026-13-45T99:00:00Z",
    "9" * 400,
    [],
    {},
    [[]],
    [{}],
    {"": {}},
    {"type": [], "role": {}, "content": 5, "id": [{}]},
    ["user", "hi"],
    [None, 1, "x", {"type": "tool_use"}],
]


def samples() -> dict[str, list[Any]]:
    """Importer → the records of its samples."""
    found: dict[str, list[Any]] = {name: [] for name in BUILTIN}
    for sample in SAMPLE_FILES:
        with collected([str(sample)]) as (file,):
            values = [record.value for record in records(file) if isinstance(record, Record)]
        found[sample.parent.name].extend(values)
    return found


def mutated(value: Any, chance: random.Random, others: list[Any]) -> Any:
    """The value with one to four places of it replaced, doubled, left out, or taken from another record."""
    value = _copy(value)
    for _ in range(chance.randint(1, 4)):
        holders = list(_holders(value))
        if not holders:
            return chance.choice(ODD)
        holder = chance.choice(holders)
        key = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        match chance.randrange(6):
            case 0:
                del holder[key]
            case 1:
                holder[key] = [holder[key], _copy(holder[key])]
            case 2:
                other = chance.choice(list(_holders(chance.choice(others))) or [{}])
                holder[key] = _copy(other)
            case _:
                holder[key] = _copy(chance.choice(ODD))
    return value


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value


def _holders(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        if value:
            yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _holders(inner)
