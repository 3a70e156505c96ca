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
    from replaydiff.diff.result import DiffResult as DiffResult
    from replaydiff.importers.base import Note as Note
    from replaydiff.importers.base import RecordError as RecordError
    from replaydiff.importers.base import Skipped as Skipped
    from replaydiff.importers.functions import importer as importer
    from replaydiff.replay.agents.attempt import ReplayedTrial as ReplayedTrial
    from replaydiff.replay.agents.attempt import ToolError as ToolError
    from replaydiff.replay.agents.base import Agent as Agent
    from replaydiff.replay.agents.base import AgentAdapter as AgentAdapter
    from replaydiff.replay.agents.base import Outcome as Outcome
    from replaydiff.replay.agents.base import Rules as Rules
    from replaydiff.replay.api.diff import Diff as Diff
    from replaydiff.replay.api.importing import ImportReport as ImportReport
    from replaydiff.replay.api.options import RunOptions as RunOptions
    from replaydiff.replay.api.project import Project as Project
    from replaydiff.replay.api.project import open as open  # noqa: A004
    from replaydiff.replay.api.results import Check as Check
    from replaydiff.replay.api.results import Run as Run
    from replaydiff.replay.api.results import Sample as Sample
    from replaydiff.replay.bisect.result import BisectResult as BisectResult
    from replaydiff.replay.engine.executors import Executor as Executor
    from replaydiff.replay.engine.executors import TrialTask as TrialTask
    from replaydiff.replay.errors import ReplayError as ReplayError
    from replaydiff.replay.fork.forks import ForkResult as ForkResult
    from replaydiff.replay.llm.own import JudgeProvider as JudgeProvider
    from replaydiff.replay.model import Expectation as Expectation
    from replaydiff.replay.model import Grade as Grade
    from replaydiff.replay.model import Item as Item
    from replaydiff.replay.model import Lane as Lane
    from replaydiff.replay.model import Message as Message
    from replaydiff.replay.model import Step as Step
    from replaydiff.replay.model import StepKind as StepKind
    from replaydiff.replay.model import ToolCall as ToolCall
    from replaydiff.replay.model import Trace as Trace
    from replaydiff.replay.model import Trial as Trial
    from replaydiff.replay.model import Usage as Usage
    from replaydiff.replay.model import Version as Version

_EXPORTS = {
    "AgentAdapter": "replaydiff.replay.agents.base",
    "Agent": "replaydiff.replay.agents.base",
    "Outcome": "replaydiff.replay.agents.base",
    "Rules": "replaydiff.replay.agents.base",
    "ReplayedTrial": "replaydiff.replay.agents.attempt",
    "ToolError": "replaydiff.replay.agents.attempt",
    "ForkResult": "replaydiff.replay.fork.forks",
    "BisectResult": "replaydiff.replay.bisect.result",
    "Executor": "replaydiff.replay.engine.executors",
    "TrialTask": "replaydiff.replay.engine.executors",
    "Version": "replaydiff.replay.model",
    "Lane": "replaydiff.replay.model",
    "Check": "replaydiff.replay.api.results",
    "Diff": "replaydiff.replay.api.diff",
    "ImportReport": "replaydiff.replay.api.importing",
    "Project": "replaydiff.replay.api.project",
    "Run": "replaydiff.replay.api.results",
    "RunOptions": "replaydiff.replay.api.options",
    "Sample": "replaydiff.replay.api.results",
    "open": "replaydiff.replay.api.project",
    "Expectation": "replaydiff.replay.model",
    "Grade": "replaydiff.replay.model",
    "DiffResult": "replaydiff.diff.result",
    "Item": "replaydiff.replay.model",
    "JudgeProvider": "replaydiff.replay.llm.own",
    "Message": "replaydiff.replay.model",
    "Note": "replaydiff.importers.base",
    "RecordError": "replaydiff.importers.base",
    "ReplayError": "replaydiff.replay.errors",
    "Skipped": "replaydiff.importers.base",
    "Step": "replaydiff.replay.model",
    "StepKind": "replaydiff.replay.model",
    "ToolCall": "replaydiff.replay.model",
    "Trace": "replaydiff.replay.model",
    "Trial": "replaydiff.replay.model",
    "Usage": "replaydiff.replay.model",
    "importer": "replaydiff.importers.functions",
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
