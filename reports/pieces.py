"""Pieces that the parts of the terminal report are made of."""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from replaydiff.diff.result import Answer, Verdict
from replaydiff.reports import numbers

ANSWER = {Answer.SHIP: "bold green", Answer.HOLD: "bold red", Answer.CANNOT_TELL: "bold yellow"}
STYLE = {
    Verdict.REGRESSED: "red",
    Verdict.MIXED: "magenta",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.IMPROVED: "green",
    Verdict.UNCHANGED: "dim",
}

_SPACE = "\u00a0"
_HELD = "\ue000"
"""Stands for a no-break space while Rich breaks lines: it takes every white space for a place to break at."""
_JOINT = re.compile(r"[^\W_]+[\W_]*|[\W_]+")


def held(text: Text) -> Text:
    """The text with its no-break spaces kept through the breaking of lines; `released` brings them back."""
    text.plain = text.plain.replace(_SPACE, _HELD)
    return text


def released(text: str) -> str:
    """What was printed, with the no-break spaces of `held` texts."""
    return text.replace(_HELD, _SPACE)


def in_lines(name: str, width: int) -> str:
    """A long name in lines of this width, broken after its joints (`_`, `:`, `.`) where it has some."""
    lines = [""]
    for part in _JOINT.findall(name):
        if lines[-1] and cell_len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def table() -> Table:
    """A table without lines."""
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)


def hanging(label: str | Text, text: Text, style: str = "", *, gap: int = 1) -> RenderableType:
    """A label, and text beside it that wraps under itself."""
    rows = Table.grid(padding=(0, gap))
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    rows.add_row(label if isinstance(label, Text) else Text(label, style=style), held(text))
    return rows


def colored(number: int, style: str) -> Text:
    """A count that is worth a look where it is not zero."""
    return Text(numbers.count(number), style=style if number else "dim")
