"""How many keys it takes to go through the demo's 50 items: what docs/triage.md says.

pytest -s tests/demo/test_keystrokes.py    # prints the keys
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.demo.run import DemoRun
from tests.docs.test_commands_in_docs import ROOT, environment
from tests.stand_ins.full import full
from tests.stand_ins.processes import PATIENCE_S

# It waits half a second before each key. What the keys do is in tests/cases/test_triage.py.
pytestmark = [full, pytest.mark.slow, pytest.mark.xdist_group("demo")]

ENTRY = "[p]romote"
PROMPTS = {
    "[a]ccept: intended": "r",
    "[y]es  [n]o": "y",
    ENTRY: "s",
    "expect the tool calls of": "\r",
    "what must the response show": "\r",
    "add it all the same?": "\r",
    "nothing was added": "s",
}
"""A prompt, and the key that is pressed there; an entry that is worth a case is promoted."""
QUIET_S = 0.5
"""A prompt waits for a key once nothing more is printed for so long."""
WORTH_A_CASE = ("regressed", "not finished")


def reviewed(folder: Path) -> list[str]:
    """Go through the latest run of a folder in a terminal; return the keys that were pressed."""
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        ["replay", "triage"],
        cwd=folder,
        env=environment(TERM="xterm", LINES="60"),
        stdin=end,
        stdout=end,
        stderr=end,
        start_new_session=True,
    )
    os.close(end)
    keys: list[str] = []
    shown, deadline = "", time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], QUIET_S)[0]:
            try:
                shown += os.read(terminal, 65536).decode(errors="replace")
            except OSError:
                # The process has ended.
                break
            continue
        at, prompt = max((shown.rfind(prompt), prompt) for prompt in PROMPTS)
        if at < 0:
            continue
        key = PROMPTS[prompt]
        if prompt == ENTRY:
            [*_, kind] = re.findall(r"\d+ of \d+ (not finished|\w+)", shown)
            key = "p" if kind in WORTH_A_CASE else "s"
        keys.append(key)
        os.write(terminal, key.encode())
        shown = ""
    assert process.wait(PATIENCE_S) == 0, shown
    os.close(terminal)
    return keys


def test_the_demo_is_reviewed_with_as_many_keys_as_the_page_says(demo_run: DemoRun, tmp_path: Path) -> None:
    folder = tmp_path / "replay-demo"
    shutil.copytree(demo_run.untouched, folder, symlinks=True)
    keys = reviewed(folder)
    print(len(keys), "keys:", " ".join("Enter" if key == "\r" else key for key in keys))
    said = re.search(r"takes (\d+) keystrokes", (ROOT / "docs" / "triage.md").read_text())
    assert said is not None
    # Which trial of the demo's model errs is left to chance, and with it the number of entries.
    assert abs(len(keys) - int(said[1])) <= 9
    # A rejected cause asks whether its examples become cases.
    assert keys.count("r") == keys.count("y") >= 3
