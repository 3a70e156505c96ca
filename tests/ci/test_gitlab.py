"""The job for GitLab that docs/ci.md gives, run as a runner would run it, against a stand-in of GitLab's notes."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from tests.ci.test_action import AGENT, Runner

PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text()
HERE = "/projects/7/merge_requests/12/notes"


class Notes(ThreadingHTTPServer):
    """The notes of one merge request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.notes: list[dict[str, Any]] = [
            {"id": 1, "body": "<!-- replaydiff --> of somebody else", "author": {"id": 8}}
        ]
        self.asked: list[tuple[str, str, str | None]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Notes

    def _serve(self) -> None:
        self.server.asked.append((self.command, self.path, self.headers["PRIVATE-TOKEN"]))
        sent = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
        if self.command == "POST":
            self.server.notes.append({"id": 2, "body": parse_qs(sent)["body"][0], "author": {"id": 5}})
        if self.command == "PUT":
            number = int(self.path.rpartition("/")[2])
            note = next(note for note in self.server.notes if note["id"] == number)
            note["body"] = parse_qs(sent)["body"][0]
        answer = json.dumps({"id": 5} if self.path == "/user" else self.server.notes).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = _serve  # noqa: N815 - the library calls them so

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def gitlab() -> Iterator[Notes]:
    server = Notes()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def _job() -> dict[str, Any]:
    block = PAGE[PAGE.index("## GitLab CI") :].partition("```yaml\n")[2].partition("```")[0]
    job: dict[str, Any] = yaml.safe_load(block)["replay"]
    return job


def _run(runner: Runner, gitlab: Notes, token: str) -> int:
    script = "\n".join(line for line in _job()["script"] if not line.startswith("pip "))
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=runner.folder, capture_output=True, text=True, check=False,
        env={
            **os.environ, "PATH": runner.path, "REPLAY_TOKEN": token, "CI_PROJECT_ID": "7",
            "CI_MERGE_REQUEST_IID": "12", "CI_API_V4_URL": f"http://127.0.0.1:{gitlab.server_port}",
        },
    )  # fmt: skip
    return done.returncode


def test_the_note_is_written_once_and_updated(tmp_path: Path, gitlab: Notes) -> None:
    runner = Runner(tmp_path)
    assert _run(runner, gitlab, "secret") == 0
    assert [note["author"]["id"] for note in gitlab.notes] == [8, 5]
    assert gitlab.notes[1]["body"].startswith("<!-- replaydiff -->")
    assert "SHIP" in gitlab.notes[1]["body"]
    (tmp_path / "shop.py").write_text(AGENT.replace("get_order", "get_orders"))
    assert _run(runner, gitlab, "secret") == 1
    assert len(gitlab.notes) == 2
    assert "HOLD" in gitlab.notes[1]["body"]
    assert [asked[:2] for asked in gitlab.asked][-2:] == [
        ("GET", f"{HERE}?per_page=100"),
        ("PUT", f"{HERE}/2"),
    ]
    assert {token for _, _, token in gitlab.asked} == {"secret"}
    kept = _job()["artifacts"]
    assert kept["when"] == "always"
    assert all((tmp_path / file).exists() for file in [*kept["paths"], kept["reports"]["junit"]])


def test_an_empty_golden_set_is_green(tmp_path: Path, gitlab: Notes) -> None:
    runner = Runner(tmp_path)
    (tmp_path / "cases" / "golden.jsonl").write_text("\n")
    assert _run(runner, gitlab, "secret") == 0
    assert gitlab.notes[1:] == []


def test_without_a_token_there_are_the_artifacts_alone(tmp_path: Path, gitlab: Notes) -> None:
    assert _run(Runner(tmp_path), gitlab, "") == 0
    assert gitlab.asked == []
    assert (tmp_path / "replay-report.html").exists()
