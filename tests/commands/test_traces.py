"""`replay traces`: what is listed, how it fits a terminal, and what it does to hostile text."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import write_traces
from tests.commands.conftest import Replay
from tests.stand_ins.stores import open_for_writing
from tests.store.build import WHEN, calls, rich_trace, trace

HOSTILE = "\x1b[2J\x1b[31mred\r\nover\x07 \u202eright-to-left 日本語のとても長い質問です " * 4


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / ".replay" / "replay.duckdb"
    with open_for_writing(path) as con:
        write_traces(
            con,
            [
                rich_trace("0123456789abcdef-full"),
                trace("0123456789abcdef-hostile", input=HOSTILE, started_at=WHEN + timedelta(hours=1)),
                trace(
                    "short",
                    input="Where is my order?",
                    started_at=datetime(2026, 9, 1),
                    tool_calls=calls("get_order_status", "get_shipping_events", "answer"),
                ),
            ],
        )
    return path


def test_the_table(replay: Replay, store: Path) -> None:
    result = replay("traces")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "TRACE               STARTED (UTC)     TOOLS                 INPUT",
        "0123456789abcdef-h  2026-10-03 15:22  -                     \\x1b[2J\\x1b[31mred…",
        "0123456789abcdef-f  2026-10-03 14:22  get_order>cancel_or…  [error] hello",
        "short               2026-09-01 00:00  get_order_status>ge…  Where is my order?",
    ]


def test_every_line_fits_and_nothing_reaches_the_terminal(
    replay: Replay, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.cells import cell_len

    for width in (80, 140):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = replay("traces").out.splitlines()
        assert len(lines) == 4
        assert max(cell_len(line) for line in lines) in (width - 1, width)
        assert all(line.isprintable() for line in lines)


def test_limit_and_condition(replay: Replay, store: Path) -> None:
    result = replay("traces", "--limit", "1", "--where", "started_at > '2026-10-01'")
    assert result.out.count("\n") == 2
    assert "0123456789ab" in result.out
    assert result.err == "1 of 2 traces; --limit 2 lists them all\n"
    assert "short" in replay("traces", "--month", "2026-09").out


def test_nothing_fits(replay: Replay, store: Path) -> None:
    result = replay("traces", "--where", "release = 'none'")
    assert (result.code, result.out) == (0, "")
    assert result.err == "no traces match; `replay traces` without conditions lists them all\n"
    assert replay("traces", "--where", "release = 'none'", "--json").out == "[]\n"


def test_json(replay: Replay, store: Path) -> None:
    result = replay("traces", "--json", "--where", "metadata.plan = 'gold'")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out) == [
        {
            "trace_id": "0123456789abcdef-full",
            "started_at": "2026-10-03T14:22:05.123456",
            "state": "complete",
            "name": "agent",
            "session_id": "s1",
            "user_id": "u1",
            "environment": "production",
            "release": "2.1",
            "model": "m",
            "tags": ["vip", "eu"],
            "tool_path": "get_order>cancel_order>lost",
            "input": "hello",
            "final_response": "done",
            "cost_usd": 0.25,
            "latency_ms": 1500.5,
            "error": "late",
            "scores": {"reward": 1.0, "ok": True, "label": "good"},
        }
    ]
    assert json.loads(replay("traces", "--json").out)[0]["input"] == HOSTILE


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--where", "relase = 'x'"), "did you mean 'release'"),
        (("--month", "october"), "'october' is not a month; write it as YYYY-MM, like 2026-10"),
    ],
)
def test_mistakes(replay: Replay, store: Path, args: tuple[str, ...], says: str) -> None:
    result = replay("traces", *args)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert says in result.err


def test_no_store(replay: Replay, tmp_path: Path) -> None:
    result = replay("traces")
    assert result.code == 2
    assert "import traces with `replay import`" in result.err
    assert list(tmp_path.iterdir()) == []


def test_an_empty_store(replay: Replay, tmp_path: Path) -> None:
    open_store(tmp_path / ".replay" / "replay.duckdb").close()
    assert replay("traces").err == "the store has no traces yet; import some with `replay import`\n"


def test_a_terminal_that_knows_ascii_alone(store: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "replaydiff", "traces", "--db", str(store)],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "COLUMNS": "80"},
        check=True,
    )
    assert done.stderr == b""
    assert done.stdout.decode("ascii").count("\n") == 4
