"""A large import is done in several processes: nobody can tell from what comes of it, however it ends."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replaydiff.importers.base import find_importer
from replaydiff.importers.collect import collected
from replaydiff.importers.ingest import SMALL_BYTES, ingest
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.import_records import list_rejects
from replaydiff.replay.store.traces import count_traces
from tests.importers.reading import SAMPLE_FILES, good_record
from tests.stand_ins.full import full
from tests.stand_ins.processes import PATIENCE_S, Process, start

TRACES = 6_000


def _lines(path: Path) -> Path:
    """Records, blanks, duplicates, notes, and what cannot be read, in no order."""
    lines = ["\ufeff"]
    for number in range(600):
        lines.append(json.dumps({**good_record("jsonl", number % 550), "session_id": str(number)}))
        if number % 50 == 7:
            lines += ["", "  ", "cut {", json.dumps({**good_record("jsonl", 1000 + number), "odd": 1}), "17"]
    path.write_text("\r\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("block_bytes", [100, 5_000, 1_000_000])
@pytest.mark.slow
def test_blocks_give_what_the_whole_file_gives(
    block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _lines(tmp_path / "f.jsonl")
    found: list[Any] = []
    monkeypatch.setattr("replaydiff.importers.ingest.cores", lambda: 2)
    for name, alone_bytes, size in (("alone", 10**9, 10**9), ("many", 0, block_bytes)):
        monkeypatch.setattr("replaydiff.importers.ingest.SMALL_BYTES", alone_bytes)
        monkeypatch.setattr("replaydiff.importers.reading.json_values.BLOCK_BYTES", size)
        with collected([str(file)]) as files, open_store(tmp_path / f"{name}.duckdb") as con:
            report = ingest(con, find_importer("jsonl"), files)
            rows = con.execute("SELECT * EXCLUDE imported_at FROM traces ORDER BY rowid").fetchall()
            rejects = [(reject.line, reject.reason, reject.record) for reject in list_rejects(con)]
        found.append((report, rows, rejects))
    assert found[0] == found[1]
    report, rows, rejects = found[0]
    assert (report.new, report.duplicates, len(rows), len(rejects)) == (562, 50, 562, 24)
    assert rejects[0][0] == 12


def _mixed_logs(folder: Path) -> list[Path]:
    """Conversations, runs of calls over two files, forks, sessions, batches, and what cannot be read."""
    lines: list[str] = []
    for number in range(60):
        ask = {"role": "user", "content": f"order {number % 50}?"}
        call = {"id": f"c{number}", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
        asks = {"role": "assistant", "content": None, "tool_calls": [call]}
        result = {"role": "tool", "tool_call_id": f"c{number}", "content": "shipped"}
        says = {"role": "assistant", "content": f"it was shipped {number}"}
        history: list[Any] = [ask]
        for step, answer in enumerate((asks, says)):
            reply = {"id": f"r{number}-{step}", "created": 1793527200 + number}
            reply["choices"] = [{"message": answer}]
            lines.append(json.dumps({"request": {"messages": history}, "response": reply}))
            history = [*history, answer, result]
        asked = {"custom_id": f"b{number}", "body": {"messages": [ask]}}
        body = {"id": f"a{number}", "created": 1793527200, "choices": [{"message": says}]}
        lines += [json.dumps(asked), json.dumps({"custom_id": f"b{number}", "response": {"body": body}})]
        lines.append(json.dumps({"messages": [ask, asks, result, says], "created": 1793527200 + number}))
        output = [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}
        ]
        previous = {"previous_response_id": f"p{number - 1}"} if number % 3 else {}
        response = {"id": f"p{number}", "object": "response", "created_at": 1793527200, "output": output}
        lines.append(json.dumps({"request": {"input": "go on", **previous}, "response": response | previous}))
    lines += ["cut {", "17", json.dumps({"no": "messages"})]
    random.Random(3).shuffle(lines)
    paths = [folder / "one.jsonl", folder / "two.jsonl"]
    for path, part in zip(paths, (lines[:200], lines[200:]), strict=True):
        path.write_text("\n".join(part))
    return paths


@pytest.mark.slow
def test_logs_in_blocks_give_the_same_runs_and_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(path) for path in _mixed_logs(tmp_path)]
    found: list[Any] = []
    monkeypatch.setattr("replaydiff.importers.ingest.cores", lambda: 2)
    for name, alone_bytes, size in (("alone", 10**9, 10**9), ("many", 0, 4_000)):
        monkeypatch.setattr("replaydiff.importers.ingest.SMALL_BYTES", alone_bytes)
        monkeypatch.setattr("replaydiff.importers.reading.json_values.BLOCK_BYTES", size)
        with collected(paths) as files, open_store(tmp_path / f"{name}.duckdb") as con:
            reports = [ingest(con, find_importer("openai"), files) for _ in range(2)]
            rows = con.execute("SELECT * EXCLUDE imported_at FROM traces ORDER BY trace_id").fetchall()
            calls = con.execute("SELECT * FROM tool_calls ORDER BY ALL").fetchall()
            rejects = [(reject.line, reject.reason, reject.record) for reject in list_rejects(con)]
        found.append((reports, rows, calls, rejects))
    assert found[0] == found[1]
    [[first, again], rows, calls, rejects] = found[0]
    assert (first.new, again.unchanged, again.rejected, len(rejects)) == (len(rows), len(rows), 3, 3)
    assert len(calls) == 120, "a run and a conversation of each sixty"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "f.jsonl"
    with path.open("w") as file:
        for number in range(TRACES):
            record = {**good_record("jsonl", number), "metadata": {"text": "wide " * 400}}
            file.write(json.dumps(record) + "\n")
    assert path.stat().st_size > SMALL_BYTES
    return path


def _begin(folder: Path, source: Path) -> Process | subprocess.Popen[str]:
    return start(folder, "--db", "s.duckdb", "import", "jsonl", str(source), session=True)


def _processes(parent: int) -> list[int]:
    """Those that do the jobs of an import."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(child) for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def _wait(until: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := until()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are found by /proc")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core does all in one process")
@pytest.mark.parametrize(
    "how",
    [
        "a process is killed",
        pytest.param("Ctrl-C", marks=full),
        pytest.param("the import is killed", marks=full),
    ],
)
def test_an_import_that_ends_half_way_leaves_nothing_behind(how: str, tmp_path: Path, large: Path) -> None:
    running = _begin(tmp_path, large)
    processes = _wait(lambda: _processes(running.pid))
    if how == "a process is killed":
        os.kill(processes[0], signal.SIGKILL)
    elif how == "Ctrl-C":
        os.killpg(running.pid, signal.SIGINT)
    else:
        running.kill()
    _, told = running.communicate(timeout=PATIENCE_S)
    if how == "a process is killed":
        assert running.returncode == 75
        assert told.startswith("error: a process of the import was killed")
        assert told.count("\n") == 1
    elif how == "Ctrl-C":
        assert (running.returncode, told.strip()) == (130, "interrupted")
    _wait(lambda: not any(Path(f"/proc/{process}").exists() for process in processes))
    again = _begin(tmp_path, large)
    assert again.communicate(timeout=PATIENCE_S)[1] == ""
    assert again.returncode == 0
    with open_store(tmp_path / "s.duckdb", read_only=True) as con:
        assert count_traces(con) == TRACES


@pytest.mark.parametrize("source", ["codex", "tau2", "inspect", "atif", "claude-code", "phoenix"])
@pytest.mark.slow
def test_files_in_several_processes_give_what_one_gives(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(file) for file in SAMPLE_FILES if file.parent.name == source]
    broken = tmp_path / "broken.json"
    broken.write_text('{"cut": "here')
    packed = tmp_path / "packed.json.gz"
    packed.write_bytes(gzip.compress(Path(paths[-1]).read_bytes()))
    monkeypatch.setattr("replaydiff.importers.ingest.cores", lambda: 2)
    monkeypatch.setattr("replaydiff.importers.convert.FILES_BYTES", 1)
    monkeypatch.setattr("replaydiff.importers.convert.GROUPS_A_JOB", 1)
    monkeypatch.setattr("replaydiff.importers.reading.archives.PART_BYTES", 1)
    found: list[Any] = []
    for name, alone_bytes in (("alone", 10**9), ("many", 0)):
        monkeypatch.setattr("replaydiff.importers.ingest.SMALL_BYTES", alone_bytes)
        with (
            collected([*paths, str(broken), str(packed)]) as files,
            open_store(tmp_path / f"{name}.duckdb") as con,
        ):
            reports = [ingest(con, find_importer(source), files) for _ in range(2)]
            stored = [
                con.execute("SELECT * EXCLUDE imported_at FROM traces ORDER BY rowid").fetchall(),
                con.execute("SELECT * FROM tool_calls ORDER BY ALL").fetchall(),
                con.execute("SELECT * EXCLUDE rejected_at FROM rejects ORDER BY ALL").fetchall(),
            ]
        found.append((reports, stored, [file.position for file in files]))
    assert found[0] == found[1]
    [[first, again], stored, _] = found[0]
    assert (again.new, again.updated, again.unchanged) == (0, 0, first.new)
    assert first.new == len(stored[0]) > 0
    assert first.rejected > 0
