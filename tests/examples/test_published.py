"""The four published kinds of system: their pages are run, and each one's file is checked and compared."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import Replay
from tests.examples.test_agents import EXAMPLES, commands

Example = Callable[[str], list[int]]


@pytest.fixture
def page(replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Example:
    """Runs the commands of an example's page, in a copy of it that stays the current folder."""

    def run(name: str) -> list[int]:
        folder = tmp_path / name
        shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__", ".replay"))
        monkeypatch.chdir(folder)
        return [replay(*command).code for command in commands(folder / "README.md")]

    return run


def document(replay: Replay, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(replay(*words, "--json").out)
    return found


def verdicts(found: dict[str, Any]) -> dict[str, list[str]]:
    """Verdict → ids of its cases, without those that nothing changed."""
    by_verdict: dict[str, list[str]] = {}
    for case in found["cases"]:
        if case["verdict"] != "unchanged":
            by_verdict.setdefault(case["verdict"], []).append(case["id"])
    return by_verdict


def groups(found: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {group["value"]: (group["passed"], group["items"]) for group in found["groups"]}


def test_the_support_agent(page: Example, replay: Replay) -> None:
    assert page("support") == [0, 0, 0]
    found = document(replay, "check", "--new", "v1")
    assert (found["check"]["passed"], found["check"]["cases"], found["check"]["threshold"]) == (7, 8, 0.8)
    assert groups(found) == {"easy": (3, 3), "medium": (3, 3), "hard": (1, 2)}
    assert found["lanes"]["new"]["tokens"]["input"] > 0
    failed = replay("check", "--new", "v1", "--threshold", "0.9")
    assert failed.code == 1
    told = failed.out[failed.out.index("fail: cancel-everything") :]
    assert "expected    no call" in told
    assert 'made        cancel_order(order_id="67890", confirmation=true)' in told
    compared = document(replay, "compare", "--cases", "--old", "v1", "--new", "v2", "--trials", "3", "--aa")
    assert verdicts(compared) == {"improved": ["cancel-everything"]}


def test_two_revisions_of_the_support_agent(page: Example, replay: Replay) -> None:
    page("support")
    prompts = Path("prompts")
    subprocess.run(["git", "init", "-q", "."], check=True)
    for tag, text in (("v1.0", ""), ("v1.1", (prompts / "v2.md").read_text())):
        if text:
            (prompts / "v1.md").write_text(text)
        for words in (["add", "."], ["commit", "-qm", tag], ["tag", tag]):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], check=True)
    compared = document(
        replay, "compare", "--cases", "--old", "git:v1.0", "--new", "git:v1.1", "--trials", "3", "--aa"
    )
    assert verdicts(compared) == {"improved": ["cancel-everything"]}


def test_the_golden_questions(page: Example, replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert page("golden-qa") == [0, 0, 0]
    report = Path("report.md").read_text().replace("\u202f", " ").replace("\xa0", " ")
    assert "| category `numbers` | 3 | 3 | 0 | 0 | 100 % |" in report
    assert "| difficulty `hard` | 1 | 0 | 0 | 1 | – |" in report
    checked = replay("check", "--new", "v2")
    assert checked.code == 0
    assert "category geography      1       0       1          0    0%" in checked.out
    assert "expected the answer 'Canberra', got" in checked.out
    assert "86% of 7 cases pass (6 passed, 1 failed, 0 undecided, 1 not graded" in checked.out
    assert "only a judge can tell" in checked.out[checked.out.index("not graded: sky") :]
    compared = document(replay, "compare", "--cases", "--old", "v1", "--new", "v2", "--trials", "3", "--aa")
    assert verdicts(compared) == {"regressed": ["capital"], "inconclusive": ["sky"]}
