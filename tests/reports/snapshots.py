"""Whole texts kept as files: `REPLAYDIFF_UPDATE_SNAPSHOTS=1 pytest tests/reports` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "snapshots"


def check(name: str, text: str) -> None:
    """The text is what the file holds."""
    file = FOLDER / name
    if os.environ.get("REPLAYDIFF_UPDATE_SNAPSHOTS"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{file} differs; read it, then update the snapshots"
