"""Text made fit for a terminal, tables of it, and the keys that are typed there.

What someone wrote never moves the cursor or hides a word. `visible` is for text of any length, `single_line`
for a cell or an excerpt, `encodable` for a stream that cannot show everything. Rich markup is another
danger: hand the result to `rich.text.Text`, never to `print`. `wrapped` makes lines of a width; `table`
makes plain tables: no lines, no colour, one line a row, no wider than the terminal.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import termios
import textwrap
import tty
from collections.abc import Sequence
from typing import NamedTuple

_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f"  # control characters but tab and line ends: escape sequences start here
    "\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"  # hide or reorder text
    "\U000e0000-\U000e007f"  # tags: a whole hidden alphabet
    "\ud800-\udfff]"  # lone surrogates cannot be encoded
)
_COMMAND = re.compile(r"##(?=\[|vso\[|teamcity\[)", re.IGNORECASE)
_COMMAND_LINE = re.compile(r"^(\s*)::(?=[a-z])", re.MULTILINE | re.IGNORECASE)
# The last four are what spreadsheets in East Asian settings take for the first four.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_SPACES = re.compile(r"\s+")

_PLAIN = str.maketrans(
    {
        "→": "->",
        "−": "-",
        "–": "-",
        "—": "-",
        "…": "...",
        "·": "|",
        "×": "x",
        "±": "+-",
        "≥": ">=",
        "≤": "<=",
        "▸": ">",
        "●": "*",
        "✓": "+",
        "✗": "x",
        "‘": "'",
        "’": "'",
        "“": '"',
        "”": '"',
        "\u00a0": " ",
        "\u202f": " ",
        "─": "-",
        "│": "|",
        "━": "=",
    }
)


def visible(text: str) -> str:
    r"""Return the text with every invisible character written out: `\x1b[31m`, `\u202e`.

    Line ends of every kind become `\n` (a lone carriage return would let a line overwrite itself); tabs stay.
    What a CI system would obey in its log (`::error::`, `##[x]`, `##vso[x]`) gets a backslash.
    """
    return without_log_commands(_HIDDEN.sub(_written_out, _LINE_ENDS.sub("\n", text)))


def without_log_commands(text: str) -> str:
    r"""Return the text with a backslash in what CI systems take for a command in a log: `#\#[x]`."""
    if "##" not in text and "::" not in text:
        return text
    return _COMMAND_LINE.sub(r"\1:\\:", _COMMAND.sub(r"#\\#", text))


def shown_json(text: str) -> str:
    """Return equivalent JSON text with no character that a terminal or CI log would obey."""
    return _COMMAND.sub(r"#\\u0023", _HIDDEN.sub(_escaped, text))


def spreadsheet_cell(text: str) -> str:
    """Return the text with an apostrophe before what a spreadsheet would take for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def single_line(text: str, limit: int | None = None) -> str:
    """Return visible text on one line: white space collapsed, cut to `limit` characters with an ellipsis."""
    if limit is not None:
        # A megabyte of trace text in a cell of forty characters is not worth cleaning as a whole.
        text = text[: limit * 8 + 64]
    line = _SPACES.sub(" ", visible(text)).strip()
    if limit is None or len(line) <= limit:
        return line
    return line[: max(limit - 1, 0)].rstrip() + "…"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names in one line, and how many more there are: `a, b, c and 2 more`.

    Args:
        names: of any origin.
        most: how many are shown.
    """
    shown = ", ".join(single_line(name, 40) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def encodable(text: str, encoding: str | None) -> str:
    """Return the text as this encoding can write it: ASCII replacements for our symbols, `?` for the rest."""
    name = encoding or "utf-8"
    try:
        text.encode(name)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(name, errors="replace").decode(name)
    except LookupError:
        return encodable(text, "ascii")
    return text


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escaped(match: re.Match[str]) -> str:
    pairs = match[0].encode("utf-16-be", "surrogatepass")
    # Line ends between the values of indented JSON are the document's own.
    return "".join(f"\\u{pairs[at]:02x}{pairs[at + 1]:02x}" for at in range(0, len(pairs), 2))


def wrapped(text: str, width: int, limit: int | None = None) -> list[str]:
    """Return the text in lines of `width` columns, line ends kept.

    After `limit` lines how many more there are.
    """
    lines = []
    for line in visible(text).splitlines() or [""]:
        # White space at the beginning of a line is the text's own; where a line is broken it goes.
        indent = line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(
            line.strip(), max(width, 10), replace_whitespace=False, initial_indent=indent
        ) or [""]
    hidden = 0 if limit is None else max(0, len(lines) - limit)
    return lines[: len(lines) - hidden] + ([f"… {hidden} more lines"] if hidden else [])


_GAP = 2


class Column(NamedTuple):
    """A column; `least` characters are kept for it, and one column with `grows` takes what is left."""

    title: str
    right: bool = False
    grows: bool = False
    least: int = 0
    most: int | None = None


def terminal_width() -> int:
    """Return the terminal's width, `COLUMNS` where that is set, 80 where neither is known."""
    return shutil.get_terminal_size((80, 24)).columns


def show(text: str) -> None:
    """Print to stdout, replacing what its encoding cannot write."""
    import click

    click.echo(encodable(without_log_commands(text), sys.stdout.encoding))


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> str:
    """Return the rows as text with a heading.

    Cells are shown on one line, cut to their column with an ellipsis.
    """
    from rich.cells import cell_len, set_cell_size

    cells = [[single_line(cell) for cell in row] for row in rows]
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


def discard_keys() -> None:
    """Forget what was typed before now, such as a text meant for something else while a command started."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def read_key() -> str:
    """Return the next key, in lower case; empty where the input has ended."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        first = os.read(descriptor, 1)
        # The other bytes of a character that is no ASCII.
        more = 3 if first >= b"\xf0" else 2 if first >= b"\xe0" else 1 if first >= b"\xc0" else 0
        return (first + (os.read(descriptor, more) if more else b"")).decode(errors="replace").lower()
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
