"""The example of docs/extending/reports.md, installed as a distribution and named on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaydiff.diff.result import DiffResult, Verdict
from replaydiff.reports.registry import render
from tests.commands.conftest import Replay
from tests.commands.conftest import replay as replay
from tests.reports.results import ALL
from tests.stand_ins.distributions import blocks, install

AGENT = """\
def run(text, tool="look_up"):
    return {"final_response": "fine", "tool_calls": [{"name": tool, "args": {}}]}
"""
PROJECT = '[agent]\nentrypoint = "agent:run"\ntools = []\n[versions.bad]\nargs = { tool = "cancel" }\n'
CASE = '{"id": "a", "input": "q", "expected_tool_calls": [{"name": "look_up", "args": {}}]}\n'


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [source], [project] = blocks("reports", "python"), blocks("reports", "toml")
    install(tmp_path / "site", "acme_reports", source, project)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


@pytest.mark.usefixtures("installed")
def test_the_format_of_the_page_reports_a_run(tmp_path: Path, replay: Replay) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "replay.toml").write_text(PROJECT)
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "golden.jsonl").write_text(CASE)
    assert replay("run", "--cases", "--old", ".", "--new", "bad", "--trials", "3").code == 0
    done = replay("report", "--format", "chat")
    assert done.code == 0
    first, worse = done.out.splitlines()
    assert first.startswith("*")
    assert worse.startswith("- `a` ")
    unknown = replay("report", "--format", "chatt")
    assert unknown.code == 2
    assert "did you mean 'chat'?" in unknown.err


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ALL)
def test_it_takes_every_result_there_is(name: str) -> None:
    result: DiffResult = ALL[name]()
    text = render(result, "chat")
    assert isinstance(text, str)
    worse = [item for item in result.items if item.verdict is Verdict.REGRESSED]
    assert text.count("\n- `") >= len(worse)
