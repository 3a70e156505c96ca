"""What `doctor` reports where `replay` shares the agent's environment."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from replaydiff.replay.api import installation
from replaydiff.replay.api.diagnosis import State, diagnose
from replaydiff.replay.settings import Settings


def test_packages_of_the_agent_that_ours_replaced_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = installation._installed()
    requires = ("starlette<0.50", "pydantic>=1", "rich<1; extra == 'all'")
    shared = {**real, "fastapi": installation.Package("0.121.0", requires)}
    monkeypatch.setattr(installation, "_installed", lambda: shared)
    (tmp_path / "requirements.txt").write_text("-r more.txt\nAnthropic==1.6  # pinned\nfastapi\nhttpx>=0.1\n")
    (tmp_path / "uv.lock").write_text('[[package]]\nname = "click"\nversion = "7.0"\n')
    (tmp_path / "pyproject.toml").write_text("not = [toml")
    assert installation.replaced_packages(tmp_path) == [
        f"requirements.txt asks for anthropic==1.6, and {version('anthropic')} is installed",
        f"uv.lock asks for click==7.0, and {version('click')} is installed",
        f"fastapi 0.121.0 asks for starlette<0.50, and {version('starlette')} is installed",
    ]
    settings = Settings(root=tmp_path)
    findings = diagnose(lambda: settings, lambda: settings.store_path, probe=None).findings
    environment = next(finding for finding in findings if finding.name == "environment")
    assert environment.state is State.WRONG
    assert "starlette<0.50" in environment.text
    assert "uv tool install" in environment.text


def test_without_a_difference_sharing_is_a_note(tmp_path: Path) -> None:
    assert "pytest" in installation.packages_beside()
    assert "duckdb" not in installation.packages_beside()
    assert "pyjwt" in installation._installed()
    assert "cryptography" not in installation.packages_beside(), "the server's `pyjwt[crypto]` needs it"
    assert installation.replaced_packages(tmp_path) == []
