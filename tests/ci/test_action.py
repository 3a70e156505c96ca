"""The steps of action.yml, run as a runner would run them, with a `gh` that writes down what it is asked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.stand_ins.processes import commands_folder

ACTION = (Path(__file__).parents[2] / "action.yml").read_text()
AGENT = """
def _exec(name, args):
    raise RuntimeError("a replay must not run the tool")

def run_agent(text):
    return "It is " + _exec("get_order", {"id": text.split()[-1]})
"""
CASE = {
    "id": "where", "input": "where is 7", "expected_tool_calls": [{"name": "get_order", "args": {"id": "7"}}],
    "tape": [{"name": "get_order", "args": {"id": "7"}, "result": "shipped"}],
}  # fmt: skip
GH = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
log = pathlib.Path({log!r})
body = next((pathlib.Path(w.split("@", 1)[1]).read_text() for w in words if w.startswith("body=@")), None)
log.write_text(log.read_text() + json.dumps([words, body]) + "\\n")
if "--jq" in words and {existing!r}:
    print({existing!r})
"""


def _step(name: str) -> str:
    """The script of a step."""
    steps = yaml.safe_load(ACTION)["runs"]["steps"]
    script: str = next(step["run"] for step in steps if step.get("name") == name)
    return script


class Runner:
    """A folder with an agent and a case, and what a runner puts into the environment."""

    def __init__(self, folder: Path, existing: str = "") -> None:
        self.folder = folder
        (folder / "shop.py").write_text(AGENT)
        (folder / "replay.toml").write_text(
            '[agent]\nentrypoint = "shop:run_agent"\ntools = ["shop:_exec"]\n'
        )
        (folder / "cases").mkdir()
        (folder / "cases" / "golden.jsonl").write_text(json.dumps(CASE) + "\n")
        self.log = folder / "gh.log"
        self.log.write_text("")
        self.temp = folder / "temp"
        self.temp.mkdir()
        tools = folder / "bin"
        tools.mkdir()
        gh = tools / "gh"
        gh.write_text(GH.format(python=sys.executable, log=str(self.log), existing=existing))
        gh.chmod(0o755)
        (tools / "replay").symlink_to(commands_folder() / "replay")
        (tools / "python").symlink_to(sys.executable)
        self.path = f"{tools}:{os.environ['PATH']}"

    def run(self, step: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", _step(step)],
            cwd=self.folder, capture_output=True, text=True, check=False,
            env={
                **os.environ, "PATH": self.path, "GITHUB_OUTPUT": str(self.folder / "out"),
                "RUNNER_TEMP": str(self.temp),
                "GITHUB_STEP_SUMMARY": str(self.folder / "summary"), **env,
            },
        )  # fmt: skip

    def comment(self, name: str = "") -> list[tuple[list[str], str | None]]:
        done = self.run(
            "comment",
            REPLAY_REPOSITORY="acme/shop",
            REPLAY_PULL_REQUEST="12",
            GH_TOKEN="t",
            REPLAY_NAME=name,
            REPLAY_REPORTS=self.outputs["reports"],
            REPLAY_AUTHOR="github-actions[bot]",
        )
        assert done.returncode == 0, done.stderr
        return [tuple(json.loads(line)) for line in self.log.read_text().splitlines()]

    @property
    def outputs(self) -> dict[str, str]:
        lines = (self.folder / "out").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    @property
    def code(self) -> str:
        return self.outputs["code"]

    def report(self, suffix: str) -> Path:
        return Path(self.outputs["reports"], f"report.{suffix}")


def test_a_check_that_holds_is_commented_once(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    done = runner.run("replay", REPLAY_COMMAND="check", REPLAY_ARGS="")
    assert done.returncode == 0, done.stderr
    assert runner.code == "0"
    assert "SHIP" in (tmp_path / "summary").read_text()
    assert runner.report("html").exists()
    assert "<testsuite" in runner.report("xml").read_text()
    asked, posted = runner.comment()
    assert asked[0][:2] == ["api", "repos/acme/shop/issues/12/comments"]
    assert posted[0][:4] == ["api", "--method", "POST", "repos/acme/shop/issues/12/comments"]
    assert posted[1] is not None
    assert posted[1].startswith("<!-- replaydiff -->")
    assert runner.run("verdict", REPLAY_CODE=runner.code).returncode == 0


def test_a_check_that_fails_updates_the_comment_and_fails_the_job(tmp_path: Path) -> None:
    runner = Runner(tmp_path, existing="99")
    (tmp_path / "shop.py").write_text(AGENT.replace("get_order", "get_orders"))
    assert (
        runner.run("replay", REPLAY_COMMAND="check", REPLAY_ARGS="--set 'cases.threshold=0.9'").returncode
        == 0
    )
    assert runner.code == "1"
    _, updated = runner.comment()
    assert updated[0][:4] == ["api", "--method", "PATCH", "repos/acme/shop/issues/comments/99"]
    assert runner.run("verdict", REPLAY_CODE=runner.code).returncode == 1


def test_wrong_input_ends_with_its_sentence_and_no_comment(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    done = runner.run("replay", REPLAY_COMMAND="check", REPLAY_ARGS="--new prdo")
    assert runner.code == "2"
    assert "there is no version 'prdo'" in done.stderr
    assert runner.comment() == []
    assert runner.run("verdict", REPLAY_CODE="").returncode == 2


def test_jobs_of_one_workflow_have_comments_of_their_own_and_none_decides(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    runner.run("replay", REPLAY_COMMAND="check", REPLAY_ARGS="")
    asked, posted = runner.comment('orders"; touch x')
    assert ".user.login == env.REPLAY_AUTHOR and (.body | startswith(env.marker))" in asked[0][-1]
    assert posted[1] is not None
    assert posted[1].splitlines()[:3] == ["<!-- replaydiff orders touch x -->", "**orders touch x**", ""]
    assert posted[1].count("<!-- replaydiff") == 1
    # A fork's token may not comment: the gate decides all the same.
    (tmp_path / "bin" / "gh").write_text("#!/bin/sh\nexit 1\n")
    done = runner.run(
        "comment", REPLAY_REPOSITORY="acme/shop", REPLAY_PULL_REQUEST="12", REPLAY_NAME="",
        REPLAY_REPORTS=runner.outputs["reports"], REPLAY_AUTHOR="github-actions[bot]",
    )  # fmt: skip
    assert done.returncode == 0
    assert "::warning::replaydiff could not comment" in done.stdout
    upload = next(
        step
        for step in yaml.safe_load(ACTION)["runs"]["steps"]
        if "uses" in step and "upload" in step["uses"]
    )
    assert upload["if"] == "always()"
    assert "steps.replay.outputs.reports }}/report.html" in upload["with"]["path"]


@pytest.mark.slow
def test_a_comparison_leaves_its_reports(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    args = "--cases --old . --new ."
    done = runner.run("replay", REPLAY_COMMAND="compare", REPLAY_ARGS=args)
    assert done.returncode == 0, done.stderr
    assert all(runner.report(suffix).exists() for suffix in ("md", "xml", "html"))


def test_where_no_case_is_to_be_checked_there_is_no_report_and_no_comment(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "x"]):
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True)
    (tmp_path / "out").write_text("")
    (tmp_path / "replay.toml").write_text(
        (tmp_path / "replay.toml").read_text() + '[cases]\nunrelated = ["*"]\n'
    )
    done = runner.run("replay", REPLAY_COMMAND="check", REPLAY_ARGS="--changed")
    assert (done.returncode, runner.code) == (0, "0"), done.stderr
    assert runner.comment() == []
    assert not runner.report("html").exists()


def test_an_empty_golden_set_is_green_and_another_one_is_not_looked_for(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    (tmp_path / "cases" / "golden.jsonl").write_text("\n")
    done = runner.run("replay", REPLAY_COMMAND="check", REPLAY_ARGS="--trials 2")
    assert (done.returncode, runner.code) == (0, "0"), done.stderr
    assert "::notice::cases/golden.jsonl has no cases yet" in done.stdout
    assert runner.comment() == []
    assert runner.run("verdict", REPLAY_CODE=runner.code).returncode == 0
    (tmp_path / "out").write_text("")
    runner.run("replay", REPLAY_COMMAND="check", REPLAY_ARGS="--cases cases/golden.jsonl")
    assert runner.code == "2"


@pytest.mark.parametrize("args", ["$(touch hacked)", "`touch hacked`", "; touch hacked", "'a b' > hacked"])
def test_arguments_are_never_run_by_a_shell(args: str, tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    runner.run("replay", REPLAY_COMMAND="check", REPLAY_ARGS=args)
    assert runner.code == "2"
    assert not (tmp_path / "hacked").exists()


def test_nothing_that_a_trace_says_is_a_command_to_the_runner(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    (tmp_path / "shop.py").write_text(
        'def _exec(name, args): ...\ndef run_agent(text): raise ValueError("\\n::error::x")\n'
    )
    lines = runner.run("replay", REPLAY_COMMAND="check", REPLAY_ARGS="-v").stdout.splitlines()
    token = lines[0].removeprefix("::stop-commands::")
    assert len(token) == 32
    assert lines[-1] == f"::{token}::"


def test_reports_follow_no_link_of_the_repository(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    (tmp_path / "elsewhere").write_text("mine")
    for suffix in ("md", "xml", "html"):
        (tmp_path / f"replay-report.{suffix}").symlink_to("elsewhere")
    assert runner.run("replay", REPLAY_COMMAND="check", REPLAY_ARGS="").returncode == 0
    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert runner.report("md").read_text().startswith("<!-- replaydiff -->")


def test_workflows_to_copy_pin_other_actions_to_commits() -> None:
    root = Path(__file__).parents[2]
    files = [
        *root.glob("docs/**/*.md"),
        *root.glob("examples/**/*.yml"),
        *root.glob("replay/api/templates/*.yml"),
    ]
    used = [one for file in files for one in re.findall(r"uses: +(\S+/\S+)", file.read_text())]
    foreign = [one for one in used if "/replaydiff@" not in one and "{" not in one]
    assert len(foreign) > 8
    assert [one for one in foreign if not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", one)] == []


def test_other_actions_are_pinned_to_commits_and_the_own_tag_is_installed() -> None:
    steps = yaml.safe_load(ACTION)["runs"]["steps"]
    pins = [step["uses"].partition("@")[2] for step in steps if "uses" in step]
    assert len(pins) == 4
    kept = next(step for step in steps if step.get("name") == "keep the store")
    assert kept["if"] == "always() && inputs.cache == 'true'", "a gate that fails the job keeps the store"
    assert [step.get("name") for step in steps].index("keep the store") < len(steps) - 1
    assert all(len(pin) == 40 and int(pin, 16) for pin in pins)
    [install] = [step for step in steps if step.get("name") == "install"]
    assert install["env"]["REPLAY_ACTION"] == "${{ github.action_path }}"


def test_packages_of_the_action_have_hashes_and_are_those_that_are_tested() -> None:
    root = Path(__file__).parents[2]

    def pins(name: str) -> dict[str, str]:
        text = (root / name).read_text(encoding="utf-8")
        entries = re.findall(
            r"^([\w.-]+)==(\S+)((?:.*\n    --hash=sha256:[0-9a-f]{64})*)", text, re.MULTILINE
        )
        assert all(hashes for _, _, hashes in entries)
        return {package: version for package, version, _ in entries}

    installed, tested = pins("requirements-action.lock"), pins("requirements.lock")
    assert {name: tested[name] for name in installed if name in tested} == {
        name: version for name, version in installed.items() if name in tested
    }
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    needed = project["project"]["dependencies"] + project["build-system"]["requires"]
    assert {re.split(r"[\s<>=!~\[;]", line)[0].lower() for line in needed} <= installed.keys()
