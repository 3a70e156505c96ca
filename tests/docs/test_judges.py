"""The example of docs/extending/judges.md grades a run, named as a file and as a distribution."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.conftest import Replay
from tests.commands.conftest import replay as replay
from tests.stand_ins.loopback import Request, serving

PAGE = (Path(__file__).parents[2] / "docs" / "extending" / "judges.md").read_text(encoding="utf-8")
AGENT = 'def run(text):\n    return "Gladly, order 7 is cancelled."\n'
CASE = {"id": "c", "input": "cancel order 7", "expected_response_traits": ["is polite"]}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, str]]]:
    """What the model of the page's gateway was asked."""
    asked: list[dict[str, str]] = []

    def answer(request: Request) -> tuple[int, dict[str, str]]:
        asked.append(request.body)
        return 200, {"text": json.dumps({"reasoning": "It is polite.", "score": 3})}

    with serving(answer) as server:
        monkeypatch.setenv("HOUSE_URL", f"{server.url}/")
        yield asked


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
