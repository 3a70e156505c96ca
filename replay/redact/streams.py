"""Redaction of a model's answer that came as a stream of events.

An address may come in pieces: `jane@ex`, `ample.com`. So the pieces of one text are put together, and where
something is found in it, the first event gets the redacted text, and the others get an empty one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from replaydiff.replay.model import Json

STREAM = "text/event-stream"
_PLACES = ("index", "output_index", "content_index", "item_id")
"""Members of an event that say of which text it has a piece."""

Path = tuple[str | int, ...]


class TextRedactor(Protocol):
    """A redactor of texts; fits `Redactor`."""

    def text(self, text: str, /) -> str:
        """Return a text redacted."""
        ...

    def value(self, value: Json, /) -> Json:
        """Return a JSON value redacted."""
        ...


def redacted_stream(text: str, redactor: TextRedactor) -> str:
    """Return the events of a stream with their texts redacted, those that came in pieces too."""
    lines = text.split("\n")
    events = {number: decoded for number, line in enumerate(lines) if (decoded := _event(line)) is not None}
    pieces: dict[tuple[Any, ...], list[tuple[int, Path, str]]] = defaultdict(list)
    for number, event in events.items():
        for path, piece in _deltas(event, (), within=False):
            pieces[_text_of(event, path)].append((number, path, piece))
    for parts in pieces.values():
        whole = "".join(piece for _, _, piece in parts)
        redacted = redactor.text(whole)
        if redacted != whole:
            for index, (number, path, _) in enumerate(parts):
                _put(events[number], path, redacted if index == 0 else "")
    for number, event in events.items():
        value = redactor.value(event)
        if value != msgspec.json.decode(lines[number][5:]):
            end = "\r" if lines[number].endswith("\r") else ""
            lines[number] = f"data: {msgspec.json.encode(value).decode()}{end}"
    return "\n".join(
        line if number in events or line.startswith("data:") is False else f"data:{redactor.text(line[5:])}"
        for number, line in enumerate(lines)
    )


def _event(line: str) -> Any:
    """Return the JSON of a line of data; None for any other line."""
    if not line.startswith("data:"):
        return None
    try:
        event = msgspec.json.decode(line[5:])
    except (msgspec.DecodeError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _deltas(value: Any, path: Path, *, within: bool) -> Iterator[tuple[Path, str]]:
    """Yield the texts below a member `delta`, with their places."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _deltas(inner, (*path, key), within=within or key == "delta")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _deltas(inner, (*path, index), within=within)
    elif within and isinstance(value, str) and path[-1] not in ("type", "role", "id", "stop_reason"):
        yield path, value


def _text_of(event: dict[str, Any], path: Path) -> tuple[Any, ...]:
    """Return the key that pieces of the same text share."""
    places: list[Any] = [event.get("type"), *(str(event.get(name)) for name in _PLACES)]
    holder: Any = event
    for step in path[:-1]:
        holder = holder[step]
        if isinstance(holder, dict):
            places += [str(holder.get(name)) for name in _PLACES]
    return (*places, *(step for step in path if isinstance(step, str)))


def _put(value: Any, path: Path, text: str) -> None:
    for step in path[:-1]:
        value = value[step]
    value[path[-1]] = text
