"""Answers of real Langfuse servers, where a folder of them is at hand: REPLAY_TEST_LANGFUSE_REAL=/path.

The folder has `serve.py`, which serves the answers and prints its address, and `expected.json`, which says
what is truly in them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.model import Trace
from replaydiff.replay.result_form import result_as
from tests.importers.langfuse_live.asking import OCTOBER, ask, stored
from tests.stand_ins.langfuse_read import PUBLIC, SECRET, Langfuse

FOLDER = os.environ.get("REPLAY_TEST_LANGFUSE_REAL")
pytestmark = pytest.mark.skipif(not FOLDER, reason="REPLAY_TEST_LANGFUSE_REAL names no folder")


@contextmanager
def _served(*args: str) -> Iterator[Langfuse]:
    serve = [sys.executable, "-u", str(Path(FOLDER or "") / "serve.py")]
    keys = ["--public-key", PUBLIC, "--secret-key", SECRET]
    with subprocess.Popen(
        [*serve, *keys, *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as running:
        try:
            assert running.stdout is not None
            yield Langfuse(url=running.stdout.readline().decode().strip())
        finally:
            running.kill()


@pytest.mark.parametrize("flaky", [(), ("--flaky",)])
@pytest.mark.parametrize(("flavour", "traces", "ordinary"), [("v4", 97, 90), ("v2", 40, 31)])
def test_every_trace_comes_in_as_it_was(
    flavour: str, traces: int, ordinary: int, flaky: tuple[str, ...], tmp_path: Path
) -> None:
    with _served("--flavour", flavour, *flaky) as server:
        done = ask(tmp_path, server, *OCTOBER)
    assert done.out.startswith(f"{traces} traces from langfuse: {traces} new")
    found = {(trace.session_id, trace.release): trace for trace in stored(tmp_path).values()}
    wanted = json.loads((Path(FOLDER or "") / "expected.json").read_text())["traces"]
    exact = 0
    for one in wanted:
        trace = found.get((one["session"], one["release"]))
        if trace is None:
            continue
        assert trace.scores == one["scores"]
        if not one["special"]:
            assert _content(trace) == _expected(one)
            exact += 1
        elif not one["content_pushed"]:
            assert trace.state.value == "no_content"
        elif one["special"].startswith("still running"):
            assert trace.state.value == "incomplete"
    assert exact == ordinary
    experiments = [one for one in wanted if one["environment"] != "default"]
    let_in = [
        experiment for experiment in experiments if (experiment["session"], experiment["release"]) in found
    ]
    assert flavour == "v2" or not let_in


def _content(trace: Trace) -> Any:
    # What version 4 has of `calculate` is 972.0: whether that was text, its rows do not show.
    calls = [(call.name, call.args, result_as(call.result, "text") or "") for call in trace.tool_calls]
    return trace.input, calls, trace.final_response or "", trace.user_id


def _expected(one: dict[str, Any]) -> Any:
    calls = [(call["name"], call["args"], call["result"]) for call in one["tool_calls"]]
    return one["first_user_message"], calls, one["final_response"], one["user"]
