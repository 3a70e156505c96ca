"""Opening the store: blank, old, new, foreign, held by another, cut by a crash."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import pytest

from replaydiff.replay.errors import (
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreMemoryError,
    StoreMissingError,
    StoreVersionError,
)
from replaydiff.replay.store import connection
from replaydiff.replay.store.connection import SCHEMA_FOLDER, migrations, open_store, transaction
from replaydiff.replay.store.traces import count_traces, write_traces
from replaydiff.replay.version import VERSION
from tests.store.build import trace


def python(code: str, *args: object) -> subprocess.Popen[str]:
    """Another process of the same interpreter."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def test_a_writer_makes_the_folder_and_a_store_of_the_newest_schema(tmp_path: Path) -> None:
    path = tmp_path / "deep" / ".replay" / "replay.duckdb"
    with open_store(path) as con:
        tables = {name for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        records = con.execute("SELECT version, name FROM schema_migrations").fetchall()
    assert {"traces", "tool_calls", "samples", "runs", "run_items", "trials", "grades", "decisions"} <= tables
    assert records == [(m.version, m.name) for m in migrations()]


def test_migrations_are_numbered_from_one_without_a_gap() -> None:
    files = sorted(file.name for file in SCHEMA_FOLDER.iterdir())
    assert [m.file.name for m in migrations()] == files
    assert [m.version for m in migrations()] == list(range(1, len(files) + 1))


def test_opening_again_keeps_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with open_store(path) as con:
        write_traces(con, [trace("a")])
    with open_store(path) as con:
        assert count_traces(con) == 1
    with open_store(path, read_only=True) as con:
        assert count_traces(con) == 1


def test_times_are_utc_whatever_the_machine_says(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.duckdb") as con:
        shown = con.cursor().execute("SELECT current_setting('TimeZone')").fetchone()
    assert shown == ("UTC",)


@pytest.fixture
def second_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A release with one more migration than the store it will find."""
    folder = tmp_path / "schema"
    folder.mkdir()
    for migration in migrations():
        (folder / migration.file.name).write_bytes(migration.file.read_bytes())
    number = len(migrations()) + 1
    (folder / f"{number:04d}_colour.sql").write_text("ALTER TABLE traces ADD COLUMN colour VARCHAR;")
    path = tmp_path / "old.duckdb"
    with open_store(path) as con:
        write_traces(con, [trace("a")])
    monkeypatch.setattr(connection, "SCHEMA_FOLDER", folder)
    return path


def test_a_writer_upgrades_an_older_store_and_keeps_a_copy(
    second_migration: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = second_migration.read_bytes()
    with open_store(second_migration) as con:
        assert con.execute("SELECT trace_id, colour FROM traces").fetchall() == [("a", None)]
    copied = second_migration.with_name("old-schema-1.duckdb")
    assert copied.read_bytes() == before
    assert f"was upgraded from schema version 1 to 2; {copied} is as it was before" in caplog.text
    with open_store(second_migration) as con:
        assert count_traces(con) == 1
    assert caplog.text.count("upgraded") == 1


@pytest.mark.parametrize("mode", [0o700, 0o500])
def test_a_reader_of_an_older_store_leaves_it_as_it_is(second_migration: Path, mode: int) -> None:
    before = second_migration.read_bytes()
    second_migration.parent.chmod(mode)
    try:
        with open_store(second_migration, read_only=True) as con:
            assert con.execute("SELECT trace_id, colour FROM traces").fetchall() == [("a", None)]
    finally:
        second_migration.parent.chmod(0o700)
    assert second_migration.read_bytes() == before
    assert list(second_migration.parent.glob("*.duckdb*")) == [second_migration]


def test_a_migration_that_fails_leaves_the_store_as_it_was(second_migration: Path) -> None:
    newest = migrations()[-1].file
    newest.write_text("ALTER TABLE traces ADD COLUMN colour VARCHAR; SELECT * FROM nowhere;")
    with pytest.raises(StoreDamagedError, match="nowhere"):
        open_store(second_migration)
    newest.write_text("ALTER TABLE traces ADD COLUMN colour VARCHAR;")
    with open_store(second_migration) as con:
        assert count_traces(con) == 1


def test_a_newer_store_is_refused_with_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with open_store(path) as con:
        con.execute("INSERT INTO schema_migrations VALUES (99, 'later', now()::TIMESTAMP)")
    for read_only in (False, True):
        with pytest.raises(StoreVersionError) as refused:
            open_store(path, read_only=read_only)
        assert str(refused.value) == (
            f"the store {path} has schema version 99, and replaydiff {VERSION} knows versions up to "
            f"{migrations()[-1].version}; install a newer replaydiff"
        )


def test_a_reader_of_no_store_is_told_to_import(tmp_path: Path) -> None:
    path = tmp_path / "none.duckdb"
    with pytest.raises(StoreMissingError, match="import traces with `replay import`"):
        open_store(path, read_only=True)
    assert not path.exists()


def _sqlite(path: Path) -> None:
    with sqlite3.connect(path) as con:
        con.execute("CREATE TABLE t (a)")
    con.close()


def _duckdb(path: Path) -> None:
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE t (a INTEGER)")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_text("hello\n" * 1000), "is not a DuckDB database"),
        (lambda path: path.touch(), "is an empty file, not a store"),
        (lambda path: path.mkdir(), "is a folder, not a store"),
        (_sqlite, "is an SQLite database, not a store"),
        (_duckdb, "is a DuckDB database, but not a store of replaydiff"),
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_what_is_no_store_is_named_and_left_alone(tmp_path: Path, make, says: str, read_only: bool) -> None:
    path = tmp_path / "thing.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreVersionError, match=says):
        open_store(path, read_only=read_only)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_folder_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be used: .*; name another place with --db"):
        open_store(tmp_path / "file" / "deeper" / "s.duckdb")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_one_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="; check its permissions"):
        open_store(tmp_path / "s.duckdb")


HOLD = """
    import sys, time
    from pathlib import Path
    from replaydiff.replay.store.connection import open_store
    with open_store(Path(sys.argv[1])) as con:
        print("open", flush=True)
        time.sleep(float(sys.argv[2]))
"""


def test_a_second_process_is_told_who_holds_the_store(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    holder = python(HOLD, path, 60)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(StoreBusyError) as busy:
            open_store(path)
        assert busy.value.pid == holder.pid
        assert f"is in use by process {holder.pid} (`{sys.executable} -c" in str(busy.value)
        assert "\n" not in str(busy.value)
    finally:
        holder.kill()
        holder.communicate()


def test_a_short_hold_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    holder = python(HOLD, path, 0.3)
    assert holder.stdout is not None
    holder.stdout.readline()
    with open_store(path) as con:
        assert count_traces(con) == 0
    holder.communicate()


def test_the_other_mode_within_one_process_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    open_store(path).close()
    with open_store(path, read_only=True), pytest.raises(StoreBusyError, match="already has the store"):
        open_store(path)


WRITE = """
    import sys
    from pathlib import Path
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.traces import write_traces
    from tests.store.build import trace
    with open_store(Path(sys.argv[1])) as con:
        for batch in range(10**6):
            write_traces(con, [trace(f"{batch}-{n}", input="x" * 2000) for n in range(50)])
            print(batch, flush=True)
"""


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_it_had_reported_and_leaves_whole_batches(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    writer = python(WRITE, path)
    assert writer.stdout is not None
    reported = [int(writer.stdout.readline()) for _ in range(20)]
    writer.send_signal(signal.SIGKILL)
    rest, _ = writer.communicate()
    reported += [int(line) for line in rest.splitlines() if line.strip()]
    with open_store(path, read_only=True) as con:
        rows = con.execute(
            "SELECT split_part(trace_id, '-', 1)::INTEGER, count(*) FROM traces GROUP BY ALL"
        ).fetchall()
    assert set(reported) <= {batch for batch, _ in rows}
    assert {count for _, count in rows} == {50}


@pytest.mark.slow
def test_a_damaged_log_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with open_store(path) as con:
        con.execute("CHECKPOINT")
    writer = python(WRITE, path)
    assert writer.stdout is not None
    writer.stdout.readline()
    writer.kill()
    writer.communicate()
    log = path.with_name(path.name + ".wal")
    content = bytearray(log.read_bytes())
    content[200:240] = bytes(255 - byte for byte in content[200:240])
    log.write_bytes(bytes(content))
    with pytest.raises(StoreError, match=r"s\.duckdb\.wal are damaged; restore both files from a copy"):
        open_store(path)


@pytest.mark.parametrize(
    "log", [b"\x00" * 500, b"garbage", bytes(range(256)) * 20], ids=["zeros", "short", "long"]
)
def test_a_log_that_is_none_is_not_dropped_in_silence(log: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    open_store(path).close()
    path.with_name("s.duckdb.wal").write_bytes(log)
    for read_only in (True, False):
        with pytest.raises(StoreError, match=r"s\.duckdb\.wal is no log of DuckDB; restore both files"):
            open_store(path, read_only=read_only)
    assert path.with_name("s.duckdb.wal").read_bytes() == log


@pytest.mark.parametrize("log", [b"", b"\x64", b"\x64\x00\x62"])
def test_a_log_whose_writer_had_just_begun_is_one(log: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    open_store(path).close()
    path.with_name("s.duckdb.wal").write_bytes(log)
    open_store(path).close()


def test_sql_on_the_store_reaches_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with open_store(tmp_path / "s.duckdb") as con:
        for query in (
            f"SELECT * FROM read_csv('{tmp_path / 'secret.csv'}')",
            f"COPY traces TO '{tmp_path / 'out.csv'}'",
            f"ATTACH '{tmp_path / 'other.duckdb'}'",
            "LOAD httpfs",
        ):
            with pytest.raises(duckdb.Error):
                con.execute(query).fetchall()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["s.duckdb", "secret.csv"]


def test_an_error_of_the_driver_alone_is_explained() -> None:
    code = (
        "from replaydiff.replay import cli\n"
        "from replaydiff.replay.store.connection import duckdb\n"
        "error = duckdb.IOException('IO Error: Could not read enough bytes from file')\n"
        "print(type(cli._explained(error)).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "StoreDamagedError\n"


def test_a_commit_that_meets_the_memory_limit_is_explained(tmp_path: Path) -> None:
    def write_until_it_ends(con: duckdb.DuckDBPyConnection) -> None:
        for _ in range(6):
            with transaction(con):
                con.execute(
                    "INSERT INTO wide SELECT repeat(md5(i::VARCHAR), 2000) FROM range(300) numbers(i)"
                )

    with open_store(tmp_path / "s.duckdb") as con:
        con.execute("CREATE TABLE wide (text VARCHAR)")
        con.execute("SET memory_limit = '60MB'")
        with pytest.raises(StoreMemoryError, match=r"needs more memory than it has: .*Failed to commit"):
            write_until_it_ends(con)
