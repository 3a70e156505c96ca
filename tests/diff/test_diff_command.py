"""`replay diff` from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from replaydiff.replay.cli import main
from replaydiff.replay.store.connection import open_store
from tests.diff.build import RUN_ID, item, store, trials
from tests.exit_codes import check_exit

Replay = Callable[..., "Done"]


@pytest.fixture
def regressed(tmp_path: Path) -> Path:
    (tmp_path / "replay.toml").write_text("[match]\ntrust = true\n")
    items = [item(f"t{n}") for n in range(20)]
    done = [t for n, one in enumerate(items) for t in trials(one, old="111", new="000" if n == 3 else "111")]
    return store(tmp_path, items, done)


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Replay:
    """`replay ARGS` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*args: str) -> Done:
        with pytest.raises(SystemExit) as ended:
            main(args)
        return Done(int(ended.value.code or 0), *capsys.readouterr())

    return run


def test_the_first_line_is_the_answer(replay: Replay, regressed: Path) -> None:
    done = replay("diff", "--db", str(regressed))
    assert done.stdout.startswith("HOLD")
    assert done.stderr == ""
    assert done.returncode == 0


def test_json_is_the_whole_of_stdout(replay: Replay, regressed: Path) -> None:
    done = replay("diff", RUN_ID[:8], "--json", "--metric", "tool_calls", "--db", str(regressed))
    document = json.loads(done.stdout)
    assert (document["schema"], document["answer"]) == ("replaydiff.diff/1", "HOLD")
    assert document["items"]["regressed"] == 1
    assert document["cases"][0]["lanes"]["new"]["trials"][0]["served"] == {"tape": 1, "miss": 0}


def test_the_gate_is_the_exit_code(replay: Replay, regressed: Path) -> None:
    def answer(gate: str) -> tuple[int, str]:
        done = replay("diff", "--gate", gate, "--db", str(regressed))
        assert replay("diff", "--gate", gate, "--json", "--db", str(regressed)).returncode == done.returncode
        return done.returncode, done.stdout

    check_exit("gate failed", *answer("default"))
    check_exit("gate passed", *answer("regressed<=1"))
    check_exit("undecided gate", *answer("cost.new>0"))


def test_errors_end_in_3_and_a_gate_outweighs_them(replay: Replay, tmp_path: Path) -> None:
    path = store(
        tmp_path, [item("a"), item("b")], [*trials("a", old="1", new="E"), *trials("b", old="1", new="1")]
    )
    assert replay("diff", "--json", "--db", str(path)).returncode == 3
    assert replay("diff", "--json", "--gate", "default", "--db", str(path)).returncode == 4


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["nosuchrun"], "there is no run 'nosuchrun'"),
        (
            ["--metric", "tool_cals"],
            f"run {RUN_ID}: there is no metric 'tool_cals'; did you mean 'tool_calls'?",
        ),
        (["--gate", "regressed"], "--gate 'regressed' is not a condition; write `default`"),
        (
            ["--gate", "regresed<=1"],
            "--gate 'regresed<=1': there is no figure 'regresed'; did you mean 'regressed'?",
        ),
    ],
)
def test_mistakes_are_one_sentence(replay: Replay, regressed: Path, args: list[str], sentence: str) -> None:
    done = replay("diff", *args, "--db", str(regressed))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {sentence}")
    assert done.stderr.count("\n") == 1


def test_a_store_without_runs_says_how_to_start_one(replay: Replay, tmp_path: Path) -> None:
    path = tmp_path / "empty.duckdb"
    with open_store(path):
        pass
    done = replay("diff", "--db", str(path))
    assert done.returncode == 2
    assert (
        done.stderr
        == "error: there is no run in the store; start one with `replay run` or `replay compare`\n"
    )
