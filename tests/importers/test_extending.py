"""The example of docs/extending/importers.md, installed as a distribution of its own and run by the command."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import replaydiff as rd
from replaydiff.importers.base import InputFile
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import get_trace
from tests.importers.reading import good_record
from tests.stand_ins import processes
from tests.stand_ins.distributions import blocks, install


def block(language: str) -> str:
    (found,) = blocks("importers", language)
    return found


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with the distribution as an installer leaves it there; gives an empty one."""
    site = tmp_path / "site"
    install(site, "acme_traces", block("python"), block("toml"))
    monkeypatch.setenv("PYTHONPATH", str(site))
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def replay(folder: Path, *args: str) -> tuple[int, str, str]:
    done = processes.replay(folder, *args)
    return done.returncode, done.stdout, done.stderr


def test_the_example_is_an_importer_like_the_built_in_ones(installed: Path) -> None:
    record = json.loads(block("json"))
    wrong = [{"run": "r-2", "question": "?", "calls": []}, {**record, "run": "r-3", "calls": [{"tool": "x"}]}]
    (installed / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [record, *wrong]))
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
    assert err.splitlines()[0] == "a.jsonl: detected as acme (records have question, run)"
    assert json.loads(out)["source"] == "acme,openai"


def test_a_name_that_is_wrong_lists_it(installed: Path) -> None:
    code, _, err = replay(installed, "import", "acmee", "x")
    assert code == 2
    assert "did you mean 'acme'?" in err


def converted(function: Any, *records: Any) -> list[Any]:
    """What an importer made of a function yields for these records."""
    return [one for record in records for one in function._convert(record, FILE)]


FILE = InputFile(path="f", name="f", size=0, modified=0.0)


def test_a_function_may_return_whatever_describes_a_record() -> None:
    trace = rd.Trace(trace_id="t", source="acme", started_at=datetime(2026, 11, 1), input="q")

    @rd.importer("acme", keys=["id"])
    def acme(record: dict[str, Any]) -> Any:
        """Runs of Acme.

        In many shapes.
        """
        shapes = {
            "trace": trace,
            "none": None,
            "skipped": rd.Skipped("a test"),
            "several": (one for one in [rd.Note("odd"), trace]),
        }
        return shapes[record["id"]]

    assert (acme.NAME, acme.RECOGNISED_BY) == ("acme", "records have id")
    assert converted(acme, {"id": "trace"}) == [trace]
    assert converted(acme, {"id": "none"}) == [rd.Skipped("left out by the importer")]
    assert converted(acme, {"id": "skipped"}) == [rd.Skipped("a test")]
    assert converted(acme, {"id": "several"}) == [rd.Note("odd"), trace]
    assert [acme.recognises(one) for one in ({"id": 1}, {"other": 1}, ["id"], None)] == [0.95, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (lambda _: ["text"], "the importer returned str, which is not a trace"),
        (lambda _: 7, "the importer failed (TypeError: 'int' object is not iterable)"),
        (lambda record: record["id"], "id is missing"),
        (lambda _: {"trace_id": "t"}, "started_at is missing"),
        (lambda _: 1 / 0, "the importer failed (ZeroDivisionError: division by zero)"),
    ],
)
def test_what_a_function_refuses_or_cannot_say_is_a_reject(returned: Any, reason: str) -> None:
    acme = rd.importer("acme")(returned)
    with pytest.raises(rd.RecordError) as refused:
        converted(acme, {"other": 1})
    assert str(refused.value) == reason
    assert acme.recognises({"other": 1}) == 0.0
    with pytest.raises(rd.RecordError, match="a record must be an object, not a list"):
        converted(acme, [])
