"""Reading and deciding while another process writes: the last committed state, and nothing of it lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import duckdb
import pytest

from replaydiff.cases.triage.decisions import Decisions
from replaydiff.replay.errors import StoreBusyError
from replaydiff.replay.model import Action, GradeState, Vote
from replaydiff.replay.store import pending, snapshot
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.grades import StoredVote, decisions, read_votes, vote_row
from replaydiff.replay.store.traces import count_traces, write_traces
from tests.diff.build import item
from tests.stand_ins.full import examples
from tests.store.build import trace

WRITER = """
import sys
from pathlib import Path
from replaydiff.replay.store.connection import open_store
with open_store(Path(sys.argv[1])) as con:
    print("open", flush=True)
    for line in sys.stdin:
        con.execute(line)
        print("done", flush=True)
"""
BUSY = """
import sys, random
from pathlib import Path
from replaydiff.replay.store.connection import open_store
chance = random.Random(7)
with open_store(Path(sys.argv[1])) as con:
    con.execute("CREATE TABLE first (n BIGINT, text VARCHAR); CREATE TABLE second AS FROM first")
    print("open", flush=True)
    while not Path(sys.argv[2]).exists():
        rows = chance.choice([1, 50, 3000, 130_000 if chance.random() < 0.1 else 10])
        con.begin()
        for table in ("first", "second"):
            con.execute(f"INSERT INTO {table} SELECT range, md5(range::VARCHAR) FROM range({rows})")
            if chance.random() < 0.3:
                con.execute("SELECT count(*) FROM first").fetchone()
        if chance.random() < 0.1:
            con.execute("DELETE FROM first WHERE n > 20; DELETE FROM second WHERE n > 20")
        con.commit()
        if chance.random() < 0.1:
            con.execute("CHECKPOINT")
"""
AT = datetime(2026, 11, 1, 12)
VOTE = StoredVote(
    judge="j", material="m", vote=Vote(index=0, state=GradeState.SCORED, score=1.0), cost_usd=0.1
)


class Writer:
    """Another process that has the store open to write."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process, self.pid = process, process.pid

    def execute(self, statement: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{statement}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"


@contextmanager
def writer(path: Path, code: str = WRITER, *args: Path) -> Iterator[Writer]:
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path), *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            yield Writer(process)
        finally:
            for file in args:
                file.touch()
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait() == 0


def _sessions(path: Path) -> list[str | None]:
    with open_store(path, read_only=True) as con:
        return [name for (name,) in con.execute("SELECT session_id FROM traces").fetchall()]


@pytest.mark.slow
def test_a_reader_sees_what_a_writer_has_committed_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with open_store(path) as con:
        write_traces(con, [trace("a", session_id="before")])
    with writer(path) as other:
        assert _sessions(path) == ["before"]
        for name in ("one", "two"):
            other.execute(f"UPDATE traces SET session_id = '{name}'")
            assert _sessions(path) == [name]
        other.execute("BEGIN; UPDATE traces SET session_id = 'never'")
        assert _sessions(path) == ["two"]
        other.execute("ROLLBACK; CHECKPOINT")
        assert _sessions(path) == ["two"]
        with open_store(path, read_only=True) as con, pytest.raises(duckdb.Error, match="read-only"):
            con.execute("DELETE FROM traces")
        with pytest.raises(StoreBusyError, match=f"process {other.pid}"):
            open_store(path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["s.duckdb"]


@pytest.mark.slow
def test_a_copy_is_of_one_moment_whatever_the_writer_does(tmp_path: Path) -> None:
    path, end = tmp_path / "s.duckdb", tmp_path / "end"
    states = set()
    with writer(path, BUSY, end):
        for _ in range(examples(15, 40)):
            with open_store(path, read_only=True) as con:
                found = con.execute(
                    "SELECT (SELECT (count(*), bit_xor(hash(f))) FROM first f),"
                    " (SELECT (count(*), bit_xor(hash(s))) FROM second s)"
                ).fetchone()
            assert found is not None
            assert found[0] == found[1]
            states.add(found[0])
    assert len(states) > 5


@pytest.mark.slow
def test_the_same_copy_serves_until_something_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, copies = tmp_path / "s.duckdb", []
    copy = snapshot.copy
    monkeypatch.setattr(snapshot, "copy", lambda path, folder: copies.append(path) or copy(path, folder))
    with open_store(path) as con:
        write_traces(con, [trace("a")])
    with writer(path) as other:
        for _ in range(3):
            _sessions(path)
        assert len(copies) == 1
        other.execute("UPDATE traces SET session_id = 'x'")
        _sessions(path)
        assert len(copies) == 2


def test_this_process_reads_through_what_it_writes_with(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with open_store(path) as con:
        write_traces(con, [trace("a")])
        with open_store(path, read_only=True) as reading:
            assert count_traces(reading) == 1


@pytest.mark.parametrize("read_only", [False, True])
def test_opening_twice_in_a_process_keeps_its_lock(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "s.duckdb"
    open_store(path).close()
    other = "import duckdb, sys; duckdb.connect(sys.argv[1])"
    with open_store(path, read_only=read_only):
        open_store(path, read_only=read_only).close()
        done = subprocess.run(
            [sys.executable, "-c", other, str(path)], capture_output=True, text=True, check=False
        )
    assert "Could not set lock" in done.stderr


@pytest.mark.slow
def test_a_decision_waits_while_another_process_writes_and_is_seen_at_once(tmp_path: Path) -> None:
    path = tmp_path / ".replay" / "s.duckdb"
    open_store(path).close()
    with writer(path):
        for _ in range(2):
            Decisions(path, tmp_path / "golden.jsonl", "Ada").dismiss([item("t1")], None, "spam")
        with open_store(path, read_only=True) as con:
            assert [found.item_id for found in decisions(con)] == ["t1"]
        assert pending.count(path) == 1
    for _ in range(2):
        with open_store(path, read_only=True) as con:
            assert [found.item_id for found in decisions(con)] == ["t1"]
    assert pending.count(path) == 0


def test_a_vote_that_a_killed_process_left_is_taken_in_once(tmp_path: Path) -> None:
    path = tmp_path / ".replay" / "s.duckdb"
    open_store(path).close()
    pending.append(path, "judge_votes", [vote_row(VOTE, AT)])
    file = pending.path_of(path, "judge_votes")
    line = file.read_bytes()
    # Killed after the rows were in the store, and while another was being written.
    for left in (line, line, line + line[:30]):
        file.write_bytes(left)
        with open_store(path) as con:
            assert list(read_votes(con, "j").values()) == [VOTE.vote]
    assert file.stat().st_mode & 0o077 == 0


def test_a_row_that_cannot_be_written_leaves_the_others_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ".replay" / "s.duckdb"
    open_store(path).close()
    pending.append(path, "judge_votes", [vote_row(VOTE, AT)])
    write = os.write

    def full(file: int, data: bytes) -> int:
        write(file, data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(Exception, match="cannot be written: No space") as refused:
        pending.append(path, "judge_votes", [vote_row(VOTE, AT)])
    assert getattr(refused.value, "exit_code", None) == 75
    monkeypatch.undo()
    assert pending.count(path) == 1


def test_a_decision_that_was_undone_can_be_made_again(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    open_store(path).close()
    person = Decisions(path, tmp_path / "golden.jsonl", "Ada")
    person.dismiss([item("t1")], None, "spam")
    person.undo()
    person.dismiss([item("t1")], None, "spam")
    with open_store(path, read_only=True) as con:
        assert [found.action for found in decisions(con)] == [Action.DISMISS, Action.UNDO, Action.DISMISS]
