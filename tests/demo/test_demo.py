"""`replay demo` as a person meets it: one command, no credentials, no network, under a minute."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from replaydiff.replay.demo import repository
from replaydiff.replay.demo.stand_in import HOST, answers_at
from tests.demo.run import SECRET, DemoRun
from tests.demo.run import environment as _environment
from tests.demo.run import replay as _replay
from tests.stand_ins.full import full
from tests.stand_ins.messages_api import StandIn
from tests.stand_ins.processes import commands_folder, replay, start

Played = tuple[Path, subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def played(demo_run: DemoRun) -> Played:
    """A demo that was run, and what it printed."""
    return demo_run.folder, demo_run.done


@pytest.mark.slow
def test_the_whole_job_in_one_command(played: Played) -> None:
    folder, done = played
    output = done.stdout
    assert output.index("The model is a stand-in") < output.index("$ replay import")
    for command in ("import", "sample", "run", "report", "diff"):
        assert f"$ replay {command}" in output
    assert "360 traces" in output + done.stderr
    assert "Traceback" not in done.stderr
    assert (folder / "replay-demo" / "report.html").stat().st_size > 10_000


def test_it_ends_with_the_answer_the_report_and_commands(played: Played) -> None:
    folder, done = played
    end = done.stdout[done.stdout.rindex("\n\nHOLD: ") :]
    assert (folder / "replay-demo" / "report.html").as_uri() in end
    commands = re.findall(r"^  (cd|git|replay|source) ", end, re.MULTILINE)
    assert {"cd", "git", "replay"} <= set(commands)


def test_what_the_new_prompt_mends_and_breaks_is_found(played: Played) -> None:
    folder, _ = played
    done = _replay(folder, "diff", "--json", "--db", ".replay/replay.duckdb", cwd=folder / "replay-demo")
    found = json.loads(done.stdout)
    inputs = {
        record["trace_id"]: record["input"]
        for line in (folder / "replay-demo" / "traces.jsonl").read_text().splitlines()
        for record in [json.loads(line)]
    }
    of = {
        verdict: [case for case in found["cases"] if case["verdict"] == verdict]
        for verdict in ("regressed", "improved", "inconclusive")
    }
    assert found["answer"] == "HOLD"
    assert found["run"]["noise"] == "a/a"
    assert found["items"]["total"] == found["items"]["compared"] == 50
    broken = [case for case in of["regressed"] if "confirm" in inputs[case["id"]].lower()]
    assert len(broken) >= 3
    assert all(
        "called cancel_order without get_order_status(" in case["metrics"]["tool_calls"]["reason"]
        for case in broken
    )
    assert len(of["regressed"]) - len(broken) <= 1, "at most a false alarm among what is announced"
    assert len(of["improved"]) >= 3
    assert all("confirm" not in inputs[case["id"]].lower() for case in of["improved"])
    assert all(case["metrics"]["judge"]["delta"] > 0 for case in of["improved"])
    assert of["inconclusive"], "chance leaves something that cannot be told"
    assert found["lanes"]["old"]["fidelity"] > 0.9
    assert found["metrics"]["judge"]["noise"] > 0


def test_no_process_left_loopback_and_the_real_key_went_nowhere(played: Played) -> None:
    folder, _ = played
    assert not (folder / "connections.txt").exists()
    assert not (folder / "elsewhere.duckdb").exists()
    for path in (folder / "replay-demo").rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


def test_the_folder_is_a_clean_repository_and_the_home_is_untouched(played: Played) -> None:
    folder, _ = played
    status = subprocess.run(
        ["git", "status", "--porcelain"],
        cwd=folder / "replay-demo",
        capture_output=True,
        text=True,
        check=True,
    )
    assert status.stdout == "?? report.html\n" or status.stdout == ""
    assert not (folder / ".gitconfig").exists()


@full
def test_a_second_demo_uses_the_first_ones_folder(demo_run: DemoRun, tmp_path: Path) -> None:
    shutil.copytree(demo_run.untouched, tmp_path / "replay-demo", symlinks=True)
    done = _patched(
        "from replaydiff.replay.demo import tour; whole = tour.demo_commands; "
        "tour.demo_commands = lambda: whole(('--trials', '1', '--no-aa'))",
        tmp_path, _environment(tmp_path), "demo",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Found replay-demo")
    assert "0 new, 0 updated, 360 unchanged" in done.stdout + done.stderr


def test_serve_answers_where_the_settings_look_until_it_is_interrupted(played: Played) -> None:
    folder, _ = played
    port = repository.port_of(folder / "replay-demo")
    server = start(folder / "replay-demo", "demo", "--serve", env=_environment(folder))
    try:
        assert server.stdout is not None
        assert f"http://{HOST}:{port}" in server.stdout.readline()
        assert answers_at(port)
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait() == 0
        server.communicate()


@full
def test_the_suggested_next_commands_work(played: Played) -> None:
    folder, done = played
    closing = done.stdout[done.stdout.index("Next steps:") :]
    commands = re.findall(r"^  ((?:cd|git|replay) [^#\n]*)", closing, re.MULTILINE)
    assert commands[-1].strip() == "replay check --new v2"
    script = "\n".join(["trap 'kill %1' EXIT", *(f"{line.strip()}" for line in commands)])
    environment = {
        **_environment(folder),
        "PATH": f"{commands_folder()}{os.pathsep}{os.environ['PATH']}",
        "GIT_PAGER": "cat",
    }
    del environment["REPLAY_DB"], environment["REPLAY_JUDGE_MODEL"]
    ran = subprocess.run(
        ["bash", "-e", "-m", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "+- Once the customer has confirmed, cancel at once" in ran.stdout
    assert ran.stdout.count("promoted oct-") == 2
    assert re.search(r"^HOLD: 7 of 9 items passed", ran.stdout, re.MULTILINE)


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "replay-demo").mkdir()
    (tmp_path / "replay-demo" / "thesis.txt").write_text("mine")
    done = _replay(tmp_path, "demo")
    assert done.returncode == 2
    assert done.stderr == (
        "error: replay-demo is not empty and was not made by `replay demo`; choose another folder\n"
    )
    assert [path.name for path in (tmp_path / "replay-demo").iterdir()] == ["thesis.txt"]


def test_another_port_than_the_settings_of_a_demo_name_is_refused(played: Played) -> None:
    done = _replay(played[0], "demo", "--port", "1234")
    assert done.returncode == 2
    assert "as its replay.toml says" in done.stderr


def test_serve_without_a_demo(tmp_path: Path) -> None:
    done = _replay(tmp_path, "demo", "--serve")
    assert (done.returncode, done.stdout) == (2, "")
    assert "was not made by `replay demo`; make one with: replay demo replay-demo" in done.stderr


def test_live_without_a_key_makes_nothing(tmp_path: Path) -> None:
    environment = {**_environment(tmp_path), "ANTHROPIC_API_KEY": ""}
    done = replay(tmp_path, "demo", "--live", "--yes", env=environment)
    assert done.returncode == 2
    assert "ANTHROPIC_API_KEY is not set" in done.stderr
    assert not (tmp_path / "replay-demo-live").exists()


def test_live_says_what_it_may_cost_and_asks(tmp_path: Path) -> None:
    done = _replay(tmp_path, "demo", "--live")
    assert done.returncode != 0
    assert re.search(r"about \$\d+\.\d\d, and no more than \$\d+\.\d\d", done.stdout)
    assert "Go on?" in done.stdout
    assert not (tmp_path / "replay-demo-live").exists()
    assert not (tmp_path / "connections.txt").exists()


@full
def test_live_asks_the_api_of_the_environment_and_keeps_to_its_budget(tmp_path: Path) -> None:
    """The real API is played by the stand-in here, at the place where ANTHROPIC_BASE_URL says it is."""
    few = "from replaydiff.replay.commands import demo; demo.LIVE_SIZE = 4"
    with StandIn(remember=True) as api:
        environment = {**_environment(tmp_path), "ANTHROPIC_BASE_URL": api.url, "NO_PROXY": HOST}
        done = _patched(few, tmp_path, environment, "demo", "--live", "--yes", "d")
        models = {received.body["model"] for received in api.received}
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The model is the real API" in done.stdout
    assert "stand-in" not in done.stdout
    assert models == {"claude-haiku-5-5", "claude-sonnet-5-5"}


def _patched(
    patch: str, folder: Path, environment: dict[str, str], *words: str
) -> subprocess.CompletedProcess[str]:
    """`replay WORDS` after some code: a demo that is the whole one but for its size."""
    code = f"{patch}; from replaydiff.replay.cli import main; main({list(words)!r})"
    return replay(folder, "-c", code, env=environment, program="python")
