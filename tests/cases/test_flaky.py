"""A case that passes and fails with one and the same version is named by `replay cases lint`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.commands.conftest import Replay, replay
from tests.diff.build import RUN_ID, case, store, trials

__all__ = ["replay"]


def test_a_case_that_flips_within_one_version_is_flaky(replay: Replay, tmp_path: Path) -> None:
    names = ("steady", "moved", "within", "between")
    items = [case(name) for name in names]
    done = [
        *trials("steady", old="11", new="11", old2="11"),
        *trials("moved", old="11", new="00", old2="11"),
        *trials("within", old="11", new="10", old2="11"),
        *trials("between", old="11", new="11", old2="00"),
    ]
    built = store(tmp_path, items, done)
    (tmp_path / "replay.toml").write_text("")
    (tmp_path / ".replay").mkdir(exist_ok=True)
    built.rename(tmp_path / ".replay" / "replay.duckdb")
    golden = tmp_path / "cases" / "golden.jsonl"
    golden.parent.mkdir()
    golden.write_text(
        "".join(json.dumps({"id": n, "input": n * 3, "expected_tools": ["t"]}) + "\n" for n in names)
    )
    findings = json.loads(replay("cases", "lint", "--json").out)["findings"]
    said = {one["case"]: one["text"] for one in findings if one["text"].startswith("flaky")}
    assert said.keys() == {"within", "between"}
    assert said["between"].startswith(
        f"flaky: 2 of 4 trials of one version passed (old and old2 of run {RUN_ID})"
    )
    assert "1 of 2 trials of one version passed (new of run" in said["within"]
