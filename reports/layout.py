"""Styles and building blocks of the report that a terminal shows."""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from replaydiff.diff.result import Answer, Verdict
from replaydiff.reports import format as fmt

ANSWER_STYLE = {Answer.SHIP: "bold green", Answer.HOLD: "bold red", Answer.CANNOT_TELL: "bold yellow"}
VERDICT_STYLE = {
    Verdict.REGRESSED: "red",
    Verdict.MIXED: "magenta",
    Verdict.CHANGED: "cyan",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.IMPROVED: "green",
    Verdict.UNCHANGED: "dim",
}


_SPACE = "\u00a0"
_JOINED_SPACE = "\ue000"
"""Replaces a no-break space while Rich breaks lines: it takes every white space for a place to break at."""
_JOINT = re.compile(r"[^\W_]+[\W_]*|[\W_]+")


def keep_spaces(text: Text) -> Text:
    """Protect the no-break spaces of a text while its lines are wrapped; `restore_spaces` undoes it."""
    text.plain = text.plain.replace(_SPACE, _JOINED_SPACE)
    return text


def restore_spaces(text: str) -> str:
    """Return the printed text, with the no-break spaces of texts from `keep_spaces`."""
    return text.replace(_JOINED_SPACE, _SPACE)


def broken_at_joints(name: str, width: int) -> str:
    """Wrap a long name at this width, after `_`, `:` or `.` if possible."""
    lines = [""]
    for part in _JOINT.findall(name):
        if lines[-1] and cell_len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def plain_table() -> Table:
    """Return an empty table without lines."""
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)


def add_figures(table: Table, *headings: str) -> None:
    """Add columns of figures, which are never broken."""
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)


def hanging(label: str | Text, text: Text, style: str = "", *, gap: int = 1) -> RenderableType:
    """Return a label, and text beside it that wraps under itself."""
    rows = Table.grid(padding=(0, gap))
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    rows.add_row(label if isinstance(label, Text) else Text(label, style=style), keep_spaces(text))
    return rows


def colored(number: int, style: str) -> Text:
    """Style a count that needs attention if it is not zero."""
    return Text(fmt.count(number), style=style if number else "dim")
