"""The commands of docs/gateway.md do what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from replaydiff.replay.store.connection import open_store
from tests.commands.conftest import Replay
from tests.commands.conftest import replay as replay
from tests.engine.project import Project
from tests.gateway.test_gateway import LOOPING, told
from tests.stand_ins.models import models

PAGE = (Path(__file__).parent.parent.parent / "docs" / "gateway.md").read_text()


def example(what: str) -> str:
    [text] = re.findall(rf"^```{what}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(text).strip()


@pytest.mark.slow
def test_record_repeat_and_look(replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path / "shop")
    project.settings(
        '[agent]\nentrypoint = "app.agent:run_agent"\ntools = []\n[versions.prod]\n'
        '[versions.candidate]\nmodel = "claude-opus-5-5"\n'
    )
    project.write("v1", LOOPING)
    project.sample(2)
    monkeypatch.chdir(project.folder)
    with models() as stand_in:
        for name, value in (("ANTHROPIC_BASE_URL", stand_in.url), ("OPENAI_API_KEY", "k")):
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        assert replay(*shlex.split(example("sh record"))[1:]).code == 0
    recorded = project.trials()
    done = replay(*shlex.split(example("sh repeat"))[1:])
    assert done.code == 0, done.err
    assert told(project.trials()) == told(recorded)
    with open_store(project.store, read_only=True) as con:
        assert [row[-1] for row in con.execute(example("sql calls")).fetchall()] == ["1000"] * 8
