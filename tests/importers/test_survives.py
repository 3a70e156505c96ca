"""Imports that are killed, meet a full disk, or meet each other: nothing is lost, nothing is there twice."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import count_traces
from tests.importers.test_redact import run, write
from tests.stand_ins.full import examples, full
from tests.stand_ins.processes import PATIENCE_S, Process, start

TRACES = examples(1_500, 3_000)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces that take some seconds to import, each with a person in it, and some rejects among them."""
    path = tmp_path_factory.mktemp("source") / "f.jsonl"
    with path.open("w") as file:
        for number in range(TRACES):
            file.write(
                json.dumps(
                    {
                        "trace_id": f"t{number}",
                        "started_at": "2026-11-01T10:00:00Z",
                        "input": f"I am user{number % 700}@example.com. " + f"{number} wide " * 120,
                        "tool_calls": [{"name": "look", "args": {"n": number}, "result": "found"}] * 2,
                    }
                )
                + "\n"
            )
            if number % 1_000 == 500:
                file.write("cut {\n")
    return path


LIMITED = """
import resource, signal, sys
from replaydiff.replay.cli import main

# Beyond the limit a write fails as it does where the disk is full.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
main(sys.argv[2:])
"""


def begin(folder: Path, source: Path, limit: int | None = None) -> Process | subprocess.Popen[str]:
    words = ("import", "jsonl", str(source))
    if limit is None:
        return start(folder, *words)
    return start(folder, "-c", LIMITED, str(limit), *words, program="python")


def holds_all(folder: Path) -> None:
    """Import once more; then every trace, call, reject and token is there once."""
    result = run("import", "jsonl", str(folder / "f.jsonl"))
    assert result.exit_code == 3
    assert f"{TRACES:,} traces" in result.stdout
    with open_store(folder / ".replay" / "replay.duckdb", read_only=True) as con:
        assert count_traces(con) == TRACES
        for query, wanted in (
            ("SELECT count(*), count(DISTINCT trace_id) FROM tool_calls", (2 * TRACES, TRACES)),
            ("SELECT count(*) FROM rejects", (TRACES // 1_000,)),
            ("SELECT count(*), count(DISTINCT digest), max(number) FROM redactions", (700, 700, 700)),
            ("SELECT count(DISTINCT string_split(input, '.')[1]) FROM traces", (700,)),
        ):
            assert con.execute(query).fetchone() == wanted, query


@pytest.fixture
def folder(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.jsonl").symlink_to(source)
    write(tmp_path / "replay.toml", "[import.redact]\n")
    return tmp_path


def wait_for_store(folder: Path, process: Process | subprocess.Popen[str], size: int) -> None:
    """Until so much was written."""
    until = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < until:
        if sum(file.stat().st_size for file in (folder / ".replay").glob("*")) > size:
            return
        time.sleep(0.005)
    pytest.fail("the import ended before it could be killed")


@pytest.mark.parametrize("size", [20_000, pytest.param(300_000, marks=full)])
@pytest.mark.slow
def test_killed_at_any_moment_and_run_again(folder: Path, size: int) -> None:
    with begin(folder, folder / "f.jsonl") as process:
        wait_for_store(folder, process, size)
        process.kill()
    holds_all(folder)


@pytest.mark.slow
def test_a_full_disk_is_told_and_what_was_committed_stays(folder: Path) -> None:
    with begin(folder, folder / "f.jsonl", limit=600_000) as process:
        _, said = process.communicate()
    assert process.returncode == 75
    assert said.startswith("error: the store could not be written (File too large)")
    assert "Traceback" not in said
    holds_all(folder)


@pytest.mark.slow
def test_of_two_imports_at_once_one_is_told_who_is_in_the_way(folder: Path) -> None:
    with begin(folder, folder / "f.jsonl") as process:
        wait_for_store(folder, process, 20_000)
        process.send_signal(signal.SIGSTOP)
        second = run("import", "jsonl", "f.jsonl")
        process.send_signal(signal.SIGCONT)
        process.communicate()
    assert second.exit_code == 75
    assert f"is in use by process {process.pid}" in second.stderr
    assert process.returncode == 3
    holds_all(folder)
