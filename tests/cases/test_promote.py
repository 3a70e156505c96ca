"""From a trace to a case to a check, through the command line, in a real git repository."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from replaydiff.cases.promote import better, possible, propose
from replaydiff.diff.compute import compute
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import Action, Status
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.grades import decisions
from tests.diff import build
from tests.stand_ins.loopback import serving
from tests.stand_ins.processes import replay

AGENT = """
import json

def _exec(name, args):
    raise RuntimeError("a replay must not run the tool")

def run_agent(text):
    if "weather" in text:
        return "I only know about orders."
    number = "".join(c for c in text if c.isdigit())
    return "It is " + json.loads(_exec("get_order_status", {"order_id": number}))["status"]
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with an agent, and three of its traces in the store; each test works in a copy."""
    tmp_path = tmp_path_factory.mktemp("promote")
    (tmp_path / "shop.py").write_text(AGENT)
    (tmp_path / "replay.toml").write_text('[agent]\nentrypoint = "shop:run_agent"\ntools = ["shop:_exec"]\n')
    for words in (
        ["init", "-q"], ["config", "user.name", "Ada"], ["config", "user.email", "ada@example.org"],
        ["add", "."], ["commit", "-qm", "agent"],
    ):  # fmt: skip
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    traces = [
        {
            "trace_id": f"order-{number}",
            "started_at": f"2026-10-0{number}T10:00:00Z",
            "input": f"Where is order {number}?",
            "final_response": "It is shipped",
            "tool_calls": [
                {
                    "name": "get_order_status",
                    "args": {"order_id": str(number)},
                    "result": '{"status": "shipped"}',
                }
            ],
        }
        for number in (1, 2)
    ]
    weather = {
        "trace_id": "rain/../x",
        "started_at": "2026-10-03T10:00:00Z",
        "input": "the weather?",
        "tool_calls": [],
    }
    (tmp_path / "traces.jsonl").write_text("".join(json.dumps(t) + "\n" for t in [*traces, weather]))
    assert _replay(tmp_path, "import", "jsonl", "traces.jsonl").returncode == 0
    return tmp_path


@pytest.fixture
def shop(imported: Path, tmp_path: Path) -> Path:
    return shutil.copytree(imported, tmp_path / "shop", symlinks=True)


def _replay(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return replay(folder, *words)


def test_a_promotion_is_one_added_line_with_provenance(shop: Path) -> None:
    golden = shop / "cases" / "golden.jsonl"
    golden.parent.mkdir()
    before = '{"input": "hi",  "id": "a"}\r\n{"id":"z","input":"bye"}'
    golden.write_bytes(before.encode())
    done = _replay(shop, "promote", "order-1", "--trait", "names the status")
    assert done.returncode == 0, done.stderr
    assert "expects get_order_status (from the recording)" in done.stdout
    first, added, last = golden.read_bytes().decode().splitlines(keepends=True)
    assert first + last.rstrip() == before
    case = json.loads(added)
    assert case["expected_tool_calls"] == [{"name": "get_order_status", "args": {"order_id": "1"}}]
    assert case["tape"][0]["result"] == '{"status": "shipped"}'
    assert case["metadata"]["trace_id"] == "order-1"
    assert case["metadata"]["reviewer"] == "Ada <ada@example.org>"


def test_promoting_a_trace_twice_is_refused_and_changes_nothing(shop: Path) -> None:
    golden = shop / "cases" / "golden.jsonl"
    assert _replay(shop, "promote", "order-1").returncode == 0
    before = golden.read_bytes()
    again = _replay(shop, "promote", "order-1")
    assert again.returncode == 2
    assert "is case 'order-1'" in again.stderr
    assert golden.read_bytes() == before


def test_a_promotion_that_was_killed_before_its_decision_is_completed_by_repeating_it(shop: Path) -> None:
    assert _replay(shop, "promote", "order-1").returncode == 0
    golden = shop / "cases" / "golden.jsonl"
    before = golden.read_bytes()
    # The golden set is written first: this is what a kill in between leaves.
    with open_store(shop / ".replay" / "replay.duckdb") as con:
        con.execute("DELETE FROM decisions")
    done = _replay(shop, "promote", "order-1")
    assert done.returncode == 0, done.stderr
    assert "order-1-2" not in done.stdout
    assert golden.read_bytes() == before
    with open_store(shop / ".replay" / "replay.duckdb", read_only=True) as con:
        assert [(one.action, one.case_id) for one in decisions(con)] == [(Action.PROMOTE, "order-1")]
    assert _replay(shop, "promote", "order-1").returncode == 2
    assert golden.read_bytes() == before


def test_what_can_become_a_case_does_and_a_near_duplicate_is_named(shop: Path) -> None:
    golden = shop / "cases" / "golden.jsonl"
    several = _replay(shop, "promote", "order-1", "order-2", "nobody", "rain/../x", "--json")
    assert several.returncode == 3
    document = json.loads(several.stdout)
    assert [row["case"] for row in document["promoted"]] == ["order-1", "rain-..-x"]
    assert [row["id"] for row in document["not_promoted"]] == ["order-2", "nobody"]
    assert "asks almost the same and expects the same tools" in document["not_promoted"][0]["reason"]
    before = golden.read_bytes()
    again = _replay(shop, "promote", "order-2")
    assert again.returncode == 2
    assert "case 'order-1' of" in again.stderr
    assert "--yes adds 'order-2' all the same" in again.stderr
    assert golden.read_bytes() == before
    assert _replay(shop, "promote", "order-2", "--yes").returncode == 0
    assert len(golden.read_text().splitlines()) == 3


def test_a_promotion_is_one_added_line_of_git_diff(shop: Path) -> None:
    for name in ("order-1", "rain/../x"):
        assert _replay(shop, "promote", name).returncode == 0
        counts = subprocess.run(
            ["git", "diff", "--numstat", "--", "cases"], cwd=shop, capture_output=True, text=True, check=True
        )
        assert counts.stdout.split()[:2] in ([], ["1", "0"])
        subprocess.run(["git", "add", "cases"], cwd=shop, check=True)
        subprocess.run(["git", "commit", "-qm", name], cwd=shop, check=True)


def test_tokens_of_redaction_are_named_in_the_case(shop: Path) -> None:
    (shop / "replay.toml").write_text((shop / "replay.toml").read_text() + "[import.redact]\n")
    trace = {
        "trace_id": "mail", "started_at": "2026-10-04T10:00:00Z", "final_response": "done", "tool_calls": [],
        "input": "write to eve@example.net about [ORDER_3], not [EMAIL_9]",
    }  # fmt: skip
    (shop / "more.jsonl").write_text(json.dumps(trace) + "\n")
    assert _replay(shop, "import", "jsonl", "more.jsonl").returncode == 0
    assert _replay(shop, "promote", "mail").returncode == 0
    (line,) = (shop / "cases" / "golden.jsonl").read_text().splitlines()
    case = json.loads(line)
    assert case["input"].startswith("write to [EMAIL_1] about")
    assert case["metadata"]["redacted"] == {"[EMAIL_1]": "EMAIL"}
    assert "eve@example.net" not in line


def test_traits_that_the_judge_drafts_are_no_expectation(shop: Path) -> None:
    said = {"traits": ["names the status", "  invents\nno date  ", "", 3, "names the status"]}
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
        "content": [{"type": "text", "text": json.dumps(said)}], "stop_reason": "end_turn",
        "stop_sequence": None, "usage": {"input_tokens": 100, "output_tokens": 20},
    }  # fmt: skip
    with serving(lambda _: (200, message)) as model:
        judge = f'[judge]\nmodel = "claude-opus-5-5"\nbase_url = "{model.url}"\n'
        (shop / "replay.toml").write_text((shop / "replay.toml").read_text() + judge)
        done = _replay(shop, "promote", "order-1", "--trait")
        (asked,) = model.answered
    assert done.returncode == 0, done.stderr
    assert "  draft: invents no date" in done.stdout
    (case,) = [json.loads(line) for line in (shop / "cases" / "golden.jsonl").read_text().splitlines()]
    assert case["metadata"]["draft_traits"] == ["names the status", "invents no date"]
    assert "expected_response_traits" not in case
    linted = _replay(shop, "cases", "lint")
    assert linted.returncode == 0
    assert "2 drafted traits are not confirmed and do not count" in linted.stdout
    told = asked.question
    assert "Where is order 1?" in told
    assert "It is shipped" in told


def test_drafts_without_a_judge_are_refused_before_anything_is_written(shop: Path) -> None:
    done = _replay(shop, "promote", "order-1", "--trait")
    assert done.returncode == 2
    assert "drafting traits asks the judge's model; name one as `model` in [judge]" in done.stderr
    assert not (shop / "cases").exists()


def test_a_hostile_id_becomes_a_plain_case_id(shop: Path) -> None:
    done = _replay(shop, "promote", "rain/../x", "--json")
    assert json.loads(done.stdout)["promoted"] == [
        {"case": "rain-..-x", "expected_from": "recording", "draft_traits": []}
    ]


def test_two_processes_at_once_lose_nothing(shop: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from replaydiff.cases.golden import add_cases; from replaydiff.replay.model import Case\n"
        "for n in range(20):\n"
        "    name = f'{sys.argv[1]}{n}'\n"
        "    add_cases(Path('g.jsonl'), [Case(id=name, input=name)], force=True)"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, name], cwd=shop) for name in "ab"]
    assert [process.wait() for process in running] == [0, 0]
    ids = [json.loads(line)["id"] for line in (shop / "g.jsonl").read_text().splitlines()]
    assert ids == sorted(ids)
    assert len(ids) == 40


def test_check_holds_then_fails_when_the_agent_breaks(shop: Path) -> None:
    assert _replay(shop, "promote", "order-1", "order-2", "rain/../x", "--yes").returncode == 0
    good = _replay(shop, "check", "--json", "-o", "report.xml")
    assert good.returncode == 0, good.stderr
    document = json.loads(good.stdout)
    rows = sorted(document["check"].pop("rows"), key=lambda row: row["id"])
    assert rows[0] == {
        "id": "order-1", "input": "Where is order 1?", "expected_answer": None, "response": "It is shipped",
        "ended": "pass",
    }  # fmt: skip
    assert document["check"] == {
        "cases": 3, "passed": 3, "failed": 0, "undecided": 0, "not_graded": 0, "rate": 1.0, "threshold": 0.8,
        "held": True, "ended": {"order-1": "pass", "order-2": "pass", "rain-..-x": "pass"}, "quarantined": [],
    }  # fmt: skip
    assert "<testsuite" in (shop / "report.xml").read_text()
    (shop / "shop.py").write_text(AGENT.replace("if c.isdigit()", "if c == '1'"))
    broken = _replay(shop, "check", "--set", "cases.threshold=0.9")
    assert broken.returncode == 1
    assert broken.stdout.startswith("HOLD")
    assert "2 passed, 1 failed" in broken.stdout
    assert "fail: order-2" in broken.stdout


def test_dismissed_traces_are_left_out_of_new_samples(shop: Path) -> None:
    assert _replay(shop, "dismiss", "order-1", "--reason", "the warehouse was down").returncode == 0
    drawn = _replay(shop, "sample", "--month", "2026-10", "--new-only", "--json")
    assert drawn.returncode == 0, drawn.stderr
    assert "order-1" not in drawn.stdout
    assert "order-2" in drawn.stdout


@pytest.mark.slow
def test_show_finds_traces_cases_and_items(shop: Path) -> None:
    assert _replay(shop, "promote", "order-1", "--name", "shipped-order").returncode == 0
    assert _replay(shop, "show", "order-1").stdout.startswith("trace order-1\n")
    assert _replay(shop, "show", "shipped-order").stdout.startswith("case shipped-order\n")
    run = json.loads(_replay(shop, "check", "--json").stdout)["run"]["id"]
    item = _replay(shop, "show", "shipped-order", "--run", run).stdout
    assert 'get_order_status(order_id="1")  [tape]' in item
    unknown = _replay(shop, "show", "order-9")
    assert unknown.returncode == 2
    assert "there is no trace 'order-9'" in unknown.stderr


def test_a_lane_without_a_good_trial_is_not_offered(tmp_path: Path) -> None:
    """A dialog offers nothing that is then refused."""
    item = build.item("t0")
    done = [
        *build.trials(item, old="111"),
        *(build.trial(item, "new", n, status=Status.DIVERGED) for n in range(3)),
    ]
    with build.filled(tmp_path, [item], done) as con:
        (found,) = compute(con, build.RUN_ID, build.settings(tmp_path)).items
    assert possible(found) == ["recording", "old"]
    assert better(found) in possible(found)
    with pytest.raises(InputError, match="no trial of lane new that ended ok"):
        propose(found.item, case_id="c", reviewer="Ada", at=build.WHEN, trials=tuple(done), expect="new")
