"""The assistant's tools, on JSON files in its own folder."""

import json
from pathlib import Path

NOTES = Path("notes.json")


def list_notes() -> list[str]:
    """All notes."""
    return json.loads(NOTES.read_text())


def add_note(text: str) -> str:
    """Write a note down, unless it is there."""
    notes = list_notes()
    if text not in notes:
        NOTES.write_text(json.dumps([*notes, text]))
    return "ok"


def delete_note(text: str) -> str:
    """Delete a note."""
    NOTES.write_text(json.dumps([note for note in list_notes() if note != text]))
    return "ok"
