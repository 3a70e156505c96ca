"""`auto` tells every source from every other, and says so where it cannot."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from replaydiff.importers.base import BUILTIN, find_importer
from replaydiff.importers.collect import APART, LOOKED_AT, collected, detect
from replaydiff.importers.reading import Record, records
from replaydiff.replay.errors import InputError
from tests.importers.reading import SAMPLE_FILES, SAMPLES, good_record


def _write(path: Path, *values: Any) -> Path:
    path.write_text(
        "".join((value if isinstance(value, str) else json.dumps(value)) + "\n" for value in values)
    )
    return path


def _detected(path: Path) -> str:
    with collected([str(path)]) as (file,):
        return detect(file).NAME


def _refused(path: Path) -> str:
    with pytest.raises(InputError) as refused:
        _detected(path)
    return str(refused.value).replace(f"{path.parent}/", "")


@pytest.mark.parametrize("sample", SAMPLE_FILES, ids=lambda file: str(file.relative_to(SAMPLES)))
def test_every_sample_is_known_by_its_own_importer_and_by_no_other(sample: Path) -> None:
    assert _detected(sample) == sample.parent.name
    with collected([str(sample)]) as (file,):
        first = next(record.value for record in records(file) if isinstance(record, Record))
    sure = {name: find_importer(name).recognises(first) for name in BUILTIN}
    others = [value for name, value in sure.items() if name != sample.parent.name]
    assert sure[sample.parent.name] - max(others) >= APART


OPENAI = {"messages": [{"role": "user", "content": "hi"}]}
BLOCKS = [{"role": "assistant", "content": [{"type": "tool_use", "id": "k", "name": "t", "input": {}}]}]
DECISIONS: list[tuple[Any, str]] = [
    (OPENAI, "openai"),
    ({**OPENAI, "system": "Be kind."}, "anthropic"),
    ({**OPENAI, "tools": [{"name": "t", "input_schema": {}}]}, "anthropic"),
    ({**OPENAI, "tools": [{"type": "function", "function": {"name": "t"}}]}, "openai"),
    ({"messages": BLOCKS}, "anthropic"),
    ({"request": OPENAI, "response": {"type": "message", "role": "assistant", "content": []}}, "anthropic"),
    ({"request": OPENAI, "response": {"object": "chat.completion", "choices": []}}, "openai"),
    ({"request": json.dumps(OPENAI), "response": json.dumps({"choices": []})}, "openai"),
    ({"custom_id": "1", "params": OPENAI}, "anthropic"),
    ({"custom_id": "1", "body": OPENAI}, "openai"),
    ({"custom_id": "1", "result": {"type": "expired"}}, "anthropic"),
    ({"trace_id": "t", "started_at": "2026-11-01", **OPENAI}, "jsonl"),
    ({"type": "user", "sessionId": "s", "uuid": "u", "message": OPENAI["messages"][0]}, "claude-code"),
]


@pytest.mark.parametrize(("record", "source"), DECISIONS)
def test_close_cases(record: Any, source: str, tmp_path: Path) -> None:
    assert _detected(_write(tmp_path / "f.jsonl", record)) == source


def test_lines_that_nobody_knows_say_nothing(tmp_path: Path) -> None:
    assert _detected(_write(tmp_path / "f.jsonl", *[{"header": 1}] * 50, "no JSON", OPENAI)) == "openai"


def test_a_few_odd_records_do_not_turn_it(tmp_path: Path) -> None:
    odd = {**OPENAI, "system": "Be kind."}
    assert _detected(_write(tmp_path / "f.jsonl", odd, *[OPENAI] * LOOKED_AT)) == "openai"


def test_where_two_are_as_likely_both_are_named(tmp_path: Path) -> None:
    likely = good_record("openai", 1) | {"trace_id": "x"}
    assert _refused(_write(tmp_path / "f.jsonl", likely, {"trace_id": "y", "input": "?"})) == (
        "f.jsonl may be for jsonl (50%) or openai (45%); say which: `replay import jsonl f.jsonl`"
    )


def test_what_nobody_knows_names_all_sources(tmp_path: Path) -> None:
    assert _refused(_write(tmp_path / "f.jsonl", {"alpha": 1, "beta": 2})) == (
        "f.jsonl: no importer knows these records (they have alpha, beta); "
        f"say which source it is: {', '.join(BUILTIN)}; "
        "if it is none of them, write one trace a line as jsonl (docs/importing.md)"
    )
    assert "none of its first records can be read" in _refused(_write(tmp_path / "g.jsonl", "{bad", "{bad"))


def test_importers_of_other_distributions_take_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_traces.py").write_text(
        "NAME, RECOGNISED_BY = 'acme', 'records have an acme'\n"
        "def recognises(record): return 0.9 * ('acme' in record)\n"
        "def read_files(files): return iter(())\n"
    )
    about = tmp_path / "acme-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[replaydiff.importers]\nacme = acme_traces\nbroken = there_is_no_such_module\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert _detected(_write(tmp_path / "f.jsonl", {"acme": 1})) == "acme"
    # It takes `in` of a number, which is no answer: the others still decide.
    assert _detected(_write(tmp_path / "g.jsonl", "17", OPENAI)) == "openai"
    sys.modules.pop("acme_traces")
