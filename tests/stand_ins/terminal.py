"""A person at a terminal: keys typed into a command that runs on a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.stand_ins.processes import PATIENCE_S, Process


def typed(folder: Path, keys: Sequence[tuple[str, str]], *words: str, **env: str) -> str:
    """Run `replay WORDS` on a terminal of 80 columns; each key is sent once its text was seen."""
    own, theirs = pty.openpty()
    variables = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "50", **env}
    process = Process(folder, "replay", words, variables, (theirs, theirs, theirs), session=True)
    os.close(theirs)
    seen, position = "", 0
    try:
        for awaited, key in keys:
            until = time.monotonic() + PATIENCE_S
            while awaited not in seen[position:]:
                assert time.monotonic() < until, f"{awaited!r} did not come; seen:\n{seen[position:]}"
                if select.select([own], [], [], 0.2)[0]:
                    seen += os.read(own, 65536).decode(errors="replace").replace("\r", "")
            position = seen.index(awaited, position) + len(awaited)
            os.write(own, key.encode())
        while True:
            try:
                more = os.read(own, 65536)
            except OSError:
                break
            if not more:
                break
            seen += more.decode(errors="replace").replace("\r", "")
    finally:
        os.close(own)
        if sys.exc_info()[0]:
            process.kill()
        process.wait()
    assert process.returncode == 0, seen
    return seen
