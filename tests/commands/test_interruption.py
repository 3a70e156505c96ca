"""Ctrl-C, `kill` and a closed terminal while a command waits for a query of the store."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path

import duckdb
import pytest

from replaydiff.replay import interruption
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import write_traces
from tests.stand_ins.full import examples, full
from tests.stand_ins.processes import start
from tests.store.build import calls, trace

SOON_S = 10.0
"""Without an interruption the query takes a hundred times as long; measured, the end comes within 0.6 s."""
BUSY_S = 0.2
"""Processor time after which a command is in the midst of its query."""
ENDLESS = "range(1000000) a, range(1000000) b WHERE hash(a.range, b.range) = 0"


NUMBERS = [
    signal.SIGINT,
    *(pytest.param(number, marks=full) for number in interruption.SIGNALS if number != signal.SIGINT),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose traces take hours to read."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "replay.toml").touch()
    with open_store(folder / ".replay" / "replay.duckdb") as con:
        write_traces(con, [trace("t1", tool_calls=calls("look_up"))])
        con.execute("ALTER TABLE traces RENAME TO stored")
        con.execute(f"CREATE VIEW traces AS SELECT stored.* FROM stored, {ENDLESS}")
    return folder


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_ends_a_command_in_the_midst_of_a_query(project: Path, number: signal.Signals) -> None:
    for _ in range(examples(3, 30)):
        process = start(project, "traces")
        _wait_until_busy(process.pid)
        process.send_signal(number)
        out, err = process.communicate(timeout=SOON_S)
        assert (process.returncode, out, err.strip()) == (130, "", "interrupted")
    with open_store(project / ".replay" / "replay.duckdb", read_only=True) as con:
        assert con.execute("SELECT trace_id FROM stored").fetchall() == [("t1",)]


QUERIES = {
    "a query": f'con.execute("SELECT * FROM {ENDLESS}").fetchone()',
    "a call that other traces may answer": """
            corpus = StoreCorpus(Rules(timeout_s=1))
            corpus.open(con)
            corpus.find(Item(id="i", input="hello"), "look_up", {"id": "1"}, ())
    """,
}
LOOP = """
import sys
from pathlib import Path
from replaydiff.replay.agents.base import Rules
from replaydiff.replay.engine.corpus import StoreCorpus
from replaydiff.replay.event_loop import run_sync
from replaydiff.replay.model import Item
from replaydiff.replay.store.connection import open_store

async def work():
    try:
        with open_store(Path(sys.argv[1]), read_only=True) as con:
            QUERY
    finally:
        print("ended in order", flush=True)

try:
    run_sync(work())
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("query", QUERIES)
def test_a_signal_ends_a_coroutine_in_the_midst_of_a_query(
    project: Path, query: str, number: signal.Signals
) -> None:
    for _ in range(examples(2, 30)):
        store = project / ".replay" / "replay.duckdb"
        work = LOOP.replace("QUERY", QUERIES[query].strip())
        process = start(project, "-c", work, str(store), program="python")
        _wait_until_busy(process.pid)
        process.send_signal(number)
        assert process.communicate(timeout=SOON_S) == ("ended in order\n", "")
        assert process.returncode == 130


CALLS = """
import asyncio, os, signal, sys
from replaydiff.replay.event_loop import run_sync, underway

async def call(name):
    async with underway():
        print("sent", name, flush=True)
        await asyncio.sleep(0.5)
        print("kept", name, flush=True)

async def work():
    async with asyncio.TaskGroup() as group:
        group.create_task(call("a"))
        group.create_task(call("b"))
        await asyncio.sleep(0.1)
        for _ in range(int(sys.argv[2])):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.1)
        group.create_task(call("c"))

try:
    run_sync(work(), float(sys.argv[1]))
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize(
    ("grace_s", "signals", "kept"),
    [
        pytest.param(9, 1, "kept a\nkept b\n", id="waits"),
        pytest.param(0.2, 1, "", id="grace is over"),
        pytest.param(0, 1, "", id="no grace"),
        pytest.param(9, 2, "", id="second signal"),
    ],
)
def test_calls_in_flight_are_waited_for_and_none_begins(
    tmp_path: Path, grace_s: float, signals: int, kept: str
) -> None:
    process = start(tmp_path, "-c", CALLS, str(grace_s), str(signals), program="python")
    out, err = process.communicate(timeout=SOON_S)
    assert (out, process.returncode) == ("sent a\nsent b\n" + kept, 130)
    assert ("waiting at most" in err) == (grace_s > 0)


def _wait_until_busy(pid: int) -> None:
    """Wait until a process has computed for some time."""
    path = Path(f"/proc/{pid}/stat")
    if not path.exists():
        time.sleep(1.0)
        return
    begun = _processor_time_s(path)
    while _processor_time_s(path) < begun + BUSY_S:
        time.sleep(0.02)


def _processor_time_s(path: Path) -> float:
    user, system = path.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_what_belongs_to_the_program_around_is_left_alone() -> None:
    def own(_number: int, _frame: object) -> None: ...

    reading, writing = socket.socketpair()
    writing.setblocking(False)
    before = signal.signal(signal.SIGTERM, own)
    signal.set_wakeup_fd(writing.fileno())
    try:
        with interruption.handled_by(interruption.interrupt):
            assert signal.getsignal(signal.SIGTERM) is own
            assert signal.getsignal(signal.SIGINT) is interruption.interrupt
            os.kill(os.getpid(), signal.SIGTERM)
        assert reading.recv(1) == bytes([signal.SIGTERM])
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)
        assert signal.set_wakeup_fd(-1) == writing.fileno()
        reading.close()
        writing.close()


def test_everything_is_as_before_in_the_end() -> None:
    before = [signal.getsignal(number) for number in interruption.SIGNALS]
    threads = threading.active_count()
    with interruption.handled_by(interruption.interrupt):
        with interruption.handled_by(lambda *_: None):
            assert threading.active_count() == threads + 1
        assert signal.getsignal(signal.SIGINT) is interruption.interrupt
    assert [signal.getsignal(number) for number in interruption.SIGNALS] == before
    assert threading.active_count() == threads
    assert signal.set_wakeup_fd(-1) == -1


def test_in_another_thread_nothing_is_changed() -> None:
    seen: list[object] = []

    def look() -> None:
        with interruption.handled_by(interruption.interrupt):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def test_a_signal_that_reaches_a_child_interrupts_no_query_of_the_parent() -> None:
    con = interruption.interruptible(duckdb.connect(config={"threads": 2}))
    with interruption.handled_by(interruption.interrupt), con:
        pid = os.fork()
        if pid == 0:
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(SOON_S)
            except KeyboardInterrupt:
                os._exit(130)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            con.execute("SELECT count(*) FROM range(3000000) WHERE range % 7 = 3").fetchone()
