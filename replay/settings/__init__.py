"""Settings: replay.toml, found upwards from the current folder, then `REPLAY_SECTION_KEY`,
then `--set SECTION.KEY=VALUE`, then flags.

Flags are laid over a section by the commands (`override`). A key that no section knows is an error that
names file, line and the nearest right key. Secrets are never settings: they come from the environment alone.
"""

from replaydiff.replay.settings.reading import find, load, override
from replaydiff.replay.settings.sections import (
    DEFAULT_TRIALS,
    AgentSection,
    CasesSection,
    DiffSection,
    GateSection,
    GradingSection,
    ImportSection,
    JudgeSection,
    MatchSection,
    Price,
    ProjectSection,
    RaySection,
    RedactSection,
    RunSection,
    SampleSection,
    ScoreSection,
    SimulateSection,
    StoreSection,
    ToolSection,
    UserSection,
    VersionEntry,
    WorldSection,
)
from replaydiff.replay.settings.whole import (
    FILE_NAME,
    NAMED_TABLES,
    STORE_NAME,
    SUBTABLES,
    Settings,
)

__all__ = [
    "DEFAULT_TRIALS",
    "FILE_NAME",
    "NAMED_TABLES",
    "STORE_NAME",
    "SUBTABLES",
    "AgentSection",
    "CasesSection",
    "DiffSection",
    "GateSection",
    "GradingSection",
    "ImportSection",
    "JudgeSection",
    "MatchSection",
    "Price",
    "ProjectSection",
    "RaySection",
    "RedactSection",
    "RunSection",
    "SampleSection",
    "ScoreSection",
    "Settings",
    "SimulateSection",
    "StoreSection",
    "ToolSection",
    "UserSection",
    "VersionEntry",
    "WorldSection",
    "find",
    "load",
    "override",
]
