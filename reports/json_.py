"""The published document `replaydiff.diff/1`, as `replay diff --json` prints it."""

from __future__ import annotations

import json

from replaydiff.diff.document import to_json
from replaydiff.diff.result import DiffResult
from replaydiff.replay.store.text import clean


def render(result: DiffResult, *, width: int, color: bool) -> str:  # noqa: ARG001
    """The document, one line break a value; text that UTF-8 cannot carry is replaced."""
    return (
        json.dumps(clean(to_json(result)), ensure_ascii=False, indent=1, allow_nan=False, default=str) + "\n"
    )
