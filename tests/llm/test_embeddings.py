"""`[diff] embedding`: answers that nothing grades are compared by their meaning."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import replaydiff as rd
from replaydiff.replay.errors import CredentialsError, ReplayError, SettingsError
from replaydiff.replay.llm.embeddings import embedder_from
from replaydiff.replay.settings import DiffSection, Settings
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import write_traces
from tests.stand_ins.loopback import Loopback, Request, serving
from tests.store.build import trace

SAID = {"old": "Order {n} was cancelled.", "new": "We have called off purchase {n}."}


def vectors(request: Request) -> tuple[int, Any]:
    """Every text means the same; the rows come in another order than the texts."""
    rows = [{"index": index, "embedding": [3.0, 4.0]} for index in range(len(request.body["input"]))]
    return 200, {"data": rows[::-1]}


@pytest.fixture
def server() -> Iterator[Loopback]:
    with serving(vectors) as loopback:
        yield loopback


def project(folder: Path, url: str) -> rd.Project:
    """Twenty questions that two releases answered."""
    (folder / "replay.toml").write_text(f'[diff]\nembedding = "m"\nembedding_url = "{url}/v1"\n')
    with open_store(folder / ".replay" / "replay.duckdb") as con:
        write_traces(
            con,
            [
                trace(
                    f"{release}-{n}",
                    release=release,
                    started_at=datetime(2026, 10, 5),
                    input=f"cancel {n}",
                    final_response=said.format(n=n),
                    metadata={"task": f"t{n}"},
                )
                for release, said in SAID.items()
                for n in range(20)
            ],
        )
    return rd.open(folder)


def compared(opened: rd.Project) -> Any:
    versions = {lane: f"observed:release = '{lane}'" for lane in ("old", "new")}
    draw = {"where": "release = 'old'", "size": 20}
    _, diff = opened.compare(draw=draw, pair_by="metadata.task", **versions)
    return diff.result.likeness


def test_answers_of_one_meaning_are_alike_in_other_words_and_no_text_is_sent_twice(
    tmp_path: Path, server: Loopback
) -> None:
    opened = project(tmp_path, server.url)
    likeness = compared(opened)
    assert (likeness.by_meaning, likeness.new, likeness.word) == (True, pytest.approx(1.0), None)
    assert likeness.sentence == "likeness of meaning 1.00, the old version not run twice"
    assert [len(request.body["input"]) for request in server.answered] == [40]
    assert {request.path for request in server.answered} == {"/v1/embeddings"}
    assert "Authorization" not in server.answered[0].headers
    assert compared(opened).by_meaning
    assert len(server.answered) == 1


def test_without_vectors_words_are_compared(tmp_path: Path) -> None:
    with serving(lambda _: (404, {"error": "no such model"})) as loopback:
        likeness = compared(project(tmp_path, loopback.url))
    assert not likeness.by_meaning
    assert likeness.new < 0.6


def _settings(folder: Path, embedding: str, url: str | None = None) -> Settings:
    return Settings(root=folder, diff=DiffSection(embedding=embedding, embedding_url=url))


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        ((200, {"data": []}), "gave no vector for each of 1 texts"),
        ((200, {"data": [{"index": 0, "embedding": ["x"]}]}), "made no vectors"),
        ((200, {"data": [{"index": 0, "embedding": [0.0, 0.0]}]}), "gave no vector for each of 1 texts"),
        ((200, {}), "made no vectors: KeyError: 'data'"),
        ((400, {"error": "too long"}), "refused the texts: 400"),
    ],
)
def test_what_is_no_vector_is_one_sentence(reply: tuple[int, Any], sentence: str, tmp_path: Path) -> None:
    with serving(lambda _: reply) as loopback:
        embedder = embedder_from(_settings(tmp_path, "m", f"{loopback.url}/v1"))
        assert embedder is not None
        with pytest.raises(ReplayError, match=sentence):
            embedder.vectors(["a text"])


def test_a_model_of_a_package_encodes_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small_model.py").write_text(
        "class Model:\n    def encode(self, texts):\n        return [[len(text), 0.0] for text in texts]\n"
        "def nothing():\n    return 1\n"
    )
    monkeypatch.setenv("REPLAY_TRUST", "1")
    monkeypatch.delitem(sys.modules, "small_model", raising=False)
    embedder = embedder_from(_settings(tmp_path, "small_model:Model"))
    assert embedder is not None
    assert embedder.vectors(["four", "sixteen"]) == [[1.0, 0.0], [1.0, 0.0]]
    with pytest.raises(SettingsError, match="must return a model with encode"):
        embedder_from(_settings(tmp_path, "small_model:nothing"))


def test_a_key_that_is_missing_stops_the_run_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(CredentialsError, match="the embedding model needs a key"):
        embedder_from(_settings(tmp_path, "text-embedding-3-small"))
