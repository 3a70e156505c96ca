"""What every room shares: one clock, one lock between processes, one writer of complete files."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from replaydiff.replay.clock import as_utc, utc_now, utc_today
from replaydiff.replay.errors import InputError
from replaydiff.replay.files import (
    acquire,
    file_system,
    is_locked,
    locked,
    locked_folder,
    replacing,
    write_whole,
)

HOLD = """
import sys
from pathlib import Path
from replaydiff.replay import files
path = Path(sys.argv[1])
with files.locked_folder(path) if path.is_dir() else files.locked(path, remove=True):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    """A process that holds the lock until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_time_is_naive_utc() -> None:
    assert abs(utc_now() - datetime.now(UTC).replace(tzinfo=None)) < timedelta(minutes=1)
    assert utc_today() - utc_now().date() <= timedelta(days=1)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 11, 1, 10),
        datetime(2026, 11, 1, 10, tzinfo=UTC),
        datetime(2026, 11, 1, 12, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_a_moment_of_any_offset_becomes_naive_utc(moment: datetime) -> None:
    assert as_utc(moment) == datetime(2026, 11, 1, 10)


def test_a_held_lock_is_refused_to_another_process_and_freed_when_its_holder_is_killed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.lock"
    with holder(path) as process:
        with pytest.raises(BlockingIOError), locked(path, wait=False):
            pytest.fail("two processes hold one lock")
        with path.open("rb") as file:
            assert is_locked(file.fileno())
        process.kill()
    with locked(path):
        pass
    with path.open("rb") as file:
        assert not is_locked(file.fileno())


def test_who_waited_for_a_file_that_its_holder_removes_locks_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    first = holder(path)
    code = f"from replaydiff.replay import files\nfiles.acquire(__import__('pathlib').Path({str(path)!r}), wait=True)\n"
    waiting = subprocess.Popen(
        [sys.executable, "-c", code + "print('held', flush=True)\ninput()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with first, waiting:
        assert first.stdin is not None
        first.stdin.close()
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError):
            acquire(path, wait=False)
        waiting.kill()


def test_a_folder_is_locked_and_stays_a_folder(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        assert process.stdin is not None
        process.stdin.close()
        with locked_folder(tmp_path):
            assert process.wait() == 0
    with pytest.raises(FileNotFoundError), locked_folder(tmp_path / "none"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "golden.jsonl"
    path.write_text("old")

    def fail() -> None:
        with replacing(path) as file:
            file.write_text("half")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("golden.jsonl", "old")]


def test_text_is_written_as_utf_8_and_bytes_as_they_are(tmp_path: Path) -> None:
    write_whole(tmp_path / "text", "né\ud800")
    write_whole(tmp_path / "bytes", b"\xff\x00")
    assert (tmp_path / "text").read_bytes() == b"n\xc3\xa9?"
    assert (tmp_path / "bytes").read_bytes() == b"\xff\x00"


def test_a_file_in_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        write_whole(tmp_path / "none" / "x", "")


MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:50 / /mnt/team rw shared:9 - nfs4 server:/team rw,vers=4.2
41 22 0:51 / /mnt/a\040b rw - fuse.s3fs s3fs rw
42 22 0:52 / /mnt/team/local rw - nfs server:/x rw
43 22 0:53 / /mnt/team/local rw - tmpfs tmpfs rw
""".strip()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/s.duckdb", "ext4"),
        ("/mnt/team/x/s.duckdb", "nfs4"),
        ("/mnt/teams/s.duckdb", "ext4"),
        ("/mnt/a b/s.duckdb", "fuse.s3fs"),
        ("/mnt/team/local/s.duckdb", "tmpfs"),
    ],
)
def test_the_type_of_a_file_system_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    assert file_system(Path(path), MOUNTS) == kind
