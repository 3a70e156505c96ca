"""A user's repository with packages that are named as ours are: it must work, and so must we in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.packaging.installs import Installed

NAMES = ("cases", "diff", "importers", "replay", "reports")
LAYOUTS = ("package", "module", "src layout", "editable .pth", "PYTHONPATH")
COMMANDS = {
    "their code": ["python", "own.py"],
    "pytest": ["pytest", "-q", "-p", "no:cacheprovider"],
    "python -m pytest": ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
    "replay run": [
        "replay",
        "run",
        "--cases",
        "golden.jsonl",
        "--old",
        ".",
        "--new",
        ".",
        "--trials",
        "1",
        "--no-aa",
    ],
    "replay diff": ["replay", "diff", "--json"],
    "pytest --golden": ["pytest", "-q", "-p", "no:cacheprovider", "--golden", "golden.jsonl", "test_own.py"],
    "python -m replaydiff": ["python", "-m", "replaydiff", "diff"],
}
"""What is run in each repository, in this order."""

MODULE = """
import importlib
import json
import os
import sys


def whose():
    # The file of every module of these names, and what of replaydiff this process has loaded.
    ours = sorted(name for name in sys.modules if name.split(".")[0] == "replaydiff")
    return {name: importlib.import_module(name).__file__ for name in NAMES}, ours


def look_up(name, args):
    raise RuntimeError("a replay must not run the tool of MODULE_NAME")


def run_agent(text):
    with open(os.environ["SEEN"], "a") as file:
        file.write(json.dumps(whose()) + "\\n")
    return "It is " + look_up("get_order", {"id": "7"})
"""
"""Each of the five modules: an agent that notes which of them it got."""

OWN = """
import sys
from pathlib import Path

import cases, diff, importers, replay, reports

here = str(Path(__file__).resolve().parent)
for module in (cases, diff, importers, replay, reports):
    assert Path(module.__file__).resolve().is_relative_to(here), module.__file__
"""

TEST = """
import sys

import cases, diff, importers, replay, reports


def test_own(request):
    for module in (cases, diff, importers, replay, reports):
        assert callable(module.run_agent), module
    loaded = sorted(name for name in sys.modules if name.split(".")[0] == "replaydiff")
    if request.config.getoption("golden") is None:
        assert loaded == ["replaydiff", "replaydiff.pytest_plugin"]
"""

CASE = {
    "id": "where",
    "input": "where is 7",
    "expected_answer": "It is shipped",
    "expected_tool_calls": [{"name": "get_order", "args": {"id": "7"}}],
    "tape": [{"name": "get_order", "args": {"id": "7"}, "result": "shipped"}],
}


@dataclass
class Repository:
    """A repository on disk, and the variables its user sets."""

    folder: Path
    env: dict[str, str]
    pth: str | None = None
    """What an editable install of it puts into a `.pth` file of the environment."""
    results: dict[str, str] = field(default_factory=dict)

    @property
    def seen(self) -> list[tuple[dict[str, str], list[str]]]:
        """What each trial noted: the files of the five modules, and what was loaded of replaydiff."""
        return [tuple(json.loads(line)) for line in Path(self.env["SEEN"]).read_text().splitlines()]


def write(folder: Path, layout: str) -> Repository:
    """Write the repository; its agent is in another of the five for every layout."""
    folder.mkdir(parents=True)
    source = MODULE.replace("NAMES", repr(NAMES))
    below = folder / "src" if layout in ("src layout", "editable .pth") else folder
    for name in NAMES:
        if layout == "module":
            (below / f"{name}.py").write_text(source.replace("MODULE_NAME", name))
        else:
            (below / name).mkdir(parents=True)
            (below / name / "__init__.py").write_text(source.replace("MODULE_NAME", name))
            # A module as ours has one: a package that half answers to our names must not be taken for ours.
            (below / name / "errors.py").write_text("raise RuntimeError('this is the user\\'s module')\n")
    agent = NAMES[LAYOUTS.index(layout)]
    (folder / "replay.toml").write_text(
        f'[agent]\nentrypoint = "{agent}:run_agent"\ntools = ["{agent}:look_up"]\n'
    )
    (folder / "golden.jsonl").write_text(json.dumps(CASE) + "\n")
    (folder / "own.py").write_text(OWN)
    (folder / "test_own.py").write_text(TEST)
    (folder / "conftest.py").write_text("import cases, diff, importers, replay, reports\n")
    seen = folder.parent / f"{folder.name}-seen.jsonl"
    seen.touch()
    # The boundary lets an agent write outside its own folder only where the settings say so.
    env = {"SEEN": str(seen), "REPLAY_WORLD_WRITABLE": json.dumps([str(seen)])}
    if layout == "src layout":
        env["PYTHONPATH"] = "src"
    elif layout == "PYTHONPATH":
        env["PYTHONPATH"] = "."
    return Repository(folder, env, str(below) if layout == "editable .pth" else None)


@contextmanager
def editable(repository: Repository, installed: Installed) -> Iterator[None]:
    """Install the repository in editable form, where its layout is that."""
    if repository.pth is None:
        yield
        return
    pth = installed.packages / "_shop.pth"
    pth.write_text(repository.pth + "\n")
    try:
        yield
    finally:
        pth.unlink()


def table(results: dict[tuple[str, str], dict[str, str]]) -> str:
    """(install, layout) → command → outcome, as Markdown."""
    lines = [
        "| install | layout | " + " | ".join(COMMANDS) + " |",
        "|---|---|" + "---|" * len(COMMANDS),
    ]
    for (install, layout), outcomes in results.items():
        lines.append(f"| {install} | {layout} | " + " | ".join(outcomes.get(c, "–") for c in COMMANDS) + " |")
    return "\n".join(lines)
