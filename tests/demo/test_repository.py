"""The demo's folder: a real repository, made once, and nobody else's folder touched."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from replaydiff.replay import settings
from replaydiff.replay.demo import repository
from replaydiff.replay.demo.repository import DemoJudge
from replaydiff.replay.errors import InputError, ReplayError
from tests.stand_ins.full import full

JUDGE = DemoJudge(model="claude-opus-5-5", votes=3)


def _make(folder: Path, *, live: bool = False, port: int = 4321) -> bool:
    return repository.prepare(folder, live=live, port=port, judge=JUDGE)


def _git(folder: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_two_revisions_that_differ_in_the_prompt_and_its_notes(tmp_path: Path) -> None:
    assert _make(tmp_path / "d")
    folder = tmp_path / "d"
    assert _git(folder, "tag").split() == ["v1", "v2"]
    assert _git(folder, "diff", "--name-only", "v1", "v2").split() == ["NOTES.md", "app/prompt.md"]
    assert _git(folder, "rev-list", "--count", "v1..v2") == "12"
    # The last step changes the notes alone: the steps together are the second prompt.
    assert _git(folder, "diff", "--name-only", "v2~", "v2") == "NOTES.md"
    assert _git(folder, "status", "--porcelain") == ""
    assert "without the customer's explicit confirmation" in (folder / "app/prompt.md").read_text()


def test_settings_send_agents_and_judge_to_the_stand_in(tmp_path: Path) -> None:
    _make(tmp_path)
    found = settings.load(tmp_path, {})
    assert found.agent.env["ANTHROPIC_BASE_URL"] == found.judge.base_url == "http://127.0.0.1:4321"
    assert found.agent.env["ANTHROPIC_API_KEY"] == "stand-in"
    assert found.tools["cancel_order"].effect == "write"
    assert (tmp_path / (found.judge.rubric or "")).is_file()
    assert repository.port_of(tmp_path) == 4321


def test_settings_of_the_live_demo_name_no_stand_in(tmp_path: Path) -> None:
    _make(tmp_path, live=True)
    found = settings.load(tmp_path, {})
    assert (found.agent.env, found.judge.base_url, found.prices) == ({}, None, {})
    assert "stand-in" not in (tmp_path / "replay.toml").read_text()
    with pytest.raises(InputError, match="has no stand-in address"):
        repository.port_of(tmp_path)


def test_a_demo_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    _make(tmp_path)
    (tmp_path / "cases" / "golden.jsonl").write_text("")
    head = _git(tmp_path, "rev-parse", "HEAD")
    assert not _make(tmp_path, port=9999)
    assert (tmp_path / "cases" / "golden.jsonl").read_text() == ""
    assert _git(tmp_path, "rev-parse", "HEAD") == head
    assert repository.port_of(tmp_path) == 4321


def test_a_demo_that_was_interrupted_while_it_was_made_is_made_anew(tmp_path: Path) -> None:
    _make(tmp_path)
    mark = tmp_path / repository.MARK
    mark.write_text(mark.read_text().replace('"complete": true', '"complete": false'))
    (tmp_path / "traces.jsonl").unlink()
    assert _make(tmp_path)
    assert (tmp_path / "traces.jsonl").is_file()
    assert _git(tmp_path, "tag").split() == ["v1", "v2"]


def test_another_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty and was not made by `replay demo`"):
        _make(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(InputError, match="is a file"):
        _make(tmp_path / "mine.txt")


@pytest.mark.parametrize("first", [True, False])
def test_a_live_demo_and_one_with_the_stand_in_are_never_mixed(tmp_path: Path, first: bool) -> None:
    _make(tmp_path, live=first)
    with pytest.raises(InputError, match=f"uses the {'real API' if first else 'stand-in'}"):
        _make(tmp_path, live=not first)


def test_neither_the_persons_git_settings_nor_a_hooks_environment_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("[commit]\n\tgpgSign = true\n[core]\n\thooksPath = /nowhere\n[bad")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    _make(tmp_path / "d")
    assert not (tmp_path / "elsewhere").exists()
    assert (tmp_path / "d" / ".git").is_dir()


def test_without_git_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ReplayError, match="git is not installed"):
        _make(tmp_path / "d")


@full
def test_the_bundled_traces_are_what_the_generator_makes(tmp_path: Path) -> None:
    """Agent, stand-in and recordings belong together: after a change of one the generator must be run."""
    environment = {**os.environ, "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.demo.make_traces", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    made = gzip.decompress((tmp_path / "traces.jsonl.gz").read_bytes())
    assert made == gzip.decompress(repository.TRACES.read_bytes())
    assert (tmp_path / "orders.json").read_bytes() == (repository.AGENT / "app/orders.json").read_bytes()


def test_the_bundled_traces_cover_two_months_and_every_kind() -> None:
    records = [json.loads(line) for line in gzip.decompress(repository.TRACES.read_bytes()).splitlines()]
    assert len(records) >= 300
    assert {record["started_at"][:7] for record in records} == {"2026-09", "2026-10"}
    assert {"-".join(call["name"] for call in record["tool_calls"]) for record in records} >= {
        "",
        "get_order_status",
        "get_order_status-cancel_order",
        "get_order_status-get_order_status",
    }
    assert len({record["trace_id"] for record in records}) == len(records)


def test_the_golden_sets_tapes_are_the_shops_orders() -> None:
    orders = json.loads((repository.AGENT / "app" / "orders.json").read_text())
    lines = (repository.FILES / "cases" / "golden.jsonl").read_text().splitlines()
    cases = [json.loads(line) for line in lines]
    assert [case["id"] for case in cases] == sorted(case["id"] for case in cases)
    for case in cases:
        for call in case.get("tape", []):
            result = json.loads(call["result"])
            if call["name"] == "get_order_status":
                assert orders[result.pop("order_id")] == result
        for number in re.findall(r"\d{5}", case["input"]):
            assert number in orders
