"""What a traced function was given: `{"question": "…"}`, an object of its parameters."""

from __future__ import annotations

from collections.abc import Sequence

from replaydiff.importers.spans.trace import Span
from replaydiff.replay.messages import canonical_args, read_messages, read_text
from replaydiff.replay.model import Json


def argument(value: Json) -> Json:
    """What was asked, where a function has a single parameter of any name; else the value unchanged.

    Of several parameters one that is called `question` or the like is found where texts are read.
    """
    if not isinstance(value, dict) or len(value) != 1:
        return value
    if read_messages(value) is not None or read_text(value) is not None:
        return value
    (only,) = value.values()
    return only if isinstance(only, str | list | dict) else value


def arguments(spans: Sequence[Span]) -> str:
    """All parameters of the first root as JSON, for a trace whose input cannot be told among them."""
    root = next((span for span in spans if span.parent is None), None)
    return canonical_args(root.input) if root and isinstance(root.input, dict) and root.input else ""
