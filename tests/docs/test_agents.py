"""The examples of docs/extending/agents.md and executors.md, installed as distributions and named in settings."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from replaydiff.replay.model import Status
from tests.commands.conftest import Replay
from tests.commands.conftest import replay as replay
from tests.engine.project import Project, order
from tests.stand_ins.distributions import blocks, install


@pytest.fixture
def project(replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    site = tmp_path / "site"
    for page in ("agents", "executors"):
        # An earlier test may have imported another text of it.
        sys.modules.pop(f"acme_{page}", None)
        install(site, f"acme_{page}", blocks(page, "python")[0], blocks(page, "toml")[0])
    monkeypatch.syspath_prepend(str(site))
    project = Project(tmp_path / "shop")
    project.write("v1", "def call(name, args): ...\ndef run_agent(text): return call('x', {})")
    project.settings(blocks("agents", "toml")[1] + blocks("executors", "toml")[1])
    project.sample(7)
    monkeypatch.chdir(project.folder)
    return project


def test_the_adapter_of_the_page_replays_a_run(replay: Replay, project: Project) -> None:
    done = replay(
        "run", "--old", "observed", "--new", "friendly", "--sample", "october", "--executor", "local"
    )
    assert done.code == 0, done.err
    replayed = [trial for trial in project.trials() if trial.lane == "new"]
    assert {trial.final_response for trial in replayed} == {
        f"Good morning! order-{number} is shipped." for number in range(7)
    }
    assert len(replayed) == 7
    assert {trial.fidelity for trial in replayed} == {1.0}
    assert project.run().lanes[replayed[0].lane].packages == {"acme": "1.0"}


def test_a_miss_an_error_and_a_time_out_of_an_adapter_are_told_apart(
    replay: Replay, project: Project
) -> None:
    site = project.folder.parent / "site"
    [source] = blocks("agents", "python")
    source = source.replace(
        "async with rd.ReplayedTrial(item, self.rules) as trial:",
        "async with rd.ReplayedTrial(item, self.rules) as trial:\n"
        "            if item.input == 'slow': await asyncio.sleep(60)\n"
        "            if item.input == 'broken': raise KeyError('status')",
    )
    (site / "acme_agents.py").write_text("import asyncio\n" + source)
    project.traces([order(0, trace_id=name, input=name) for name in ("slow", "broken", "unknown")])
    assert replay("sample", "--month", "2026-10", "--size", "10", "--name", "all").code == 0
    done = replay("run", "--new", "friendly", "--sample", "all", "--set", "run.timeout=1")
    assert done.code == 3
    found = {trial.item_id: (trial.status, trial.reason) for trial in project.trials()}
    assert found["slow"] == (Status.TIMEOUT, "no answer within 1 seconds")
    assert found["broken"] == (Status.AGENT_ERROR, "KeyError: 'status'")
    assert found["unknown"][0] is Status.DIVERGED
    assert found["order-1"] == (Status.OK, None)


def test_the_executor_of_the_page_runs_one_trial_at_a_time(
    replay: Replay, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECONDS_A_TRIAL", "0.01")
    done = replay("run", "--new", "friendly", "--sample", "october", "--trials", "2")
    assert (done.code, len(project.trials())) == (0, 14)
    times = sorted(trial.started_at for trial in project.trials() if trial.started_at is not None)
    gaps = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(times)]
    assert min(gaps[1:]) >= 0.01


@pytest.mark.parametrize(
    ("settings", "options", "sentence"),
    [
        ('[versions.friendly]\nkind = "acmee"\ntools = []\n', (), "there is no agent adapter 'acmee'; did you mean 'acme'?"),
        ('[versions.friendly]\nkind = "acme"\n', (), "does not say how its tool calls are answered"),
        ('[versions.friendly]\nkind = "acme"\nurl = "http://localhost"\n', (), "is http and adapter at once"),
        (None, ("--executor", "gentl"), "there is no executor 'gentl'; did you mean 'gentle'?"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence(
    replay: Replay, project: Project, settings: str | None, options: tuple[str, ...], sentence: str
) -> None:
    if settings is not None:
        project.settings(settings)
    done = replay("run", "--new", "friendly", "--sample", "october", *options)
    assert (done.code, project.runs()) == (2, [])
    assert sentence in done.err


def test_what_cannot_be_loaded_is_named(replay: Replay, project: Project) -> None:
    site = project.folder.parent / "site"
    (site / "acme_agents.py").write_text("raise RuntimeError('no licence')\n")
    (site / "acme_executors.py").write_text("class Gentle: ...\n")
    done = replay("run", "--new", "friendly", "--sample", "october", "--executor", "local")
    assert (done.code, project.runs()) == (2, [])
    assert (
        "the agent adapter 'acme' of version 'friendly' cannot be loaded: RuntimeError: no licence"
        in done.err
    )
    done = replay("run", "--new", "friendly", "--sample", "october")
    assert (done.code, project.runs()) == (2, [])
    assert "the executor 'gentle' is Gentle without a method `run`" in done.err
