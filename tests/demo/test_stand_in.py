"""The stand-in over real HTTP: it is taken for the Messages API by clients old and new."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anthropic
import pytest

from replaydiff.replay.demo import repository
from replaydiff.replay.demo.stand_in import HOST, answers_at
from replaydiff.replay.errors import ReplayError
from tests.stand_ins.messages_api import Fault, StandIn
from tests.stand_ins.processes import PATIENCE_S

TOOLS: list[Any] = [
    {
        "name": "get_order_status",
        "input_schema": {"type": "object", "properties": {"order_id": {"type": "string"}}},
    }
]
BODY: dict[str, Any] = {
    "model": "claude-haiku-5-5",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Where is order 12345?"}],
}


PARENT = """
import signal, subprocess, sys
if sys.argv[1] == "nohup":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
server = subprocess.Popen([sys.executable, "-m", "replaydiff", "demo", "--serve"], stdout=subprocess.PIPE)
server.stdout.readline()
print(server.pid, flush=True)
server.wait()
"""
"""A process that starts the stand-in of the demo in the current folder, as a test suite or a script does."""


def _post(
    port: int, body: Any, path: str = "/v1/messages", **headers: str
) -> tuple[int, Any, dict[str, str]]:
    connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE_S)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", path, raw, headers or {"x-api-key": "any"})
    response = connection.getresponse()
    found = json.loads(response.read())
    connection.close()
    return response.status, found, dict(response.headers)


def test_the_real_client_and_a_tool_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    with StandIn(remember=True) as stand_in:
        client = anthropic.Anthropic(api_key="any", base_url=stand_in.url)
        call_turn = client.messages.create(**BODY, tools=TOOLS)
        assert call_turn.stop_reason == "tool_use"
        (call,) = call_turn.content
        assert call.type == "tool_use"
        assert (call.name, call.input) == ("get_order_status", {"order_id": "12345"})
        order = {"order_id": "12345", "item": "fern", "status": "shipped", "eta": "2026-12-01"}
        turns = [
            *BODY["messages"],
            {"role": "assistant", "content": [call.model_dump(exclude_none=True)]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": call.id, "content": json.dumps(order)}],
            },
        ]
        answer = client.messages.create(**{**BODY, "messages": turns}, tools=TOOLS)
        client.close()
    assert answer.stop_reason == "end_turn"
    assert answer.content[0].type == "text"
    assert "2026-12-01" in answer.content[0].text
    assert answer.usage.input_tokens > call_turn.usage.input_tokens
    assert [received.key for received in stand_in.received] == ["bearer", "bearer"]


def test_clients_of_earlier_years_send_another_header() -> None:
    with StandIn(remember=True) as stand_in:
        assert _post(stand_in.port, BODY)[0] == 200
        assert stand_in.received[0].key == "x-api-key"


@pytest.mark.parametrize(
    ("body", "headers", "path", "status", "kind", "words"),
    [
        (BODY, {"accept": "*/*"}, "/v1/messages", 401, "authentication_error", "x-api-key"),
        (b"{", {}, "/v1/messages", 400, "invalid_request_error", "not valid JSON"),
        ([], {}, "/v1/messages", 400, "invalid_request_error", "not a JSON object"),
        ({**BODY, "max_tokens": None}, {}, "/v1/messages", 400, "invalid_request_error", "max_tokens"),
        (
            {**BODY, "messages": [{"role": "user"}]},
            {},
            "/v1/messages",
            400,
            "invalid_request_error",
            "messages",
        ),
        ({**BODY, "stream": True}, {}, "/v1/messages", 400, "invalid_request_error", "does not stream"),
        ({**BODY, "model": "gpt-5"}, {}, "/v1/messages", 404, "not_found_error", "model: gpt-5"),
        (BODY, {}, "/v1/complete", 404, "not_found_error", "/v1/complete"),
    ],
)
def test_wrong_requests_get_the_errors_of_the_api(
    body: Any, headers: dict[str, str], path: str, status: int, kind: str, words: str
) -> None:
    with StandIn() as stand_in:
        got, found, _ = _post(stand_in.port, body, path, **headers)
    assert (got, found["type"], found["error"]["type"]) == (status, "error", kind)
    assert words in found["error"]["message"]


def test_faults_come_in_turn_and_then_it_behaves() -> None:
    faults = [
        Fault(status=429, retry_after=7),
        None,
        Fault(text="no", stop_reason="refusal"),
        Fault(cut=True),
    ]
    with StandIn(faults=faults) as stand_in:
        status, found, headers = _post(stand_in.port, BODY)
        assert (status, found["error"]["type"], headers["retry-after"]) == (429, "rate_limit_error", "7")
        assert _post(stand_in.port, BODY)[0] == 200
        found = _post(stand_in.port, BODY)[1]
        assert (found["stop_reason"], found["content"][0]["text"]) == ("refusal", "no")
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            _post(stand_in.port, BODY)
        assert _post(stand_in.port, BODY)[0] == 200


def test_the_same_requests_in_the_same_order_get_the_same_answers() -> None:
    """… and the same request over and over gets others: so trials differ, and a demo can be repeated."""

    def answers(seed: int) -> list[str]:
        with StandIn(seed=seed) as stand_in:
            body = {**BODY, "messages": [{"role": "user", "content": "Where is my package?"}]}
            return [_post(stand_in.port, body)[1]["content"][0]["text"] for _ in range(20)]

    assert answers(1) == answers(1)
    assert answers(1) != answers(2)
    assert len(set(answers(1))) > 1


def test_a_taken_port_is_reported_and_a_listening_stand_in_is_recognised() -> None:
    with StandIn() as stand_in:
        assert answers_at(stand_in.port)
        with pytest.raises(ReplayError, match=f"cannot listen on 127.0.0.1:{stand_in.port}"):
            StandIn(port=stand_in.port)
    assert not answers_at(stand_in.port)


def _served_by_another_process(folder: Path, *, nohup: bool = False) -> tuple[subprocess.Popen[str], int]:
    """Start a process that starts `replay demo --serve`; returns it, and the pid of the server."""
    with StandIn() as free:
        port = free.port
    repository.prepare(
        folder, live=False, port=port, judge=repository.DemoJudge(model="claude-opus-5-5", votes=1)
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, "nohup" if nohup else ""],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    server = int(parent.stdout.readline())
    assert answers_at(port)
    return parent, server


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.slow
def test_a_served_stand_in_ends_with_the_process_that_started_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    parent, server = _served_by_another_process(tmp_path)
    parent.send_signal(number)
    parent.communicate()
    deadline = time.monotonic() + PATIENCE_S
    while _is_running(server):
        assert time.monotonic() < deadline, "the stand-in outlived its parent"
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
def test_a_stand_in_started_under_nohup_outlives_its_parent(tmp_path: Path) -> None:
    parent, server = _served_by_another_process(tmp_path, nohup=True)
    try:
        parent.kill()
        parent.communicate()
        # Four checks of the parent take place meanwhile.
        time.sleep(2)
        assert answers_at(repository.port_of(tmp_path))
    finally:
        os.kill(server, signal.SIGKILL)
