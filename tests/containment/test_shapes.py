"""Every shape of the attack corpus, in a real worker: no real call, or a refusal before the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaydiff.replay.agents import Outcome
from replaydiff.replay.errors import VersionError
from replaydiff.replay.model import Status
from tests.agents.running import calls, item, python_has, python_version, recorded, run
from tests.containment.shapes import SHAPES, Shape
from tests.stand_ins.full import FULL, examples

CANARY = """
import os, pathlib
FILE = pathlib.Path({file!r})
def real(text):
    with FILE.open("a") as file:
        print(text, file=file)
    return "the real tool ran"
def place(name, content):  # at once: a child of another shape imports this one too
    written = pathlib.Path(f"{{name}}.{{os.getpid()}}")
    written.write_bytes(content)
    written.replace(name)
"""
AGENT = """
import importlib, logging
def run(text):
    found = importlib.import_module(text).call()
    return found if isinstance(found, str) else repr(found)
"""
_VERSION = python_version()
_PACKAGES = python_has({shape.needs for shape in SHAPES if shape.needs})
PRESENT = [shape for shape in SHAPES if shape.since <= _VERSION and shape.needs in {"", *_PACKAGES}]
UNCOVERED = [shape for shape in PRESENT if shape.runs]
ANSWERED = [shape for shape in PRESENT if not shape.refused and not shape.runs]
REFUSED = [shape for shape in PRESENT if shape.refused]
TAPE = [recorded("cancel", "answered", order_id="7")] * 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "canary.py").write_text(CANARY.format(file=str(tmp_path / "real")))
    (tmp_path / "agent.py").write_text(AGENT)
    return tmp_path


def replay(folder: Path, *shapes: Shape, trials: int = 1) -> list[Outcome]:
    for shape in shapes:
        (folder / f"{shape.module}.py").write_text(shape.source)
    points = tuple(f"{shape.module}:{point}" for shape in shapes for point in shape.points)
    items = [item(shape.module, *TAPE) for shape in shapes for _ in range(trials)]
    return run("agent:run", *items, folder=folder, tools=points, concurrency=1)


def real_calls(folder: Path) -> list[str]:
    file = folder / "real"
    return file.read_text().splitlines() if file.exists() else []


def check_answered(shapes: list[Shape], outcomes: list[Outcome]) -> None:
    failed = {}
    for shape, outcome in zip(shapes, outcomes, strict=True):
        asked = calls(outcome)
        right = [("cancel", {"order_id": "7"}, "tape")] * shape.answers
        if outcome.status is not Status.OK or outcome.final_response != "answered" or asked != right:
            failed[f"{shape.group}: {shape.name}"] = (
                outcome.status.value,
                outcome.reason,
                outcome.final_response,
                asked,
            )
    assert not failed, "\n".join(f"{name}: {found}" for name, found in failed.items())


@pytest.mark.slow
def test_shapes_that_are_answered_never_run_their_tool(folder: Path) -> None:
    trials = examples(1, 2)
    outcomes = replay(folder, *ANSWERED, trials=trials)
    check_answered([shape for shape in ANSWERED for _ in range(trials)], outcomes)
    assert real_calls(folder) == []


FIRST_OF_A_WORKER = ANSWERED if FULL else [one for one in ANSWERED if one.name == "importlib.reload"]


@pytest.mark.parametrize("shape", FIRST_OF_A_WORKER, ids=lambda shape: shape.module)
def test_the_first_trial_of_a_worker_is_answered_like_later_ones(shape: Shape, folder: Path) -> None:
    check_answered([shape], replay(folder, shape))
    assert real_calls(folder) == []


@pytest.mark.parametrize("shape", REFUSED, ids=lambda shape: shape.module)
def test_shapes_that_cannot_be_answered_are_refused(shape: Shape, folder: Path) -> None:
    try:
        [outcome] = replay(folder, shape)
    except VersionError as error:
        sentence = str(error)
    else:
        assert outcome.status is Status.AGENT_ERROR, outcome
        sentence = str(outcome.reason)
    assert shape.refused in sentence
    assert real_calls(folder) == []


@pytest.mark.parametrize("shape", UNCOVERED, ids=lambda shape: shape.module)
def test_what_is_not_covered_runs_as_the_documentation_says(shape: Shape, folder: Path) -> None:
    [outcome] = replay(folder, shape)
    afterwards = "refused afterwards" in shape.name
    assert outcome.status is (Status.AGENT_ERROR if afterwards else Status.OK), outcome
    assert len(real_calls(folder)) == shape.runs
