"""The example of docs/extending/graders.md is run by the command, from a file and from a distribution."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from replaydiff.diff.graders.registry import BUILTIN
from tests.commands.conftest import Replay
from tests.commands.conftest import replay as replay

PAGE = (Path(__file__).parents[2] / "docs" / "extending" / "graders.md").read_text(encoding="utf-8")
AGENT = """\
def run(text, polite=True):
    calls = [{"name": "cancel_order", "args": {"order_id": "7"}}] if polite else []
    return {"final_response": "Gladly, it is cancelled." if polite else "No.", "tool_calls": calls}
"""
PROJECT = """
[agent]
entrypoint = "agent:run"
tools = []
[versions.rude]
args = { polite = false }
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(replay: Replay, tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "graders.py").write_text(blocks("python")[0])
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "golden.jsonl").write_text(blocks("json")[0])
    return tmp_path


def test_a_grader_of_ones_own_and_an_end_state(folder: Path, replay: Replay) -> None:
    aliases, grading, _ = blocks("toml")
    (folder / "replay.toml").write_text(PROJECT + grading + aliases)
    assert replay("check").code == 0
    failed = replay("check", "--new", "rude")
    assert failed.code == 1
    assert "end_state   new 0/1: cancelled should be ['7'], and is []" in failed.out
    assert "tone        new 0.50: neither rude nor polite" in failed.out
    compared = json.loads(replay("compare", "--cases", "--old", ".", "--new", "rude", "--json").out)
    assert (compared["metrics"]["tone"]["old"], compared["metrics"]["tone"]["new"]) == (1.0, 0.5)
    assert compared["metrics"]["end_state"]["regressed"] == 1


def test_one_of_a_distribution(folder: Path, replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    info = folder / "site" / "acme_graders-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "site" / "acme_graders.py").write_text(blocks("python")[0])
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-graders\nVersion: 1.0\n")
    entries = tomllib.loads(blocks("toml")[2])["project"]["entry-points"]
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in named.items())
            for group, named in entries.items()
        )
    )
    monkeypatch.syspath_prepend(str(folder / "site"))
    (folder / "replay.toml").write_text(PROJECT + '[grading]\ngraders = ["politeness"]\n')
    found = json.loads(replay("check", "--json", "--no-judge").out)
    assert found["metrics"]["politeness"]["new"] == 1.0
    (folder / "replay.toml").write_text(PROJECT + '[grading]\ngraders = ["politness"]\n')
    wrong = replay("check")
    assert wrong.code == 2
    assert "did you mean 'politeness'?" in wrong.err
    (folder / "replay.toml").write_text(PROJECT + '[grading]\nend_state = "./graders.py:state"\n')
    unknown = replay("compare", "--cases", "--old", ".", "--new", "rude")
    assert unknown.code == 2
    # Nothing was run for a grader that is not there.
    assert unknown.err.startswith("error: [grading] end_state = './graders.py:state' cannot be loaded")


def test_every_built_in_metric_is_told_of() -> None:
    assert [name for name in (*(grader.name for grader in BUILTIN), "judge") if f"`{name}`" not in PAGE] == []
