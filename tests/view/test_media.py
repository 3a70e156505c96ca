"""The page and the terminal show pictures and name other files; what they hold never becomes markup."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import replaydiff as rd
from replaydiff.replay.media import MediaFolder
from replaydiff.replay.model import Item, Json, Lane, Media, Message, Status, Trial, Turn, media_in
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


def test_an_item_of_several_turns_begins_with_the_first_and_its_own_picture() -> None:
    def turn(text: str, address: str) -> tuple[Message, Message]:
        parts: list[Json] = [{"type": "image_url", "image_url": {"url": address}}]
        return Message(role="user", text=text, parts=parts), Message(role="assistant", text="Seen.")

    pictures = [
        Media(media_type="image/png", sha256=f"{n}" * 64, size=n, name=f"{n}.png").reference for n in (1, 2)
    ]
    first, second = turn("what is it?", pictures[0]), turn("and that?", pictures[1])
    talk = Item(id="t", input="and that?", messages=(*first, second[0]), metadata={"first_turn": 1})
    head = Transcript(80).item(talk, [], {}).partition("recording")[0].split("\n")[2:]
    assert [line.split(maxsplit=1) for line in head if line] == [
        ["user", "what is it?"],
        ["user", "[image/png, 1 bytes, 1.png]"],
    ]
    turns = tuple(Turn(number=number, calls=0, response="Seen.") for number in (1, 2))
    replayed = Trial(run_id="r", item_id="t", lane=Lane.NEW, index=0, status=Status.OK, turns=turns)
    shown = Transcript(80).item(talk, [replayed], {}).partition("new trial 1")[2]
    places = [shown.index(text) for text in ("what is it?", "1.png", "Seen.", "and that?", "2.png")]
    assert places == sorted(places)
    history = replace(talk, metadata={"first_turn": 2})
    head = Transcript(80).item(history, [], {}).partition("recording")[0].split("\n")[2:]
    assert [line.split(maxsplit=1) for line in head if line] == [
        ["user", "and that?"],
        ["user", "[image/png, 2 bytes, 2.png]"],
    ]


def test_a_terminal_shows_type_size_and_name(project: rd.Project) -> None:
    shown = Transcript(120, full=True).trace(project.trace("t1"))
    assert "[image/png, 70 bytes]" in shown
    assert f"[application/pdf, {len(FILES['application/pdf'])} bytes, bill.pdf]" in shown
    assert "[a picture or file that is missing: url]" in shown
    assert "replay-media" not in shown
