"""Two branches' golden sets become one, by hand and by git, and a conflict is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from replaydiff.replay.golden import read_golden
from tests.commands.conftest import Replay, replay

__all__ = ["replay"]
BASE = {"a": "one", "m": "two", "z": "three"}


def _write(file: Path, cases: dict[str, str]) -> Path:
    records = [{"id": name, "input": text, "expected_tools": ["t"]} for name, text in cases.items()]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    items = "".join(
        f"- id: {name}\n  input: {text}\n  expected_tools: [t]  # {name}\n" for name, text in cases.items()
    )
    texts = {".jsonl": lines, ".json": json.dumps(records, indent=2), ".yaml": items}
    file.write_text(texts[file.suffix])
    return file


def _cases(file: Path) -> dict[str, str]:
    return {case.id: case.input for case in read_golden(file)}


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".yaml"])
def test_what_one_side_did_is_done(replay: Replay, tmp_path: Path, ending: str) -> None:
    base = _write(tmp_path / f"base{ending}", BASE)
    ours = _write(tmp_path / f"ours{ending}", {**BASE, "c": "five"})
    theirs = _write(tmp_path / f"theirs{ending}", {"a": "one", "b": "four", "z": "drei"})
    done = replay("cases", "merge", str(theirs), "--base", str(base), "--cases", str(ours), "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert (told["added"], told["changed"], told["removed"]) == (["b"], ["z"], ["m"])
    assert _cases(ours) == {"a": "one", "b": "four", "c": "five", "z": "drei"}


def test_what_both_did_differently_stays_and_is_named(replay: Replay, tmp_path: Path) -> None:
    base = _write(tmp_path / "base.jsonl", BASE)
    ours = _write(tmp_path / "ours.jsonl", {"a": "eins", "n": "new", "z": "three!"})
    theirs = _write(tmp_path / "theirs.jsonl", {"a": "uno", "m": "deux", "n": "nouveau"})
    before = ours.read_bytes()
    done = replay("cases", "merge", str(theirs), "--base", str(base), "--cases", str(ours))
    assert (done.code, ours.read_bytes()) == (1, before)
    for said in (
        "a: changed on both sides, differently", "m: taken out here, changed there",
        "n: added on both sides, differently", "z: changed here, taken out there",
    ):  # fmt: skip
        assert f"conflict: {said}" in done.err


def test_git_merges_golden_sets_with_it(tmp_path: Path) -> None:
    def git(*words: str) -> int:
        given = ["-c", "user.name=Ada", "-c", "user.email=a@b.example", *words]
        return subprocess.run(["git", *given], cwd=tmp_path, capture_output=True, check=False).returncode

    golden = _write(tmp_path / "golden.jsonl", BASE)
    (tmp_path / ".gitattributes").write_text("golden.jsonl merge=golden\n")
    git("init", "-b", "main")
    git(
        "config", "merge.golden.driver", f"{sys.executable} -m replaydiff cases merge --cases %A --base %O %B"
    )
    git("add", "-A")
    git("commit", "-m", "1")
    git("checkout", "-b", "side")
    _write(golden, {"a": "one", "b": "four", "m": "two", "z": "three"})
    git("commit", "-am", "2")
    git("checkout", "main")
    _write(golden, {"a": "one", "c": "five", "m": "two", "z": "three"})
    git("commit", "-am", "3")
    assert git("merge", "side", "-m", "both") == 0
    assert list(_cases(golden)) == ["a", "b", "c", "m", "z"]


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".yaml"])
def test_cases_are_retired_from_every_form_and_come_back(replay: Replay, tmp_path: Path, ending: str) -> None:
    golden = _write(tmp_path / f"golden{ending}", BASE)
    assert replay("cases", "retire", "m", "a", "--reason", "sold", "--cases", str(golden)).code == 0
    assert _cases(golden) == {"z": "three"}
    assert replay("cases", "merge", str(tmp_path / "retired.jsonl"), "--cases", str(golden)).code == 0
    assert _cases(golden) == BASE


def test_a_table_is_read_only(replay: Replay, tmp_path: Path) -> None:
    table = tmp_path / "golden.csv"
    table.write_text("id,input,expected_tools\na,one,t\n")
    done = replay("cases", "retire", "a", "--reason", "x", "--cases", str(table))
    assert done.code == 2
    assert f"replay cases convert {table} {tmp_path / 'golden.jsonl'}" in done.err
