"""Text of traces as lines of a width, long ones cut with a word on how much is left out."""

from __future__ import annotations

import textwrap

from replaydiff.replay.terminal.plain import visible


def wrapped(text: str, width: int, limit: int | None = None) -> list[str]:
    """The text in lines of `width` columns, line ends kept; after `limit` lines how many more there are."""
    lines = []
    for line in visible(text).splitlines() or [""]:
        # White space at the beginning of a line is the text's own; where a line is broken it goes.
        indent = line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(
            line.strip(), max(width, 10), replace_whitespace=False, initial_indent=indent
        ) or [""]
    hidden = 0 if limit is None else max(0, len(lines) - limit)
    return lines[: len(lines) - hidden] + ([f"… {hidden} more lines"] if hidden else [])
