"""Golden sets behind symbolic links: a repository's link out of it is never written through."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cases.conftest import RUN, Command

CASE = {"id": "first", "input": "hello", "expected_tools": ["search"]}
PROMOTE = ("promote", "trace-0", "--run", RUN)
RETIRE = ("cases", "retire", "first", "--reason", "old")


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is in no repository, with a golden set."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "golden.jsonl").write_text(json.dumps(CASE) + "\n")
    return folder


def _state(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("replayed")
@pytest.mark.parametrize(
    ("words", "linked"),
    [
        (PROMOTE, "cases/golden.jsonl"),
        (PROMOTE, "cases"),
        (RETIRE, "cases/golden.jsonl"),
        (RETIRE, "cases/retired.jsonl"),
        (RETIRE, "cases"),
    ],
)
def test_a_link_out_of_the_repository_is_refused(
    tmp_path: Path, command: Command, outside: Path, words: tuple[str, ...], linked: str
) -> None:
    (tmp_path / ".git").mkdir()
    link = tmp_path / linked
    if linked == "cases":
        link.symlink_to(outside)
    else:
        link.parent.mkdir()
        (tmp_path / "cases" / "golden.jsonl").write_text(json.dumps(CASE) + "\n")
        link.unlink(missing_ok=True)
        link.symlink_to(outside / link.name)
    before = _state(outside), _state(tmp_path / "cases")
    code, said = command(*words)
    assert code == 2
    assert "out of" in said
    assert "name that file itself" in said
    assert (_state(outside), _state(tmp_path / "cases")) == before


@pytest.mark.usefixtures("replayed")
def test_a_link_within_the_repository_is_followed(tmp_path: Path, command: Command) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "golden.jsonl").write_text(json.dumps(CASE) + "\n")
    (tmp_path / "cases").symlink_to(tmp_path / "shared")
    assert command(*RETIRE)[0] == 0
    assert (tmp_path / "shared" / "golden.jsonl").read_text() == ""
    assert json.loads((tmp_path / "shared" / "retired.jsonl").read_text())["id"] == "first"
    assert (tmp_path / "cases").is_symlink()


def test_init_writes_nothing_through_a_link_out_of_the_repository(
    tmp_path: Path, command: Command, outside: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "app.py").write_text(
        "def get_order(number): ...\ndef run_agent(text): return get_order(text)\n"
    )
    (tmp_path / ".gitignore").symlink_to(outside / "profile")
    before = _state(outside)
    code, said = command("init", "--yes", "--no-probe")
    assert (code, "out of" in said) == (2, True)
    assert _state(outside) == before
    assert not (tmp_path / "replay.toml").exists()
