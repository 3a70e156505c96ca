"""A repository with packages of our folders' names beside every kind of install: all of it works.

REPLAYDIFF_HOSTILE_TABLE=FILE writes what each command gave as a table; `make hostile` prints it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging import hostile
from tests.packaging.installs import Installed
from tests.stand_ins.full import full

INSTALLS = {"wheel": "from_wheel", "editable": "editable"}
Results = dict[tuple[str, str], dict[str, str]]


@pytest.fixture(scope="module")
def results() -> Iterator[Results]:
    """What each command gave; written as a table where one is wanted."""
    kept: Results = {}
    yield kept
    if file := os.environ.get("REPLAYDIFF_HOSTILE_TABLE"):
        Path(file).write_text(hostile.table(kept) + "\n")


MATRIX = [(install, layout) for install in INSTALLS for layout in hostile.LAYOUTS]
# A wheel beside packages in the current folder.
USUAL = {("wheel", "package")}


@pytest.mark.parametrize(
    ("install", "layout"), [pytest.param(*row, marks=() if row in USUAL else full) for row in MATRIX]
)
@pytest.mark.slow
def test_packages_of_a_user_with_our_names_stay_theirs(
    install: str, layout: str, results: Results, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    installed: Installed = request.getfixturevalue(INSTALLS[install])
    repository = hostile.write(tmp_path / "shop", layout)
    outcomes = results.setdefault((install, layout), {})
    with hostile.editable(repository, installed):
        for name, words in hostile.COMMANDS.items():
            done = installed.run(words, repository.folder, **repository.env)
            printed = done.stdout + done.stderr
            wrong = (
                f"exit {done.returncode}"
                if done.returncode
                else "traceback"
                if "Traceback" in printed
                else ""
            )
            outcomes[name] = wrong or "ok"
            assert not wrong, f"{name}: {wrong}\n{printed}"
    # Two lanes of `replay run` and the case of `pytest --golden`.
    assert len(repository.seen) == 3
    for files, loaded in repository.seen:
        assert all(
            Path(file).resolve().is_relative_to(repository.folder.resolve()) for file in files.values()
        )
        assert loaded == [], "the agent's process has loaded modules of ours"
