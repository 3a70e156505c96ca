"""The nightly workflow that docs/ci.md gives, its steps run as a runner would run them, with a `gh` that keeps issues."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ci.test_action import AGENT, Runner
from tests.stand_ins.full import full

PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text()
GH = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
kept = pathlib.Path({kept!r})
issue = json.loads(kept.read_text()) if kept.exists() else None
if words[:2] == ["issue", "list"] and issue and issue["open"]:
    print(7)
if words[:2] in (["issue", "create"], ["issue", "edit"]):
    body = pathlib.Path(words[words.index("--body-file") + 1]).read_text()
    kept.write_text(json.dumps({{"open": True, "body": body, "by": words[1]}}))
if words[:2] == ["issue", "close"]:
    kept.write_text(json.dumps({{**issue, "open": False}}))
"""


def _step(name: str) -> str:
    block = PAGE.partition("```yaml nightly\n")[2].partition("```")[0]
    steps = yaml.safe_load(block)["jobs"]["drift"]["steps"]
    script: str = next(step["run"] for step in steps if step.get("name") == name)
    # Its source is a server; the traces of the night come from a file here.
    return script.replace("replay import langfuse --since last", "replay import jsonl traces.jsonl")


class Night(Runner):
    """A runner with yesterday's traces, and one issue at most."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        yesterday = datetime.now(UTC) - timedelta(days=1)
        traces = [
            {
                "trace_id": f"t{number}",
                "started_at": yesterday.replace(hour=8, minute=number, tzinfo=None).isoformat() + "Z",
                "input": f"where is {number}",
                "final_response": "It is shipped",
                "tool_calls": [
                    {"name": "get_order", "args": {"id": str(number)}, "result": "shipped", "id": "a"}
                ],
            }
            for number in range(8)
        ]
        (folder / "traces.jsonl").write_text("".join(json.dumps(trace) + "\n" for trace in traces))
        self.issue_file = folder / "issue.json"
        gh = folder / "bin" / "gh"
        gh.write_text(GH.format(python=sys.executable, kept=str(self.issue_file)))

    def night(self) -> None:
        (self.folder / "out").write_text("")
        self._script("replay")
        self._script("issue", DRIFTED=self.outputs["drifted"])

    def _script(self, name: str, **env: str) -> None:
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", _step(name)],
            cwd=self.folder, capture_output=True, text=True, check=False,
            env={
                **os.environ, "PATH": self.path, "GITHUB_OUTPUT": str(self.folder / "out"), "GITHUB_RUN_ID": "5",
                **env,
            },
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    @property
    def issue(self) -> Any:
        return json.loads(self.issue_file.read_text())


@full
@pytest.mark.skipif(sys.platform != "linux", reason="the runner's `date` is GNU's")
def test_one_issue_is_opened_updated_and_closed(tmp_path: Path) -> None:
    night = Night(tmp_path)
    (tmp_path / "shop.py").write_text(AGENT.replace('"get_order"', '"get_orders"'))
    night.night()
    assert (night.issue["open"], night.issue["by"]) == (True, "create")
    assert "HOLD" in night.issue["body"]
    assert night.issue["body"].count(r"got get\_orders") == 2, "both parts name what the agent calls now"
    night.night()
    assert night.issue["by"] == "edit"
    (tmp_path / "shop.py").write_text(AGENT)
    night.night()
    assert night.issue["open"] is False


REPLAY = """#!/bin/sh
case "$1" in
  check) [ {check} = 75 ] || echo "<!-- replaydiff -->" > golden.md; exit {check} ;;
  compare) exit {compare} ;;
  traces) echo '{traces}' ;;
  sample) [ '{traces}' != '[]' ] || exit 2 ;;
esac
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the runner's `date` is GNU's")
@pytest.mark.parametrize(
    ("check", "compare", "traces", "ends", "drifted"),
    [
        (0, 0, "[{}]", 0, "false"),
        (0, 0, "[]", 0, "false"),
        (1, 0, "[]", 0, "true"),
        (0, 4, "[{}]", 0, "true"),
        (3, 0, "[{}]", 0, "true"),
        (75, 0, "[{}]", 75, None),
        (0, 75, "[{}]", 75, None),
        (2, 0, "[]", 2, None),
        (None, 0, "[]", 0, "false"),
    ],
)
def test_a_quiet_night_is_no_drift_and_an_outage_fails_the_job(
    check: int | None, compare: int, traces: str, ends: int, drifted: str | None, tmp_path: Path
) -> None:
    runner = Runner(tmp_path)
    if check is None:
        (tmp_path / "cases" / "golden.jsonl").write_text("\n")
    command = tmp_path / "bin" / "replay"
    command.unlink()
    command.write_text(REPLAY.format(check=check or 0, compare=compare, traces=traces))
    command.chmod(0o755)
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", _step("replay")],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={
            **os.environ, "PATH": runner.path, "GITHUB_OUTPUT": str(tmp_path / "out"), "GITHUB_RUN_ID": "5",
        },
    )  # fmt: skip
    assert done.returncode == ends, done.stderr
    written = (tmp_path / "out").read_text() if (tmp_path / "out").exists() else ""
    assert written == (f"drifted={drifted}\n" if drifted else "")
