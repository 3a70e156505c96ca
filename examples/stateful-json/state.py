"""What a trial left behind: the notes in its own folder; as they were where it wrote nothing."""

import json
from pathlib import Path

BEFORE = Path(__file__).parent / "v1" / "notes.json"


def end_state(calls, files):
    return json.loads(Path(files.get("notes.json", BEFORE)).read_text())
