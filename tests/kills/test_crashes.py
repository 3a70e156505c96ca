"""The small form of `make crashes`: a few durable operations of commands that write fail, and repeating completes them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from replaydiff.replay.files import replacing, write_whole
from tests.kills.crashes import COMMANDS, failing_everywhere, project
from tests.stand_ins.full import full

USUAL = ("dismiss", "store merge")


@pytest.mark.parametrize(
    "name", [*USUAL, *(pytest.param(name, marks=full) for name in COMMANDS if name not in USUAL)]
)
@pytest.mark.slow
def test_a_command_that_failed_is_completed_by_repeating_it(name: str, tmp_path: Path) -> None:
    result = failing_everywhere(name, project(tmp_path / "template"), tmp_path, random.Random(), 2)
    assert result.tried == min(2, 3 * result.operations)
    assert result.faults == []


def test_what_a_killed_process_left_of_a_file_is_removed(tmp_path: Path) -> None:
    dead, others = tmp_path / f".r[1].html.{2**22 + 1}.abcd_123", tmp_path / ".r1.html.1.abcd_123"
    for path in (dead, others):
        path.touch()
    with replacing(tmp_path / "r[1].html") as first:
        write_whole(tmp_path / "r[1].html", "second")
        assert first.exists()
        first.write_text("first")
    assert {path.name for path in tmp_path.iterdir()} == {"r[1].html", others.name}
    assert (tmp_path / "r[1].html").read_text() == "first"
