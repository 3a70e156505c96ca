"""`replay`, called as a person calls it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from replaydiff.replay.cli import main


class Result(NamedTuple):
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


Replay = Callable[..., Result]


@pytest.fixture
def replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Replay:
    """Calls the command line in an empty folder, on a terminal of 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*args: str) -> Result:
        with pytest.raises(SystemExit) as ended:
            main(args)
        printed = capsys.readouterr()
        return Result(int(ended.value.code or 0), printed.out, printed.err)

    return call
