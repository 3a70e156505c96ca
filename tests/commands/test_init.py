"""`replay init` writes a start, and never over what is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from replaydiff.replay import settings
from replaydiff.replay.cli import cli


def test_init_writes_settings_that_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["init"])
    assert result.exit_code == 0
    loaded = settings.load(tmp_path, {})
    assert loaded.file == tmp_path / "replay.toml"
    assert loaded.run.aa
    assert loaded.judge.model is None, "nothing paid is on by default"
    assert (tmp_path / "cases" / "golden.jsonl").read_text() == ""
    assert "replay check" in (tmp_path / ".github" / "workflows" / "replay.yml").read_text()


def test_init_leaves_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "replay.toml").write_text("# mine\n")
    (tmp_path / ".gitignore").write_text("dist/")
    first = CliRunner().invoke(cli, ["init", str(tmp_path)])
    assert first.exit_code == 0
    assert (tmp_path / "replay.toml").read_text() == "# mine\n"
    assert (tmp_path / ".gitignore").read_text() == "dist/\n.replay/\nreplay-report*\n"
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    again = CliRunner().invoke(cli, ["init", str(tmp_path)])
    assert again.output.count("kept") == 4
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
