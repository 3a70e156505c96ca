"""The page and the terminal show pictures and name other files; what they hold never becomes markup."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import replaydiff as rd
from replaydiff.replay.media import MediaFolder
from replaydiff.replay.model import media_in
from replaydiff.replay.terminal.transcript import Transcript
from replaydiff.replay.view.server import build_app
from replaydiff.replay.view.site import Site
from tests.stand_ins.media import FILES, openai_part

HOST = "127.0.0.1:8000"
SVG = "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIj48c2NyaXB0PmFsZXJ0KDEpPC9zY3JpcHQ+PC9zdmc+"


@pytest.fixture
def project(tmp_path: Path) -> rd.Project:
    (tmp_path / "replay.toml").write_text("")
    svg = {"type": "image_url", "image_url": {"url": SVG}, "filename": '"><b>.svg'}
    parts = [{"type": "text", "text": "What is it?"}, *map(openai_part, FILES), svg]
    gone = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    messages = [{"role": "user", "content": [*parts, gone]}, {"role": "assistant", "content": "A bill."}]
    trace = {"trace_id": "t1", "started_at": "2026-11-01T10:00:00Z", "messages": messages}
    (tmp_path / "t.jsonl").write_text(json.dumps(trace))
    opened = rd.open(tmp_path)
    opened.import_(tmp_path / "t.jsonl", source="jsonl")
    return opened


def test_the_page_shows_pictures_and_links_to_other_files(project: rd.Project) -> None:
    app = build_app(Site.of(project), host=HOST, token="t")
    client = TestClient(app, base_url=f"http://{HOST}")
    assert client.get("/?token=t").status_code == 200
    page = client.get("/trace", params={"id": "t1"}).text
    assert page.count("<img") == 1
    assert "<b>" not in page
    assert "a picture or file that is missing: url" in page
    folder = MediaFolder.beside(project.store.path)
    for media in media_in(project.trace("t1").messages[0].parts):
        answer = client.get(f"/media/{media.sha256}")
        assert answer.content == folder.read(media.sha256)
        is_picture = media.media_type == "image/png"
        shown = media.media_type if is_picture else "application/octet-stream"
        assert answer.headers["content-type"] == shown
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert ("content-disposition" in answer.headers) is not is_picture
    for path in ("a" * 64, "..%2Freplay.duckdb", "x"):
        assert client.get(f"/media/{path}").status_code == 404


def test_a_terminal_shows_type_size_and_name(project: rd.Project) -> None:
    shown = Transcript(120, full=True).trace(project.trace("t1"))
    assert "[image/png, 70 bytes]" in shown
    assert f"[application/pdf, {len(FILES['application/pdf'])} bytes, bill.pdf]" in shown
    assert "[a picture or file that is missing: url]" in shown
    assert "replay-media" not in shown
