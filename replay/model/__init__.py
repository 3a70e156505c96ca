"""The nouns of the domain: frozen dataclasses over the standard library alone.

Times are naive UTC, costs US dollars, durations milliseconds, scores 0..1.
"""

from replaydiff.replay.model.case import (
    Case,
    Expectation,
    ExpectedCall,
    Match,
    NamedRule,
    PathRule,
    Provenance,
    Quarantine,
    ToolMatch,
)
from replaydiff.replay.model.decision import Action, Decision, effective_decisions
from replaydiff.replay.model.grade import Grade, GradeState, JudgeId, Vote
from replaydiff.replay.model.item import Item
from replaydiff.replay.model.json import Json, JsonObject
from replaydiff.replay.model.lane import Lane
from replaydiff.replay.model.model_call import ModelCall
from replaydiff.replay.model.run import Mode, RunRecord
from replaydiff.replay.model.sample import SampleItem, SampleRecord
from replaydiff.replay.model.trace import (
    CORRECTION,
    NO_TOOLS,
    Message,
    Score,
    Step,
    StepKind,
    ToolCall,
    Trace,
    TraceState,
    Usage,
    tool_path,
    total_usage,
)
from replaydiff.replay.model.trial import Rule, ServedCall, Status, Trial, Turn
from replaydiff.replay.model.version import Version, VersionKind

__all__ = [
    "CORRECTION",
    "NO_TOOLS",
    "Action",
    "Case",
    "Decision",
    "Expectation",
    "ExpectedCall",
    "Grade",
    "GradeState",
    "Item",
    "Json",
    "JsonObject",
    "JudgeId",
    "Lane",
    "Match",
    "Message",
    "Mode",
    "ModelCall",
    "NamedRule",
    "PathRule",
    "Provenance",
    "Quarantine",
    "Rule",
    "RunRecord",
    "SampleItem",
    "SampleRecord",
    "Score",
    "ServedCall",
    "Status",
    "Step",
    "StepKind",
    "ToolCall",
    "ToolMatch",
    "Trace",
    "TraceState",
    "Trial",
    "Turn",
    "Usage",
    "Version",
    "VersionKind",
    "Vote",
    "effective_decisions",
    "tool_path",
    "total_usage",
]
