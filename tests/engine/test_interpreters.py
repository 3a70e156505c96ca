"""The agent's interpreter is found where projects keep it, and never our own environment's by mistake."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from replaydiff.replay.engine import interpreters
from replaydiff.replay.engine.interpreters import find_interpreter
from tests.engine.project import Project, git


@pytest.fixture(autouse=True)
def nothing_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"):
        monkeypatch.delenv(name, raising=False)


def venv(folder: Path) -> str:
    """An environment with an interpreter that is a link, as `venv` makes it."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    (folder / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).parent}\n")
    return str(python)


def test_the_environment_beside_the_agent_is_taken_and_its_link_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "services" / "agent").mkdir(parents=True)
    python = venv(tmp_path / ".venv")
    chosen = find_interpreter(tmp_path / "services" / "agent")
    assert (chosen.path, chosen.origin) == (python, f".venv of {tmp_path}")


def test_an_environment_above_the_repository_is_not_the_agents(tmp_path: Path) -> None:
    venv(tmp_path / ".venv")
    (tmp_path / "agent" / ".git").mkdir(parents=True)
    assert find_interpreter(tmp_path / "agent").path is None
    (tmp_path / "no-repository").mkdir()
    assert find_interpreter(tmp_path / "no-repository").path is None


def test_the_active_environment_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, active = venv(tmp_path / ".venv"), venv(tmp_path / "active")
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "active"))
    monkeypatch.setenv("CONDA_DEFAULT_ENV", "base")
    assert find_interpreter(tmp_path).path == beside
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    assert find_interpreter(tmp_path).path == active
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    assert find_interpreter(tmp_path).path is None, "it runs replay, so nothing else is named"


def test_a_lock_files_tool_names_its_environment_and_a_broken_one_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = venv(tmp_path / "cache" / "shop-py3.11")
    (tmp_path / "bin").mkdir()
    poetry = tmp_path / "bin" / "poetry"
    poetry.write_text(f'#!/bin/sh\n[ "$*" = "env info --executable" ] && echo {python}\n')
    poetry.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "poetry.lock").touch()
    assert find_interpreter(tmp_path / "agent").path == python
    assert find_interpreter(tmp_path / "agent", ask_managers=False).path is None
    poetry.write_text("#!/bin/sh\necho no environment; exit 1\n")
    assert find_interpreter(tmp_path / "agent").path is None


def test_a_tool_of_its_own_runs_agents_with_the_python_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = venv(tmp_path / "ci")
    (Path(python).parent / "python3").symlink_to(python)
    monkeypatch.setenv("PATH", str(Path(python).parent))
    assert find_interpreter(tmp_path).path is None
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool" / "uv-receipt.toml").touch()
    monkeypatch.setattr(interpreters.sys, "prefix", str(tmp_path / "tool"))
    chosen = find_interpreter(tmp_path)
    assert (chosen.path, chosen.origin) == (str(tmp_path / "ci" / "bin" / "python3"), "python3 on PATH")


@pytest.mark.slow
def test_a_run_uses_the_agents_packages_and_not_ours(tmp_path: Path) -> None:
    project = Project(tmp_path / "shop")
    project.write(
        "v1", "import sys, shop_sdk\n\ndef run_agent(text):\n    return f'{shop_sdk.NAME} {sys.prefix}'\n"
    )
    project.settings('[agent]\nentrypoint = "app.agent:run_agent"\ntools = []\n')
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", project.folder / ".venv"], check=True)
    packages = next((project.folder / ".venv" / "lib").glob("python*/site-packages"))
    (packages / "shop_sdk.py").write_text("NAME = 'the sdk of the agent'\n")
    git(project.folder, "add", "--all")
    git(project.folder, "commit", "--quiet", "--message", "v1")
    done = project.replay("doctor", "--probe", "git:HEAD")
    assert f"{project.folder}/.venv/bin/python, by .venv of {project.folder}" in done.out
    assert "version 'git:HEAD' starts" in done.out, done.out
