"""The example of docs/extending/judges.md grades a run, named as a file and as a distribution."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.commands.conftest import Replay
from tests.commands.conftest import replay as replay

PAGE = (Path(__file__).parents[2] / "docs" / "extending" / "judges.md").read_text(encoding="utf-8")
AGENT = 'def run(text):\n    return "Gladly, order 7 is cancelled."\n'
CASE = {"id": "c", "input": "cancel order 7", "expected_response_traits": ["is polite"]}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


class Gateway(BaseHTTPRequestHandler):
    """Answers as the model of the page's gateway."""

    asked: list[dict[str, str]]

    def do_POST(self) -> None:
        self.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        answer = json.dumps({"text": json.dumps({"reasoning": "It is polite.", "score": 3})}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, str]]]:
    Gateway.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HOUSE_URL", f"http://127.0.0.1:{server.server_port}/")
        yield Gateway.asked
        server.shutdown()


@pytest.fixture
def folder(tmp_path: Path, replay: Replay) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "golden.jsonl").write_text(json.dumps(CASE) + "\n")
    return tmp_path


def test_the_provider_of_the_page_grades_a_run(
    folder: Path, replay: Replay, gateway: list[dict[str, str]]
) -> None:
    (folder / "judges.py").write_text(blocks("python")[0])
    (folder / "replay.toml").write_text('[agent]\nentrypoint = "agent:run"\ntools = []\n' + blocks("toml")[0])
    found = json.loads(replay("check", "--json").out)
    assert found["metrics"]["judge"]["new"] == 1.0
    assert {one["model"] for one in gateway} == {"house-large"}
    assert "is polite" in gateway[0]["prompt"]


def test_a_distribution_offers_it_by_name(
    folder: Path, replay: Replay, gateway: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    info = folder / "site" / "acme_judges-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "site" / "acme_judges.py").write_text(blocks("python")[0])
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-judges\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[replaydiff.judges]\nhouse = acme_judges:House\n")
    monkeypatch.syspath_prepend(str(folder / "site"))
    judge = '[judge]\nmodel = "m"\nprovider = "house"\n'
    (folder / "replay.toml").write_text('[agent]\nentrypoint = "agent:run"\ntools = []\n' + judge)
    assert json.loads(replay("check", "--json").out)["metrics"]["judge"]["new"] == 1.0
    assert gateway
