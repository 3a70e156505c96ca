"""A person's own sheet of labels for a run: drawn once, filled a row at a time, blind to what the judge said.

The terminal and the local page fill the same file, `.replay/labels/RUN.PERSON.jsonl` beside replay.toml, so
a person goes on in either where they stopped. It holds text of traces, and so stays out of version control;
what is made of it, the calibration, belongs there. Sheets of several people have the same rows: the draw
depends on run, size and seed alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from replaydiff.diff.judge import sheet
from replaydiff.replay.errors import InputError
from replaydiff.replay.files import replacing
from replaydiff.replay.settings import Settings

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SIZE = 50
"""Rows of a sheet unless more are asked for: what a gate wants at the least."""
FOLDER = Path(".replay", "labels")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One response to label, as the judge saw it."""

    key: str
    conversation: str
    tool_calls: str
    response: str
    expected: str
    label: int | None
    """1 poor, 2 fair, 3 good; None: not labelled yet."""
    note: str


def own_sheet(settings: Settings, run_id: str, person: str) -> Path:
    """Where this person (`Ada <ada@…>` is Ada) keeps labels of a run; no name leads out of the folder."""
    name = _plain(person.partition("<")[0]) or _plain(person) or "someone"
    return settings.root / FOLDER / f"{_plain(run_id)}.{name}.jsonl"


def sheets_of(settings: Settings, run_id: str) -> list[Path]:
    """The sheets of everyone who labels a run here, by name."""
    return sorted((settings.root / FOLDER).glob(f"{_plain(run_id)}.*.jsonl"))


def draw_blind(
    con: DuckDBPyConnection, settings: Settings, run_id: str, *, size: int = SIZE, seed: int = 0
) -> list[sheet.Judged]:
    """Draw the rows of a sheet of a run; see `sheet.draw`. Nothing is written.

    Raises:
        InputError: the judge gave no response of the run a score.
    """
    from replaydiff.diff.compute import compute

    found = sheet.judged(compute(con, run_id, settings))
    if not found:
        raise InputError(
            f"run {run_id} has no response with a score of the judge; name a model in [judge], then "
            f"`replay run --resume {run_id}`"
        )
    return sheet.draw(found, size, seed)


def begin(path: Path, drawn: Sequence[sheet.Judged]) -> None:
    """Write a new sheet, whole.

    Raises:
        InputError: it is there already, and may hold labels; or cannot be written.
    """
    if path.exists():
        raise InputError(f"{path} is there already, and may hold labels; name another file")
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, sheet.sheet_text(drawn, lines=path.suffix == ".jsonl"))


def read(path: Path) -> list[Row]:
    """The rows of a sheet, in their order.

    Raises:
        InputError: it cannot be read, is no such sheet, or has a label that is none.
    """
    labels = sheet.read_sheet(path)
    return [
        Row(
            key=str(row["key"]),
            label=labels.get(str(row["key"])),
            **{name: str(row.get(name) or "") for name in sheet.COLUMNS if name not in ("key", "label")},
        )
        for _, row in sheet.rows(path)
    ]


def keep(path: Path, key: str, label: int | None, note: str = "") -> None:
    """Put a label (None: none) and a note in the row of this key; the file is there whole at any moment.

    Raises:
        InputError: it cannot be read or written, or has no such row.
    """
    _write(path, sheet.relabelled(path, key, label, note))


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write_bytes(text.encode("utf-8", errors="replace"))


def _plain(name: str) -> str:
    return re.sub(r"[^\w-]+", "-", name).strip("-")[:80]
