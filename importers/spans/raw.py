"""A span as it was recorded, whatever file or server it came from: flat attributes, times, parent.

Attributes are looked up by dotted names. What an instrumentor nests, some exporters flatten
(`llm.input_messages.0.message.role`) and others keep (`{"llm.input_messages": [{…}]}`): `nested` gives the
same value for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from replaydiff.replay.model import Json, JsonObject

REDACTED = "__REDACTED__"
"""What OpenInference writes in place of a masked value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened within a span; or a log record that belongs to it."""

    name: str
    attributes: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSpan:
    """One span."""

    id: str
    parent: str | None
    name: str
    started_at: datetime
    ended_at: datetime | None
    scope: str = ""
    """Name of the instrumentation that wrote it."""
    failed: bool = False
    message: str | None = None
    """The status message: of an error, why."""
    attributes: JsonObject = field(default_factory=dict)
    resource: JsonObject = field(default_factory=dict)
    """Attributes of the process that ran it."""
    events: tuple[Event, ...] = ()

    def first(self, *names: str) -> Any:
        """The first of these attributes that says something."""
        held = self.attributes
        return next((value for name in names if name in held and says(value := held[name])), None)

    def nested(self, name: str) -> Json:
        """The attribute of this name, put together where it was flattened; None where there is none."""
        value = self.attributes.get(name)
        return value if says(value) else nested(self.attributes, name)


def says(value: Json) -> bool:
    """Whether a value was recorded, and not masked."""
    return value is not None and value != "" and value != REDACTED


def nested(attributes: Mapping[str, Any], name: str) -> Json:
    """What stands under `name.…`, put together; None where nothing does.

    Numbers in names are places in a list: in numeric order, and with the gaps that filtered messages leave.
    """
    prefix = name + "."
    names = [key for key in attributes if key.startswith(prefix)]
    if not names:
        return None
    tree: dict[str, Any] = {}
    # Sorted, since a server gives the same attributes in another order each time.
    for key in sorted(names):
        value = attributes[key]
        if not says(value):
            continue
        *path, last = key[len(prefix) :].split(".")
        branch = tree
        for part in path:
            inner = branch.setdefault(part, {})
            if not isinstance(inner, dict):
                inner = branch[part] = {}
            branch = inner
        branch[last] = value
    return _lists(tree) if tree else None


def _lists(tree: Json) -> Json:
    if not isinstance(tree, dict):
        return tree
    if tree and all(key.isdecimal() and key.isascii() and len(key) < 10 for key in tree):
        return [_lists(tree[key]) for key in sorted(tree, key=int)]
    return {key: _lists(value) for key, value in tree.items()}


def flat(value: Json, name: str = "") -> JsonObject:
    """Dotted names for what is nested; lists of plain values stay, nulls go.

    Data frames hold `[{"message.role": …}]` in one column, with each key of each row as null.
    """
    found: JsonObject = {}
    _flatten(value, name, found)
    return found


def _flatten(value: Json, name: str, found: JsonObject) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten(inner, f"{name}.{key}" if name else str(key), found)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for index, item in enumerate(value):
            _flatten(item, f"{name}.{index}", found)
    elif value is not None:
        found[name] = value
