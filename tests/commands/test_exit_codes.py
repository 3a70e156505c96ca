"""Exit codes and error messages of the command line."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import re
import stat
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import pytest

import replaydiff as rd
from replaydiff.replay.api.project import Project
from replaydiff.replay.errors import (
    ExitCode,
    NoSpaceError,
    ReplayError,
    UnknownNameError,
    refused_by_system,
    remedy,
    worst_exit,
)
from replaydiff.replay.model import Lane, VersionKind
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.samples import list_samples
from replaydiff.replay.store.traces import write_traces
from tests.commands.conftest import Replay
from tests.diff import build
from tests.diff_judge import records
from tests.exit_codes import check_exit
from tests.stand_ins.loopback import serving
from tests.stand_ins.messages_api import Fault, StandIn
from tests.stand_ins.processes import start
from tests.store.build import trace

SECRET = "sk-9f8e7d6c5b4a"
MESSAGE = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5-5",
    "content": [{"type": "text", "text": records.points(3)}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 5, "output_tokens": 1},
}


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Put a bug into `replay traces`."""

    def traces(*_args: Any, **_options: Any) -> NoReturn:
        raise KeyError(f"{SECRET} of nobody")

    monkeypatch.setattr(Project, "traces", traces)
    monkeypatch.setenv("ACME_API_KEY", SECRET)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))


@pytest.mark.usefixtures("broken")
def test_a_bug_is_one_sentence_that_names_a_private_file_with_the_details(
    replay: Replay, tmp_path: Path
) -> None:
    done = replay("traces")
    [details] = (tmp_path / "tmp").iterdir()
    check_exit("bug", done.code, done.err)
    assert done.out == ""
    assert done.err == (
        f"error: a bug in replaydiff (KeyError), the details are in {details}; please report it with that file; "
        "read it first, it may quote your data\n"
    )
    assert _mode(details) == 0o600
    text = details.read_text()
    assert re.search(r"Traceback .*KeyError: '\[ACME_API_KEY\] of nobody'", text, re.DOTALL)
    assert SECRET not in text


@pytest.mark.usefixtures("broken")
def test_debug_shows_the_traceback_and_keeps_the_exit_code(replay: Replay) -> None:
    done = replay("--debug", "traces")
    assert done.code == 70
    assert "Traceback" in done.err
    assert "KeyError" in done.err


@pytest.mark.usefixtures("broken")
def test_a_bug_without_room_for_its_details_is_reported_all_the_same(replay: Replay, tmp_path: Path) -> None:
    (tmp_path / "tmp").rmdir()
    done = replay("traces")
    assert done.code == 70
    assert done.err.endswith("please report it with what --debug prints\n")


@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_an_error_of_the_system_has_an_exit_code_of_its_own(
    replay: Replay, tmp_path: Path, debug: tuple[str, ...]
) -> None:
    (tmp_path / "replay.toml").mkdir()
    done = replay(*debug, "traces")
    assert done.code == 2
    assert ("Traceback" in done.err) == bool(debug)


@pytest.mark.parametrize(("number", "code"), [(28, 75), (24, 75), (122, 75), (13, 2), (2, 2)])
def test_what_may_be_there_later_says_to_try_again(number: int, code: int) -> None:
    error = refused_by_system(OSError(number, os.strerror(number), "f"))
    assert error.exit_code == code
    assert isinstance(error, NoSpaceError) == (code == 75)
    assert str(error).startswith(f"the system refused: {os.strerror(number)} (f)")


@pytest.mark.parametrize(
    ("number", "step"),
    [
        (errno.ENOSPC, "make room"),
        (errno.EROFS, "mount its file system for writing"),
        (errno.EMFILE, "allow more open files"),
        (errno.EACCES, "make its folder writable"),
    ],
)
def test_what_to_do_depends_on_what_the_system_says(number: int, step: str) -> None:
    assert remedy(f"IO Error: f: {os.strerror(number)}").startswith(step)


HOLD = """
import sys
from pathlib import Path
from replaydiff.replay.store.connection import open_store
with open_store(Path(sys.argv[1])):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_store_in_use_says_to_try_again(replay: Replay, tmp_path: Path) -> None:
    store = tmp_path / ".replay" / "replay.duckdb"
    holder = start(tmp_path, "-c", HOLD, str(store), program="python")
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert replay("traces").code == 0
        (tmp_path / "t.jsonl").write_text('{"trace_id": "a", "input": "q", "started_at": "2026-10-01"}\n')
        done = replay("import", "jsonl", "t.jsonl", "--set", "store.wait=0")
    finally:
        holder.communicate()
    check_exit("store in use", done.code, done.err)
    assert f"is in use by process {holder.pid}" in done.err


@pytest.mark.parametrize("share", [0.1, 0.55])
def test_a_store_that_was_cut_off_is_diagnosed(replay: Replay, tmp_path: Path, share: float) -> None:
    store = tmp_path / ".replay" / "replay.duckdb"
    with open_store(store) as con:
        write_traces(con, [trace(f"t{n}", input=os.urandom(800).hex()) for n in range(500)])
    os.truncate(store, int(store.stat().st_size * share))
    for command in ("traces", "doctor"):
        done = replay(command)
        assert done.code == 2
        assert "Traceback" not in done.err
        assert re.search(r"store .*is damaged: .*; restore it from a copy", done.out + done.err)


def test_damage_where_no_command_looked_is_found_by_doctor(replay: Replay, tmp_path: Path) -> None:
    store = tmp_path / ".replay" / "replay.duckdb"
    with open_store(store) as con:
        write_traces(con, [trace(f"t{n}", input=os.urandom(2000).hex()) for n in range(500)])
    whole = store.read_bytes()
    with open_store(store, read_only=True) as con:
        blocks = con.execute(
            "SELECT DISTINCT block_id FROM pragma_storage_info('traces') WHERE column_name = 'input' AND block_id >= 0"
        ).fetchall()
    for (block,) in blocks:
        # The file begins with three headers of 4 KiB; blocks of 256 KiB follow.
        at = 3 * 4096 + block * 262144 + 1000
        store.write_bytes(whole[:at] + bytes(255 - byte for byte in whole[at : at + 64]) + whole[at + 64 :])
        assert replay("traces").code in (0, 2)
        done = replay("doctor")
        assert (done.code, "the store is damaged: " in done.out) == (2, True)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ("DROP TABLE grades", "no table grades|name grades does not exist"),
        (
            "ALTER TABLE trials DROP COLUMN latency_ms",
            'no column trials.latency_ms|column named "latency_ms"',
        ),
        ("UPDATE trials SET status = 'done'", "'done'"),
        ("UPDATE runs SET lanes = '[]'", r"'\[\]'"),
        ("UPDATE run_items SET item = '{}'", "'{}'"),
    ],
)
def test_a_store_that_another_hand_edited_is_damaged_and_doctor_finds_it(
    edit: str, words: str, replay: Replay, tmp_path: Path
) -> None:
    items = [build.item(f"t{number}") for number in range(2)]
    store = tmp_path / ".replay" / "replay.duckdb"
    store.parent.mkdir(exist_ok=True)
    build.store(
        tmp_path, items, [trial for item in items for trial in build.trials(item, old="1", new="0")]
    ).rename(store)
    with duckdb.connect(str(store)) as con:
        con.execute(edit)
    for command in ("diff", "doctor"):
        done = replay(command)
        assert done.code == 2, done.err
        assert re.search(f"the store is damaged: .*({words}).*; restore it from a copy", done.out + done.err)
        if command == "diff":
            check_exit("damaged store", done.code, done.err)


def test_a_newer_store_is_left_alone(replay: Replay, tmp_path: Path) -> None:
    with open_store(tmp_path / ".replay" / "replay.duckdb") as con:
        con.execute("INSERT INTO schema_migrations VALUES (99, 'later', now()::TIMESTAMP)")
    done = replay("traces")
    check_exit("newer store", done.code, done.err)


def test_a_sample_on_a_full_disk_can_be_drawn_later(tmp_path: Path) -> None:
    with open_store(tmp_path / ".replay" / "replay.duckdb") as con:
        write_traces(con, [trace(f"t{number}", input=f"hello {number}") for number in range(20)])
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
        "from replaydiff.replay.cli import main; main(sys.argv[1:])"
    )
    done = start(tmp_path, "-c", limited, "sample", "--size", "9", program="python")
    _, err = done.communicate()
    check_exit("full disk", done.wait(), err)
    with open_store(tmp_path / ".replay" / "replay.duckdb", read_only=True) as con:
        assert list_samples(con) == []


def _judged(folder: Path, url: str, votes: int = 1) -> None:
    """Make a project with a finished run of recordings, and a judge at this address."""
    items = [records.item(number) for number in range(3)]
    trials = [
        records.trial(one, lane, final_response=f"{one.id} {lane}")
        for one in items
        for lane in (Lane.OLD, Lane.NEW)
    ]
    records.store(folder / ".replay" / "replay.duckdb", items, trials, kind=VersionKind.OBSERVED)
    (folder / "replay.toml").write_text(
        f'[judge]\nmodel = "claude-opus-5-5"\nvotes = {votes}\nconcurrency = 1\nbase_url = "{url}"\n'
    )


def test_votes_that_fail_are_partial_and_asked_for_again(replay: Replay, tmp_path: Path) -> None:
    with StandIn(faults=[Fault(status=400)] * 2) as judge:
        _judged(tmp_path, judge.url)
        done = replay("run", "--resume", records.RUN)
        check_exit("failed votes", done.code, done.out + done.err)
        assert replay("run", "--resume", records.RUN).code == 0


def test_a_proxy_in_the_place_of_the_judge_stops_it_and_what_was_paid_is_not_asked_again(
    replay: Replay,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _: sleep(0))
    page = b"<html>sign in</html>"
    answers = itertools.chain([MESSAGE] * 5, itertools.repeat(page, 12 * 7), itertools.repeat(MESSAGE))
    with serving(lambda _: (200, next(answers))) as server:
        _judged(tmp_path, server.url, votes=3)
        done = replay("run", "--resume", records.RUN)
        check_exit("judge down", done.code, done.err)
        assert f"`replay run --resume {records.RUN}` continues with the judge" in done.err
        waiting = [record.getMessage() for record in caplog.records if "asked again" in record.getMessage()]
        assert len(waiting) == 1
        assert "HTML with status 200 in place of JSON" in waiting[0]
        asked = len(server.answered)
        assert asked == 5 + 12 * 7
        assert replay("run", "--resume", records.RUN).code == 0
        assert len(server.answered) - asked == 6 * 3 - 5


def test_a_judge_that_asks_to_wait_an_hour_is_not_waited_for(replay: Replay, tmp_path: Path) -> None:
    with StandIn(faults=[*[Fault()] * 2, Fault(status=429, retry_after=3600)]) as judge:
        _judged(tmp_path, judge.url)
        done = replay("run", "--resume", records.RUN)
        assert done.code == ExitCode.TRY_AGAIN
        assert f"`replay run --resume {records.RUN}` continues with the judge" in done.err
        assert "asks to wait 60 minutes before the next call; what is finished is kept" in done.err
        assert replay("run", "--resume", records.RUN).code == 0


def test_a_key_that_is_revoked_while_judging_can_be_put_right(replay: Replay, tmp_path: Path) -> None:
    with StandIn(faults=[*[Fault()] * 2, *[Fault(status=401)] * 9]) as judge:
        _judged(tmp_path, judge.url)
        done = replay("run", "--resume", records.RUN)
        check_exit("key revoked", done.code, done.err)


def test_the_store_and_its_folder_are_private(replay: Replay, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(
        '{"trace_id": "a", "input": "q", "started_at": "2026-10-01T00:00:00Z"}\n'
    )
    before = os.umask(0o022)
    try:
        (tmp_path / ".replay").mkdir(mode=0o755)
        assert replay("import", "jsonl", "t.jsonl").code == 0
        assert replay("import", "--db", "elsewhere/own.duckdb", "jsonl", "t.jsonl").code == 0
    finally:
        os.umask(before)
    assert _mode(tmp_path / ".replay") == 0o700
    assert _mode(tmp_path / ".replay" / "replay.duckdb") == 0o600
    assert _mode(tmp_path / "elsewhere") == 0o700
    assert _mode(tmp_path / "elsewhere" / "own.duckdb") == 0o600


def test_no_control_character_reaches_the_terminal_through_an_error(replay: Replay) -> None:
    done = replay("show", "\x1b[31mno\rsuch")
    assert done.code == 2
    assert "\x1b" not in done.err
    assert "\r" not in done.err


def test_where_several_codes_apply_the_gravest_counts() -> None:
    order = [130, 70, 2, 75, 1, 4, 3, 0]
    for first, code in enumerate(order):
        assert worst_exit(ExitCode(one) for one in reversed(order[first:])) == code


def test_an_error_carries_its_parts() -> None:
    error = ReplayError("no size", where="replay.toml: [sample]", hint="set one")
    assert (error.reason, error.where, error.hint) == ("no size", "replay.toml: [sample]", "set one")
    assert str(error) == "replay.toml: [sample]: no size; set one"
    asked = UnknownNameError("sample", "octobr", ["october"], "see replay sample")
    assert str(asked) == "there is no sample 'octobr'; did you mean 'october'? see replay sample"
    assert asked.hint == "see replay sample"


def test_an_error_of_the_api_has_its_hint_apart(tmp_path: Path) -> None:
    with pytest.raises(ReplayError) as missing:
        rd.open(tmp_path).import_(tmp_path / "none.jsonl")
    assert missing.value.reason == f"there is no file {tmp_path / 'none.jsonl'}"
    assert missing.value.hint == "check the path"
    assert str(missing.value) == f"{missing.value.reason}; {missing.value.hint}"
