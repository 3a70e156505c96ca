"""Pictures, documents and audio: how a message or a result refers to bytes that are kept as a file.

Wherever base64 was recorded there is a reference to the bytes in its place, so the shape around it stays what
the agent received. A reference is plain text without quotes or line ends, and names all that is known:

    replay-media:SHA256:SIZE:MEDIA/TYPE:NAME;
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import is_dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from replaydiff.replay.model.json import Json
from replaydiff.replay.model.light import light_dataclass

MARK = "replay-media:"
"""How a reference begins."""
_DISARMED = "replay-media%3A"
"""How a text begins that looks like one and is none."""
_Value = TypeVar("_Value")
_REFERENCE = re.compile(r"replay-media:([0-9a-f]{64}):(\d{1,15}):([\w.+-]+/[\w.+-]+):([\w.~%-]*);", re.ASCII)


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """A picture, document or recording whose bytes are kept."""

    media_type: str
    """By its content where that shows it, else as it was declared."""
    sha256: str
    """The hash of the bytes, by which they are kept."""
    size: int
    """Bytes."""
    name: str = ""
    """The name of its file, if recorded."""

    @property
    def reference(self) -> str:
        """Return the text that takes the place of the bytes."""
        return f"{MARK}{self.sha256}:{self.size}:{self.media_type}:{quote(self.name, safe='')};"

    @property
    def description(self) -> str:
        """Return type, size and name, such as `image/png, 2,048 bytes, chart.png`."""
        return ", ".join(filter(None, (self.media_type, f"{self.size:,} bytes", self.name)))


def replace_references(text: str, replacement: Callable[[Media], str]) -> str:
    """Return the text with something else in the place of each reference."""
    if MARK not in text:
        return text
    return _REFERENCE.sub(lambda match: replacement(_media_of(match)), text)


def without_others(value: _Value, hashes: Collection[str]) -> _Value:
    """Return a value in which references to other media than these are plain text, its keys included.

    Anybody can write what looks like a reference: a trace or trial refers only to what came with it.
    """
    holder: Any = value
    if isinstance(holder, str):
        holder = replace_references(
            holder,
            lambda media: (
                media.reference if media.sha256 in hashes else media.reference.replace(MARK, _DISARMED, 1)
            ),
        )
    elif isinstance(holder, list):
        holder = [without_others(entry, hashes) for entry in holder]
    elif isinstance(holder, tuple):
        holder = tuple(without_others(entry, hashes) for entry in holder)
    elif isinstance(holder, dict):
        holder = {without_others(key, hashes): without_others(entry, hashes) for key, entry in holder.items()}
    elif is_dataclass(holder) and not isinstance(holder, type):
        old = {name: getattr(holder, name) for name in holder.__dataclass_fields__}
        new = {name: without_others(entry, hashes) for name, entry in old.items()}
        changed = {name: entry for name, entry in new.items() if entry != old[name]}
        holder = replace(holder, **changed) if changed else holder
    return holder  # type: ignore[no-any-return]


def described(text: str) -> str:
    """Return the text with type, size and name in the place of each reference, for a person."""
    return replace_references(text, lambda media: f"[{media.description}]")


def split_references(text: str) -> Iterator[str | Media]:
    """Yield the references in a text, as media, and the texts between them, in order."""
    end = 0
    for match in _REFERENCE.finditer(text):
        yield text[end : match.start()]
        yield _media_of(match)
        end = match.end()
    yield text[end:]


def media_in(value: Json) -> Iterator[Media]:
    """Yield the media that a value refers to, in order; one that it refers to twice comes twice."""
    if isinstance(value, str):
        if MARK in value:
            yield from map(_media_of, _REFERENCE.finditer(value))
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from media_in(entry)
    elif isinstance(value, dict):
        for entry in value.values():
            yield from media_in(entry)


def _media_of(match: re.Match[str]) -> Media:
    sha256, size, media_type, name = match.groups()
    return Media(media_type=media_type, sha256=sha256, size=int(size), name=unquote(name))
