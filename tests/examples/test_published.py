"""The four published kinds of system: their pages are run, and each one's file is checked and compared."""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands.conftest import Replay
from tests.examples.test_agents import EXAMPLES
from tests.stand_ins.full import full
from tests.stand_ins.messages_api import StandIn

Example = Callable[[str], list[int]]


@pytest.fixture
def page(replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Example:
    """Runs the commands of an example's page, in a copy of it that stays the current folder."""

    def run(name: str) -> list[int]:
        folder = tmp_path / name
        shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__", ".replay"))
        monkeypatch.chdir(folder)
        return [_typed(replay, line) for line in lines_of(folder / "README.md")]

    return run


def lines_of(page: Path) -> list[str]:
    """The commands of a page, in their order."""
    return re.findall(r"^    ((?:replay|python) .*)$", page.read_text(), re.MULTILINE)


def _typed(replay: Replay, line: str) -> int:
    """What a line of a page ends with; one of Python may write into a file."""
    if line.startswith("replay "):
        return replay(*shlex.split(line)[1:]).code
    command, _, file = line.partition(" > ")
    with Path(file).open("w") as out:
        words = [sys.executable, *shlex.split(command)[1:]]
        return subprocess.run(words, stdout=out, check=False).returncode


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


@pytest.mark.slow
def test_the_support_agent(page: Example, replay: Replay) -> None:
    assert page("support") == [0, 0, 0]
    latest = json.loads(Path("reports/latest.json").read_text())
    assert (latest["check"]["passed"], len(latest["cases"])) == (7, 8)
    assert 'name="lookup"' in Path("reports/smoke.xml").read_text()
    found = document(replay, "check", "--new", "v1")
    assert (found["check"]["passed"], found["check"]["cases"], found["check"]["threshold"]) == (7, 8, 0.8)
    assert groups(found) == {"easy": (3, 3), "medium": (3, 3), "hard": (1, 2)}
    assert found["lanes"]["new"]["tokens"]["input"] > 0
    failed = replay("check", "--new", "v1", "--set", "cases.threshold=0.9")
    assert failed.code == 1
    told = failed.out[failed.out.index("fail: cancel-everything") :]
    assert "expected    no call" in told
    assert 'made        cancel_order(order_id="67890", confirmation=true)' in told
    compared = document(replay, "compare", "--cases", "--old", "v1", "--new", "v2", "--trials", "3", "--aa")
    assert verdicts(compared) == {"improved": ["cancel-everything"]}


@full
def test_the_responses_of_the_support_agent_are_judged_by_its_rubric(
    page: Example, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    page("support")
    settings = Path("replay.toml").read_text()
    Path("replay.toml").write_text(re.sub(r"^# (\[judge\]|\w+ = )", r"\1", settings, flags=re.MULTILINE))
    with StandIn(remember=True) as judge:
        monkeypatch.setenv("REPLAY_JUDGE_BASE_URL", judge.url)
        checked = replay("check", "--new", "v2")
        asked = judge.received[0].body
    table = checked.out[checked.out.index("CASE ") :].splitlines()
    assert table[0].split() == ["CASE", "tool_calls", "judge", "OVERALL"]
    assert [line.split()[0] for line in table[1:9]] == [
        "ambiguous", "cancel-confirmed", "cancel-everything", "cancel-unconfirmed",
        "check-then-cancel", "lookup", "out-of-scope", "typos",
    ]  # fmt: skip
    assert "an order is cancelled without a clear yes" in asked["system"]
    assert "judge counts in these figures, and not for the answer" in checked.out


@full
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


@full
def test_the_golden_questions(page: Example, replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert page("golden-qa") == [0, 0, 0, 0]
    report = Path("report.md").read_text().replace("\u202f", " ").replace("\xa0", " ")
    assert "| category `numbers` | 3 | 3 | 0 | 0 | 100 % |" in report
    assert "| difficulty `hard` | 1 | 0 | 0 | 1 | – |" in report
    checked = replay("check", "--new", "v2")
    assert checked.code == 0
    assert "category geography      1       0       1          0    0%" in checked.out
    assert "expected the answer 'Canberra', got" in checked.out
    assert "86% of 7 cases pass (6 passed, 1 failed, 0 undecided, 1 not graded" in checked.out
    assert "only a judge can decide this" in checked.out[checked.out.index("not graded: sky") :]
    compared = document(replay, "compare", "--cases", "--old", "v1", "--new", "v2", "--trials", "3", "--aa")
    assert verdicts(compared) == {"regressed": ["capital"], "inconclusive": ["sky"]}
    with StandIn() as judge:
        monkeypatch.setenv("REPLAY_JUDGE_MODEL", "claude-opus-5-5")
        monkeypatch.setenv("REPLAY_JUDGE_BASE_URL", judge.url)
        judged = document(replay, "check", "--new", "v1")
    assert judged["check"]["not_graded"] == 0
    (sky,) = (case for case in judged["cases"] if case["id"] == "sky")
    assert sky["lanes"]["new"]["trials"][0]["grades"]["judge"]["state"] == "scored"


AGENTS = {
    "discovery": ("product_discovery", 5), "orders": ("order_management", 5), "cart": ("cart", 5),
    "reviews": ("reviews", 4), "recommendations": ("recommendations", 4), "help-desk": ("help_desk", 5),
}  # fmt: skip


@full
def test_the_agents_of_a_shop(page: Example, replay: Replay) -> None:
    assert page("ecommerce") == [0] * 8
    orders = json.loads(Path("reports/orders.json").read_text())
    assert (orders["check"]["passed"], orders["check"]["threshold"]) == (5, 1)
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
    cases = ("--cases", "datasets/order_management.json")
    hasty = document(
        replay, "compare", *cases, "--old", "orders", "--new", "orders-hasty", "--trials", "8", "--aa"
    )
    (case,) = (case for case in hasty["cases"] if case["metrics"]["quality"]["verdict"] == "regressed")
    assert case["metrics"]["quality"]["new"] == pytest.approx(0.8)
    assert "never called check_return_eligibility" in case["metrics"]["quality"]["reason"]


@full
@pytest.mark.parametrize("agent", AGENTS)
def test_each_agent_of_the_shop_has_a_set_of_its_own(
    agent: str, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(EXAMPLES / "ecommerce", "shop")
    monkeypatch.chdir("shop")
    dataset, cases = AGENTS[agent]
    told = replay(
        "check", "--new", agent, "--cases", f"datasets/{dataset}.json", "--set", "cases.threshold=1", "-v"
    )
    assert told.code == 0, told.out
    assert f"{cases} of {cases} items passed" in told.out
    assert "quality 1.00 on average: groundedness 1.00, correctness 1.00, completeness 1.00" in told.out
    assert re.search(r"^CASE +quality.* OVERALL +MS +IN +OUT +USD$", told.out, re.MULTILINE)
    smoke = [case for case in json.loads(Path(f"datasets/{dataset}.json").read_text()) if "tags" in case]
    assert [case["tags"] for case in smoke] == [["smoke"]] * 3
    if agent not in ("discovery", "orders"):
        brief = document(replay, "check", "--new", f"{agent}-brief", "--cases", f"datasets/{dataset}.json")
        assert brief["metrics"]["quality"]["new"] < 1


def test_the_workflow_of_the_shop_has_a_job_for_each_agent() -> None:
    workflow = yaml.safe_load((EXAMPLES / "ecommerce" / "workflow.yml").read_text())
    jobs = workflow["jobs"]["check"]["strategy"]["matrix"]["include"]
    assert {job["agent"]: job["dataset"] for job in jobs} == {
        agent: dataset for agent, (dataset, _) in AGENTS.items()
    }
    step = workflow["jobs"]["check"]["steps"][-1]
    action = yaml.safe_load((EXAMPLES.parent / "action.yml").read_text())
    assert step["with"].keys() <= action["inputs"].keys()


@full
def test_the_agent_that_calculates(page: Example, replay: Replay) -> None:
    assert page("math-tools") == [0] * 7
    with Path("reports/rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 7
    assert list(rows[0]) == ["question", "expected", "prediction", "log_file", "correctness"]
    first = next(row for row in rows if row["question"] == "15 - 3 / 4")
    assert (first["expected"], first["prediction"], first["correctness"]) == ("14.25", "14.25", "1.0")
    assert json.loads(Path(first["log_file"]).read_text())[0]["event_type"] == "llm_call"
    assert len(replay("traces").out.splitlines()) == 8
    found = document(replay, "check", "--new", "rounding", "--set", "cases.threshold=0.9")
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
