"""The example of docs/extending/importers.md, installed as a distribution of its own and run by the command."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import get_trace
from tests.importers.reading import good_record
from tests.stand_ins import processes

PAGE = (Path(__file__).parents[2] / "docs" / "extending" / "importers.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with the distribution as an installer leaves it there; gives an empty one."""
    site = tmp_path / "site"
    project = tomllib.loads(block("toml"))["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (site / "acme_traces.py").write_text(block("python"))
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {module}\n" for name, module in entries.items())
            for group, entries in project["entry-points"].items()
        )
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def replay(folder: Path, *args: str) -> tuple[int, str, str]:
    done = processes.replay(folder, *args)
    return done.returncode, done.stdout, done.stderr


def test_the_example_is_an_importer_like_the_built_in_ones(installed: Path) -> None:
    record = json.loads(block("json"))
    lines = [record, {"run": "r-2", "asked": "?", "said": "!"}, {**record, "run": "r-3", "did": ["x"]}]
    (installed / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, err = replay(installed, "import", "acme", "runs.jsonl")
    assert (code, err) == (3, "")
    assert out.splitlines()[:2] == [
        "1 trace from 1 file (acme): 1 new, 0 updated, 0 unchanged; 1 tool call",
        "2 records rejected, the first at runs.jsonl:2: at is missing; see `replay import --rejects`",
    ]
    with open_store(installed / ".replay" / "replay.duckdb", read_only=True) as con:
        trace = get_trace(con, "r-1")
    assert (trace.source, trace.user_id, trace.input) == ("acme", "u-7", "Where is my order?")
    assert trace.final_response == "It is on its way."
    (call,) = trace.tool_calls
    assert (call.name, call.args, call.result, call.answered) == ("get_order", {"id": 7}, "shipped", True)
    code, out, _ = replay(installed, "import", "--retry", "acme")
    assert code == 3
    assert "2 records rejected, the first at runs.jsonl:2" in out


def test_auto_knows_it_beside_the_built_in_ones(installed: Path) -> None:
    (installed / "a.jsonl").write_text(block("json"))
    (installed / "b.jsonl").write_text(json.dumps(good_record("openai", 1)))
    code, out, err = replay(installed, "import", "auto", ".", "--json")
    assert code == 0
    assert err.splitlines()[0] == "a.jsonl: detected as acme (records have run, asked and said)"
    assert json.loads(out)["source"] == "acme,openai"


def test_a_name_that_is_wrong_lists_it(installed: Path) -> None:
    code, _, err = replay(installed, "import", "acmee", "x")
    assert code == 2
    assert "did you mean 'acme'?" in err
