"""The demo's folder: a git repository of the agent in two revisions, with the settings of replay around it.

app/                the agent; the tags v1 and v2 differ in its prompt
replay.toml         settings, commented
cases/              golden set and the judge's rubric
traces.jsonl        what v1 did in production for two months
.replay-demo.json   marks the folder as ours
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path

from replay.errors import InputError, ReplayError

HERE = Path(__file__).parent
AGENT = HERE / "agent"
FILES = HERE / "files"
MARK = ".replay-demo.json"
_AUTHOR = ("-c", "user.name=replay demo", "-c", "user.email=demo@replay.invalid")


def write_agent(folder: Path, revision: str) -> None:
    """The agent's files as they are in a revision, `v1` or `v2`."""
    shutil.copytree(
        AGENT / "app", folder / "app", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(AGENT / f"prompt_{revision}.md", folder / "app" / "prompt.md")
