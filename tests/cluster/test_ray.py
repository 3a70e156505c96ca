"""`--executor ray` on a genuine cluster of three nodes: `make ray`."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.model import Trial
from tests.boundary.canaries import Canaries
from tests.boundary.test_runs import ATTEMPTS, INTRUSIVE, needs_a_boundary
from tests.cluster.local_cluster import LocalCluster
from tests.engine.project import SETTINGS, Project, ended, rests, two_revisions
from tests.engine.test_environments import USING, requirements
from tests.exit_codes import check_exit
from tests.stand_ins.loopback import Request, serving
from tests.stand_ins.models import models

pytest.importorskip("ray")
if not os.environ.get("REPLAYDIFF_TEST_RAY"):
    pytest.skip("make ray", allow_module_level=True)

RAY = """
[ray]
trials_per_cpu = 2
env = ["CALLS", "SECONDS_A_TRIAL", "TICKETS"]
"""
JUDGED = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5-5",
    "content": [{"type": "text", "text": '{"reasoning": "So it is.", "score": 3}'}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 100, "output_tokens": 10},
}
RUN = ("run", "--sample", "october", "--old", "git:v1", "--new", "git:v2", "--no-judge", "--trials", "1")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3) as nodes:
        yield nodes


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = two_revisions(tmp_path / "shop")
    made.settings(SETTINGS + RAY)
    return made


def content(trials: list[Trial]) -> dict[tuple[str, str, int], Any]:
    """What a deterministic agent decides of its trials."""
    return {
        (one.item_id, str(one.lane), one.index): (
            one.status, one.final_response, one.reason, one.served, one.usage, one.cost_usd, one.attempts
        )
        for one in trials
    }  # fmt: skip


def test_results_are_those_of_the_local_executor(cluster: LocalCluster, project: Project) -> None:
    project.sample(12)
    local = project.replay(*RUN, "--executor", "local", "--concurrency", "6")
    assert local.code in (0, 3), local.err
    here = project.trials()
    first = project.run().id
    remote = project.replay(*RUN, "--executor", "ray", "--concurrency", "6", **cluster.environment)
    assert remote.code == local.code, remote.err
    assert project.run().id != first
    assert content(project.trials()) == content(here)
    assert len(here) == 24
    diffs = [json.loads(project.replay("diff", run, "--json").out) for run in (first, project.run().id)]
    for diff in diffs:
        # Times and names differ from run to run, and the id of a cause that no other run can have.
        del diff["run"], diff["next"], diff["lanes"]
        for cause in diff["causes"]:
            del cause["id"]
        for metric in ("latency_ms",):
            diff["metrics"].pop(metric, None)
    assert diffs[0]["items"] == diffs[1]["items"]
    assert diffs[0]["answer"] == diffs[1]["answer"]
    assert diffs[0]["causes"] == diffs[1]["causes"]


def test_a_lost_node_loses_no_finished_trial(project: Project) -> None:
    project.sample(30)
    with LocalCluster(3) as nodes:
        process = project.start(
            *RUN, "--executor", "ray", "--concurrency", "6", SECONDS_A_TRIAL="0.3", **nodes.environment
        )
        project.wait_for_calls(20)
        nodes.kill_node(2)
        out, err = process.communicate(timeout=400)
        assert process.wait() in (0, 3), err
    trials = project.trials()
    assert Counter(one.status.value for one in trials) == {"ok": 60}
    assert project.times_called() <= 60 + 2, "only what ran on the node was repeated"
    assert "is lost" in err
    del out


def test_a_lost_cluster_ends_the_run_and_a_new_one_resumes_it(
    cluster: LocalCluster, project: Project
) -> None:
    project.sample(30)
    with LocalCluster(3) as nodes:
        process = project.start(
            *RUN, "--executor", "ray", "--concurrency", "6", SECONDS_A_TRIAL="2", **nodes.environment
        )
        project.wait_for_calls(8)
        nodes.kill_node(0)
        nodes.kill_node(2)
        _, err = process.communicate(timeout=120)
        check_exit("cluster lost", process.wait(), err)
    kept = len(project.trials())
    done = project.replay("run", "--resume", project.run().id, "--executor", "ray", **cluster.environment)
    assert done.code in (0, 3), done.err
    assert f"{kept} of 60 trials are there" in done.err
    assert Counter(one.status.value for one in project.trials()) == {"ok": 60}
    assert project.times_called() <= 60 + 6, "only what was running was repeated"


@pytest.mark.parametrize("during", ["a look", "the end"])
def test_a_cluster_that_is_lost_while_judging_costs_no_vote_twice(
    cluster: LocalCluster, project: Project, during: str
) -> None:
    """Between looks the driver is connected while it judges; after the last trial it is not."""
    project.sample(40)
    asked: Counter[str] = Counter()
    lost = threading.Event()

    def vote(request: Request) -> tuple[int, Any]:
        asked[json.dumps(request.body["messages"])] += 1
        if sum(asked.values()) >= 5:
            lost.wait()
        return 200, JUDGED

    run = [word for word in RUN if word != "--no-judge"]
    run += ["--until-known"] if during == "a look" else []
    with serving(vote) as server:
        judge = (
            f'\n[judge]\nmodel = "claude-opus-5-5"\nbase_url = "{server.url}"\nconcurrency = 2\nvotes = 1\n'
        )
        project.settings(SETTINGS + RAY + judge)
        key = {"ANTHROPIC_API_KEY": "none"}
        with LocalCluster(3) as nodes:
            process = project.start(
                *run, "--executor", "ray", "--concurrency", "6", **nodes.environment, **key
            )
            while sum(asked.values()) < 5:
                assert process.poll() is None, process.communicate()[1]
                time.sleep(0.1)
            for node in (2, 0):
                nodes.kill_node(node)
            if during == "the end":
                lost.set()
            _, err = process.communicate(timeout=300)
            lost.set()
            code = process.wait()
        if during == "a look":
            check_exit("cluster lost", code, err)
        else:
            assert code in (0, 3), err
        kept = len(project.trials())
        done = project.replay(
            "run", "--resume", project.run().id, "--executor", "ray", **cluster.environment, **key
        )
    assert done.code in (0, 3), done.err
    assert len(project.trials()) >= kept
    repeated = sum(asked.values()) - len(asked)
    assert repeated <= (2 if during == "a look" else 0), "only what never got an answer is asked again"


def test_a_killed_driver_resumes(cluster: LocalCluster, project: Project) -> None:
    project.sample(30)
    process = project.start(
        *RUN, "--executor", "ray", "--concurrency", "6", SECONDS_A_TRIAL="0.3", **cluster.environment
    )
    project.wait_for_calls(20)
    ended(process, signal.SIGKILL)
    # The actors end with the driver, and the agents with them.
    before = -1
    while before != project.times_called():
        before = project.times_called()
        time.sleep(5)
    done = project.replay("run", "--resume", project.run().id, "--executor", "ray", **cluster.environment)
    assert done.code in (0, 3), done.err
    assert Counter(one.status.value for one in project.trials()) == {"ok": 60}
    assert project.times_called() <= 60 + 6, "only what was running was repeated"


def test_a_rate_limit_that_one_node_meets_rests_all_of_them(cluster: LocalCluster, project: Project) -> None:
    project.sample(12)
    rests(project, "--executor", "ray", **cluster.environment)


def test_looks_budgets_and_containment_hold(cluster: LocalCluster, project: Project) -> None:
    project.sample(12)
    done = project.replay(
        *RUN, "--executor", "ray", "--concurrency", "2", "--budget", "0.05", **cluster.environment
    )
    assert done.code in (0, 3), done.err
    assert len(project.trials()) == 4, "the driver counts what is spent"


@needs_a_boundary
def test_the_boundary_leaves_only_the_model_on_every_node(cluster: LocalCluster, project: Project) -> None:
    project.settings(SETTINGS.replace('["app.agent:call"]', "[]") + RAY.replace('"CALLS"', '"CANARIES"'))
    (project.folder / "attempts.py").write_text(ATTEMPTS.read_text())
    project.commit("v3", INTRUSIVE)
    project.sample(12)
    with tempfile.TemporaryDirectory(dir="/opt") as folder, models() as stand_in:
        canaries = Canaries(Path(folder), None)
        try:
            done = project.replay(
                "run", "--sample", "october", "--new", "git:v3", "--no-judge", "--trials", "1",
                "--executor", "ray", "--concurrency", "6",
                ANTHROPIC_BASE_URL=stand_in.url, ANTHROPIC_API_KEY="sk-a-key",
                **canaries.environment(), **cluster.environment,
            )  # fmt: skip
            assert done.code == 0, done.err
            assert {trial.final_response for trial in project.trials()} == {"the model gave a message"}
            assert canaries.effects() == []
            assert len(stand_in.asked) == 12
        finally:
            canaries.close()


WRITING = """
import os  # v3
def call(name, args) -> str:
    return "THE REAL TOOL RAN"
def run_agent(text):
    call("get_order_status", {"order_id": text})
    was_there = os.path.exists("note.txt")
    with open("note.txt", "w") as file:
        file.write(text)
    return "another trial's file" if was_there else "no file"
"""


def test_each_trial_has_a_folder_of_its_own_on_every_node(cluster: LocalCluster, project: Project) -> None:
    project.commit("v3", WRITING)
    project.sample(12)
    run = ("run", "--sample", "october", "--new", "git:v3", "--trials", "2", "--executor", "ray")
    done = project.replay(*run, **cluster.environment)
    assert done.code == 0, done.err
    trials = project.trials()
    assert {trial.final_response for trial in trials} == {"no file"}
    assert {tuple(file.path for file in trial.files) for trial in trials} == {("note.txt",)}


def test_versions_get_the_packages_of_their_lock_files_on_every_node(
    cluster: LocalCluster, project: Project
) -> None:
    for version in ("1.0", "2.0"):
        requirements(project.folder, version)
        project.commit(f"lock{version}", USING)
    project.settings(SETTINGS + "venv = true\n" + RAY)
    project.sample(6)
    done = project.replay(
        *RUN[:4], "git:lock1.0", "--new", "git:lock2.0", *RUN[7:], "--executor", "ray", "--concurrency", "6",
        **cluster.environment,
    )  # fmt: skip
    assert done.code in (0, 3), done.err
    answers = {str(one.lane): str(one.final_response).split(":")[0] for one in project.trials()}
    assert answers == {"old": "tiny 1.0 small", "new": "tiny 2.0 small"}
    assert {one.status.value for one in project.trials()} == {"ok"}
    built = list((cluster.cache / "replaydiff" / "venvs").glob("*/bin/python"))
    assert len(built) == 2, "nodes of one machine share them"


def test_a_missing_cluster_is_one_sentence(project: Project) -> None:
    project.sample(1)
    done = project.replay(*RUN, "--executor", "ray", RAY_ADDRESS="127.0.0.1:9", RAY_AUTH_MODE="disabled")
    check_exit("no cluster", done.code, done.err)
    assert not project.runs()
