"""Plain tables for lists: no lines, no colour, one line a row, no wider than the terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import NamedTuple

from replaydiff.replay.terminal.plain import encodable, one_line

_GAP = 2


class Column(NamedTuple):
    """A column; `least` characters are kept for it, and one column with `grows` takes what is left."""

    title: str
    right: bool = False
    grows: bool = False
    least: int = 0
    most: int | None = None


def terminal_width() -> int:
    """The terminal's width, `COLUMNS` where that is set, 80 where neither is known."""
    return shutil.get_terminal_size((80, 24)).columns


def show(text: str) -> None:
    """Print to stdout, with stand-ins for what its encoding cannot write."""
    import click

    click.echo(encodable(text, sys.stdout.encoding))


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> str:
    """The rows as text with a heading; cells are shown on one line, cut to their column with an ellipsis."""
    from rich.cells import cell_len, set_cell_size

    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = []
    for number, column in enumerate(columns):
        longest = max([cell_len(column.title), column.least, *(cell_len(row[number]) for row in cells)])
        widths.append(min(longest, column.most) if column.most else longest)
    room = width - _GAP * (len(columns) - 1)
    for number, column in enumerate(columns):
        if column.grows:
            others = sum(widths) - widths[number]
            widths[number] = max(column.least, min(widths[number], room - others))

    def line(texts: Sequence[str]) -> str:
        parts = []
        for text, column, size in zip(texts, columns, widths, strict=True):
            cut = text if cell_len(text) <= size else set_cell_size(text, max(size - 1, 0)).rstrip() + "…"
            padding = " " * (size - cell_len(cut))
            parts.append(padding + cut if column.right else cut + padding)
        return (" " * _GAP).join(parts).rstrip()

    return "\n".join([line([column.title for column in columns]), *(line(row) for row in cells)])
