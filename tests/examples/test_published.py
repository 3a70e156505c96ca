"""The four published kinds of system: their pages are run, and each one's file is checked and compared."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replay.demo.stand_in import StandIn
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
    with StandIn() as judge:
        monkeypatch.setenv("REPLAY_JUDGE_MODEL", "claude-opus-5-5")
        monkeypatch.setenv("REPLAY_JUDGE_BASE_URL", judge.url)
        judged = document(replay, "check", "--new", "v1")
    assert judged["check"]["not_graded"] == 0
    (sky,) = (case for case in judged["cases"] if case["id"] == "sky")
    assert sky["lanes"]["new"]["trials"][0]["grades"]["judge"]["state"] == "scored"


def test_the_agents_of_a_shop(page: Example, replay: Replay) -> None:
    assert page("ecommerce") == [0, 0, 0, 0, 0]
    found = document(replay, "check", "--new", "discovery")
    assert (found["check"]["passed"], found["check"]["cases"]) == (5, 5)
    lane = found["lanes"]["new"]
    tokens = lane["tokens"]
    assert lane["cost_usd"] == pytest.approx((tokens["input"] * 2 + tokens["output"] * 8) / 1e6)
    (trial,) = found["cases"][0]["lanes"]["new"]["trials"]
    assert trial["grades"]["quality"]["detail"].keys() == {"groundedness", "correctness", "completeness"}
    brief = document(replay, "compare", "--cases", "--old", "discovery", "--new", "discovery-brief", "--trials", "3", "--aa")  # fmt: skip
    assert (brief["items"]["regressed"], brief["metrics"]["quality"]["new"]) == (
        5,
        pytest.approx(0.87, abs=0.01),
    )
    orders = ("--cases", "datasets/order_management.json")
    hasty = document(
        replay, "compare", *orders, "--old", "orders", "--new", "orders-hasty", "--trials", "3", "--aa"
    )
    (case,) = (case for case in hasty["cases"] if case["verdict"] == "regressed")
    assert case["metrics"]["quality"]["new"] == pytest.approx(0.8)
    assert "never called check_return_eligibility" in case["metrics"]["quality"]["reason"]
    assert hasty["metrics"]["cost"]["unchanged"] == 1


def test_the_agent_that_calculates(page: Example, replay: Replay) -> None:
    assert page("math-tools")[:3] == [0, 0, 0]
    found = document(replay, "check", "--new", "rounding", "--threshold", "0.9")
    assert (found["check"]["passed"], found["check"]["held"]) == (5, False)
    assert found["metrics"]["answer"]["new"] == 1
    assert found["metrics"]["correctness"]["new"] == pytest.approx(5 / 7)
    wrong = {
        case["metrics"]["correctness"]["reason"] for case in found["cases"] if case["verdict"] == "regressed"
    }
    assert wrong == {"new 0/1: 0.99 is not 1.0", "new 0/1: 20.17 is not 20.166666666666668"}
    served = [trial["served"] for case in found["cases"] for trial in case["lanes"]["new"]["trials"]]
    assert all(one["live"] > 0 and one["miss"] == 0 for one in served)


def test_a_log_of_the_agent_that_calculates_is_a_trace(
    replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(EXAMPLES / "math-tools", "math-tools")
    monkeypatch.chdir("math-tools")
    solve = "import agent; [print(agent.create_agent(logdir='logs').solve(p, run_id=n)) for n, p in (('a', '6 / 4'), ('b', '1 / 0'))]"
    solved = subprocess.run([sys.executable, "-c", solve], check=True, capture_output=True, text=True)
    assert "'result': '1.5'" in solved.stdout
    assert "'result': 'error: division by zero'" in solved.stdout
    log = json.loads(Path("logs/a.json").read_text())
    assert [event["event_type"] for event in log] == [
        "llm_call", "llm_response", "tool_execution", "tool_result",
        "llm_call", "llm_response", "result_extraction",
    ]  # fmt: skip
    with Path("traces.jsonl").open("w") as traces:
        subprocess.run([sys.executable, "log_to_traces.py", "logs"], check=True, stdout=traces)
    imported = document(replay, "import", "jsonl", "traces.jsonl")
    assert imported["traces"]["new"] == 2
    shown = replay("show", "a").out
    assert "div" in shown
    assert "1.5" in shown
