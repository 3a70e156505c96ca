"""`replay push langfuse` against a loopback server that answers as Langfuse does."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from replay.cli import cli, main

NOW = "2026-11-01T00:00:00.000Z"


class Server(ThreadingHTTPServer):
    """Datasets and their items, upserted by id; `stumbles` holds statuses to answer first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.items: dict[str, dict[str, Any]] = {}
        self.datasets: set[str] = set()
        self.stumbles: list[int] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = base64.b64encode(b"pk-lf-test:sk-lf-test").decode()
        if self.headers["Authorization"] != f"Basic {key}":
            return self.answer(401, {"message": "Invalid credentials"})
        if self.server.stumbles:
            return self.answer(self.server.stumbles.pop(0), {"message": "later"})
        common = {"createdAt": NOW, "updatedAt": NOW}
        if self.path == "/api/public/v2/datasets":
            self.server.datasets.add(body["name"])
            return self.answer(
                200, {"id": "d", "name": body["name"], "metadata": {}, "projectId": "p", **common}
            )
        assert self.path == "/api/public/dataset-items"
        assert body["datasetName"] in self.server.datasets
        self.server.items[body["id"]] = body
        item = {
            "id": body["id"],
            "status": "ACTIVE",
            "input": body["input"],
            "expectedOutput": body["expectedOutput"],
            "metadata": body["metadata"],
            "sourceTraceId": None,
            "sourceObservationId": None,
            "datasetId": "d",
            "datasetName": body["datasetName"],
            "mediaReferences": [],
            **common,
        }
        return self.answer(200, item)

    def answer(self, status: int, body: dict[str, Any]) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        if status == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def langfuse(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk-lf-test")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-lf-test")
    monkeypatch.setenv("LANGFUSE_BASE_URL", f"http://127.0.0.1:{server.server_port}")
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    path = tmp_path / "golden.jsonl"
    cases: list[dict[str, Any]] = [
        {
            "id": "refund-late",
            "input": "My parcel is late, I want my money back",
            "expected_tool_calls": [{"name": "get_order_status", "args": {"order_id": "31"}}],
            "metadata": {"trace_id": "trace-31", "reviewer": "Ada <ada@example.org>"},
        },
        {"id": "weather", "input": "Will it rain?", "expected_tool_calls": []},
    ]
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return path


def _push(golden: Path) -> Result:
    return CliRunner().invoke(cli, ["push", "langfuse", "--dataset", "team", "--cases", str(golden)])


def test_cases_become_items_and_a_second_push_makes_no_doubles(langfuse: Server, golden: Path) -> None:
    assert _push(golden).exit_code == 0
    assert _push(golden).exit_code == 0
    assert sorted(langfuse.items) == ["team/refund-late", "team/weather"]
    item = langfuse.items["team/refund-late"]
    assert item["sourceTraceId"] == "trace-31"
    assert item["expectedOutput"]["tool_calls"] == [{"name": "get_order_status", "args": {"order_id": "31"}}]
    assert langfuse.items["team/weather"]["expectedOutput"] == {"tool_calls": []}


def test_rate_limits_and_server_errors_are_waited_out(langfuse: Server, golden: Path) -> None:
    langfuse.stumbles = [429, 429, 503]
    result = _push(golden)
    assert result.exit_code == 0, result.output
    assert len(langfuse.items) == 2


def _fails(golden: Path, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["push", "langfuse", "--dataset", "team", "--cases", str(golden)])
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_missing_and_wrong_keys_are_a_sentence(
    langfuse: Server, golden: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-lf-other")
    assert "Langfuse refuses the keys (HTTP 401)" in _fails(golden, capsys)
    monkeypatch.delenv("LANGFUSE_SECRET_KEY")
    err = _fails(golden, capsys)
    assert "LANGFUSE_SECRET_KEY not set" in err
    assert "sk-lf" not in err


def test_an_unreachable_server_is_a_sentence(
    langfuse: Server, golden: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LANGFUSE_BASE_URL", "http://127.0.0.1:1")
    assert "Langfuse cannot be reached (ConnectError) for the dataset" in _fails(golden, capsys)
