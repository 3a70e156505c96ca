"""Replay production traces of tool-calling agents against two versions, and report what changed.

    import replaydiff as rd

    project = rd.open(".")
    project.import_("traces.jsonl")
    sample = project.sample(month="2026-10", size=50)
    run = project.run(sample, old="git:main", new=".", trials=3)
    print(run.diff().answer)

Every public name is here; nothing is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replaydiff.replay.api.options import RunOptions as RunOptions
    from replaydiff.replay.api.project import Project as Project
    from replaydiff.replay.api.project import open as open  # noqa: A004
    from replaydiff.replay.api.results import Check as Check
    from replaydiff.replay.api.results import Diff as Diff
    from replaydiff.replay.api.results import ImportReport as ImportReport
    from replaydiff.replay.api.results import Run as Run
    from replaydiff.replay.api.results import Sample as Sample
    from replaydiff.replay.errors import ReplayError as ReplayError
    from replaydiff.replay.llm.own import JudgeProvider as JudgeProvider
    from replaydiff.replay.model import Expectation as Expectation
    from replaydiff.replay.model import Grade as Grade
    from replaydiff.replay.model import Item as Item
    from replaydiff.replay.model import ToolCall as ToolCall
    from replaydiff.replay.model import Trace as Trace
    from replaydiff.replay.model import Trial as Trial

_EXPORTS = {
    "Check": "replaydiff.replay.api.results",
    "Diff": "replaydiff.replay.api.results",
    "ImportReport": "replaydiff.replay.api.results",
    "Project": "replaydiff.replay.api.project",
    "Run": "replaydiff.replay.api.results",
    "RunOptions": "replaydiff.replay.api.options",
    "Sample": "replaydiff.replay.api.results",
    "open": "replaydiff.replay.api.project",
    "Expectation": "replaydiff.replay.model",
    "Grade": "replaydiff.replay.model",
    "Item": "replaydiff.replay.model",
    "JudgeProvider": "replaydiff.replay.llm.own",
    "ReplayError": "replaydiff.replay.errors",
    "ToolCall": "replaydiff.replay.model",
    "Trace": "replaydiff.replay.model",
    "Trial": "replaydiff.replay.model",
}
"""Public name → the module that defines it."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from replaydiff.replay.version import VERSION

        return VERSION
    if name not in _EXPORTS:
        raise AttributeError(f"module 'replaydiff' has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])
