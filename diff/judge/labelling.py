"""Labelling at a terminal: one response at a time, one key for each label, kept at once, and blind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from replaydiff.diff.judge import labels
from replaydiff.diff.judge.labels import LabelRow
from replaydiff.diff.judge.prompt import POINTS
from replaydiff.replay.terminal.text import read_key, show, single_line, terminal_width, wrapped

KEYS = "[1] poor [2] fair [3] good  [s]kip [n]ote [f]ull [u]ndo [q]uit"
FOLDED = 10
"""Lines of one text that are shown unless everything is asked for."""
_MARGIN = 10


class LabellingSession:
    """A person going through a sheet; `run` ends with the last row or with q."""

    def __init__(self, path: Path, rubric: str | None = None) -> None:
        """Label the sheet at `path`, which is written at every label.

        `rubric` names the file to label by; None: the built-in one.
        """
        self._path = path
        self._by = f"the rubric {rubric}" if rubric else "the built-in rubric"
        self._rows = labels.read(path)
        self._waiting = [index for index, row in enumerate(self._rows) if row.label is None]
        self._labelled: list[int] = []
        """Places of the rows that were labelled here, in that order: where undo goes back to."""
        self._full = False
        self._note = ""

    def run(self) -> int:
        """Show a row, take a key, until there is none left; how many rows have no label then."""
        self._show()
        while self._waiting:
            key = read_key()
            if key in ("", "q", "\x04"):
                break
            self._press(key)
        return len(self._waiting)

    def _press(self, key: str) -> None:
        if key in {str(point) for point in POINTS}:
            self._label(int(key))
        elif key == "s":
            self._waiting.append(self._waiting.pop(0))
            self._turn()
        elif key == "n":
            self._note = click.prompt("note (Enter: none)", default="", show_default=False).strip()
            click.echo("it is kept with the label")
        elif key == "f":
            self._full = not self._full
            self._show()
        elif key == "u":
            self._undo()

    def _label(self, label: int) -> None:
        index = self._waiting[0]
        row = self._rows[index]
        labels.set_label(self._path, row.key, label, self._note or row.note)
        self._labelled.append(self._waiting.pop(0))
        self._turn()

    def _undo(self) -> None:
        if not self._labelled:
            click.echo("there is nothing to undo")
            return
        index = self._labelled.pop()
        labels.set_label(self._path, self._rows[index].key, None, self._rows[index].note)
        self._waiting.insert(0, index)
        self._turn()

    def _turn(self) -> None:
        self._full, self._note = False, ""
        self._show()

    def _show(self) -> None:
        if not self._waiting:
            return
        click.clear()
        labelled = len(self._rows) - len(self._waiting)
        head = f"{labelled} of {len(self._rows)} labelled, by {self._by}"
        show("\n".join(page(self._rows[self._waiting[0]], head, full=self._full)))
        click.echo()
        click.echo(KEYS)


def page(row: LabelRow, head: str, *, full: bool = False) -> Iterator[str]:
    """Yield the lines of one response: conversation, calls, answer, what was expected, and no score."""
    width = terminal_width()
    yield single_line(head, width)
    parts = {
        "asked": row.conversation,
        "calls": row.tool_calls,
        "response": row.response,
        "expected": row.expected,
        "note": row.note,
    }
    for name, text in parts.items():
        if not text:
            continue
        yield ""
        for index, line in enumerate(wrapped(text, width - _MARGIN, None if full else FOLDED)):
            yield f"{'' if index else name:<{_MARGIN}}{line}".rstrip()
