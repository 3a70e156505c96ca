"""Recorded traces as the trials of a lane: which belong to which item, and in what order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from replaydiff.replay.engine.items import from_golden, from_sample
from replaydiff.replay.engine.run import Hooks, prepare
from replaydiff.replay.engine.versions import resolve
from replaydiff.replay.errors import ReplayError
from replaydiff.replay.model import Lane, Rule, Status, Trace, Trial, Usage
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.connection import open_store
from tests.engine.project import WHEN, Project, order


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "shop")


def shadow(number: int, task: int | str, release: str, later: int = 0, **fields: object) -> Trace:
    metadata = {"task_id": task, "nested": {"id": number}}
    started = WHEN + timedelta(hours=later)
    return order(number, metadata=metadata, release=release, started_at=started, **fields)


def golden(project: Project, *cases: Mapping[str, object]) -> Path:
    path = project.folder / "golden.jsonl"
    path.write_text("".join(json.dumps({"input": "where is it?", **case}) + "\n" for case in cases))
    return path


def run(project: Project, cases: Path | None, *specs: str, pair_by: str | None = None) -> list[Trial]:
    settings = Settings(root=project.folder)
    with open_store(project.store, read_only=True) as con:
        source = from_golden(cases) if cases else from_sample(con, None)
    lanes = dict(zip((Lane.OLD, Lane.NEW), (resolve(spec, settings) for spec in specs), strict=False))
    prepare(project.store, source, lanes, settings, pair_by=pair_by)(Hooks())
    return project.trials()


def paired(trials: list[Trial]) -> set[tuple[str, str, int, str | None]]:
    return {(t.item_id, str(t.lane), t.index, t.served[0].from_trace_id) for t in trials}


def test_without_a_field_an_item_is_its_own_trace(project: Project) -> None:
    project.sample(3)
    assert paired(run(project, None, "observed")) == {
        (f"order-{n}", "old", 0, f"order-{n}") for n in range(3)
    }
    assert paired(run(project, None, "observed:input = 'order-1'")) == {("order-1", "old", 0, "order-1")}
    assert project.run().settings["observed"] == {
        "old": {"traces": 1, "unpaired": 0, "items_without_trace": 2}
    }


def test_a_trace_becomes_a_trial_with_all_that_was_recorded(project: Project) -> None:
    full = order(
        1,
        usage=Usage(input_tokens=10, output_tokens=2),
        cost_usd=0.5,
        latency_ms=1200.0,
        scores={"reward": 1.0, "label": "good"},
    )
    project.traces([full, order(2, error="the model refused", final_response=None)])
    cases = golden(project, *({"id": n, "metadata": {"trace_id": f"order-{n}"}} for n in (1, 2, 3)))
    one, two = run(project, cases, "observed")
    [call] = full.tool_calls
    assert one == Trial(
        run_id=project.run().id,
        item_id="1",
        lane=Lane.OLD,
        index=0,
        status=Status.OK,
        final_response="order-1 is shipped",
        served=one.served,
        usage=full.usage,
        cost_usd=0.5,
        latency_ms=1200.0,
        started_at=full.started_at,
        scores={"reward": 1.0, "label": "good"},
    )
    assert [(s.call, s.rule, s.from_trace_id) for s in one.served] == [(call, Rule.TAPE, "order-1")]
    assert (two.status, two.reason) == (Status.AGENT_ERROR, "the model refused")


def test_traces_of_one_item_are_its_trials_in_the_order_they_started(project: Project) -> None:
    project.traces(
        [
            shadow(0, 7, "a", later=2),
            shadow(1, "7", "a", later=1),
            shadow(2, 8, "a"),
            shadow(3, 7, "b"),
            shadow(4, 9, "b"),
        ]
    )
    cases = golden(project, {"id": "first", "metadata": {"task_id": 7}}, {"id": "8"}, {"id": "absent"})
    trials = run(
        project, cases, "observed:release = 'a'", "observed:release = 'b'", pair_by="metadata.task_id"
    )
    assert paired(trials) == {
        ("first", "old", 0, "order-1"),
        ("first", "old", 1, "order-0"),
        ("8", "old", 0, "order-2"),
        ("first", "new", 0, "order-3"),
    }
    found = project.run()
    assert (found.trials, found.finished_at is not None) == (2, True)
    assert found.settings["observed"] == {
        "old": {"traces": 3, "unpaired": 0, "items_without_trace": 1},
        "new": {"traces": 2, "unpaired": 1, "items_without_trace": 2},
    }


def test_sampled_traces_are_paired_by_their_own_field(project: Project) -> None:
    project.sample(2)
    project.traces([replace(order(n), session_id=f"s{n}") for n in range(2)])
    project.traces([order(n + 10, session_id=f"s{n % 2}", release="2") for n in range(4)])
    trials = run(project, None, "observed", "observed:release = '2'", pair_by="session_id")
    assert paired(trials) == {
        ("order-0", "old", 0, "order-0"),
        ("order-1", "old", 0, "order-1"),
        ("order-0", "new", 0, "order-10"),
        ("order-0", "new", 1, "order-12"),
        ("order-1", "new", 0, "order-11"),
        ("order-1", "new", 1, "order-13"),
    }


@pytest.mark.parametrize("field", ["metadata.nested.id", "input", "trace_id"])
def test_any_field_can_pair(project: Project, field: str) -> None:
    project.traces([shadow(n, n, "a") for n in range(3)])
    case = {"id": "one", "input": "order-1", "metadata": {"nested": {"id": 1}, "trace_id": "order-1"}}
    assert paired(run(project, golden(project, case), "observed:true", pair_by=field)) == {
        ("one", "old", 0, "order-1")
    }


@pytest.mark.parametrize(
    ("spec", "pair_by", "said"),
    [
        (
            "observed:release = 'zzz'",
            "metadata.task_id",
            "no trace fits version \"observed:release = 'zzz'\"; `replay traces --where` shows what a "
            "condition finds",
        ),
        (
            "observed:true",
            "metadata.plan",
            "3 traces fit version 'observed:true', and none has the metadata.plan of an item; name the field "
            "that both have with --pair-by",
        ),
        (
            "observed",
            None,
            "no case of the golden set names the trace it was made from; pair version 'observed' with "
            "--pair-by FIELD",
        ),
        (
            "observed:relase = 'a'",
            "metadata.task_id",
            "the condition `relase = 'a'` names a column 'relase' that a trace does not have; did you "
            "mean 'release'? (a field of the metadata is metadata.relase)",
        ),
    ],
)
def test_a_lane_without_any_trace_is_refused_and_nothing_is_stored(
    project: Project, spec: str, pair_by: str | None, said: str
) -> None:
    project.traces([shadow(n, n, "a") for n in range(3)])
    with pytest.raises(ReplayError) as refused:
        run(project, golden(project, {"id": "x"}), spec, pair_by=pair_by)
    assert str(refused.value) == said
    assert project.runs() == []


def test_pairing_needs_something_observed(project: Project) -> None:
    project.sample(1)
    project.commit("v1")
    project.settings('[agent]\nentrypoint = "app.agent:run_agent"\ntools = []\n')
    done = project.replay("run", "--old", ".", "--pair-by", "session_id")
    assert done.code == 2
    assert "no version here is observed" in done.err
