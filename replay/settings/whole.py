"""All settings together, and the shape of the file: which tables are one, which hold entries by name."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

from replaydiff.replay.files import DATA_FOLDER
from replaydiff.replay.model.case import Assertion
from replaydiff.replay.settings.sections import (
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

FILE_NAME = "replay.toml"
STORE_NAME = "replay.duckdb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, with the folder that relative paths start from."""

    project: ProjectSection = field(default_factory=ProjectSection)
    agent: AgentSection = field(default_factory=AgentSection)
    tools: dict[str, ToolSection] = field(default_factory=dict)
    versions: dict[str, VersionEntry] = field(default_factory=dict)
    import_: ImportSection = field(default_factory=ImportSection)
    sample: SampleSection = field(default_factory=SampleSection)
    run: RunSection = field(default_factory=RunSection)
    world: WorldSection = field(default_factory=WorldSection)
    ray: RaySection = field(default_factory=RaySection)
    simulate: SimulateSection = field(default_factory=SimulateSection)
    user: UserSection = field(default_factory=UserSection)
    match: MatchSection = field(default_factory=MatchSection)
    scores: dict[str, ScoreSection] = field(default_factory=dict)
    judge: JudgeSection = field(default_factory=JudgeSection)
    grading: GradingSection = field(default_factory=GradingSection)
    assert_: tuple[Assertion, ...] = ()
    """What must hold of every trial: one `[[assert]]` each."""
    diff: DiffSection = field(default_factory=DiffSection)
    gate: GateSection = field(default_factory=GateSection)
    cases: CasesSection = field(default_factory=CasesSection)
    store: StoreSection = field(default_factory=StoreSection)
    prices: dict[str, Price] = field(default_factory=dict)
    root: Path = field(default_factory=Path.cwd)
    """The folder of replay.toml, or the current folder where there is none."""
    file: Path | None = None
    """The replay.toml that was read."""
    named_sections: frozenset[str] = frozenset()
    """Sections that the file or the environment names: a `[gate]` that is there asks for the gate."""
    assigned: frozenset[str] = frozenset()
    """Keys that `--set` assigns, such as `run.max_tokens`: they also apply to a run that is resumed."""

    @property
    def data_folder(self) -> Path:
        """Return the folder where the store, worktrees and logs are kept."""
        return self.root / DATA_FOLDER

    @property
    def store_path(self) -> Path:
        """Return the store these settings name."""
        return self.root / self.store.path if self.store.path else self.data_folder / STORE_NAME

    @property
    def golden_path(self) -> Path:
        """Return the golden set these settings name."""
        return self.root / self.cases.path


_NOT_SECTIONS = {"root", "file", "named_sections", "assigned", "assert_"}
SUBTABLES: dict[str, dict[str, type]] = {"import": {"redact": RedactSection}}
"""Section → the tables within it."""
NAMED_TABLES: dict[str, type] = {
    "tools": ToolSection,
    "versions": VersionEntry,
    "scores": ScoreSection,
    "prices": Price,
}
"""Table → what each of its entries holds."""


def sections() -> dict[str, type]:
    """Return section name → the dataclass of its keys, for the sections that are one table."""
    names = (
        f.name for f in dataclasses.fields(Settings) if f.name not in _NOT_SECTIONS | NAMED_TABLES.keys()
    )
    defaults = Settings()
    return {name.rstrip("_"): type(getattr(defaults, name)) for name in names}


def keys_of(section: type) -> set[str]:
    """Return the keys of a table."""
    return {f.name for f in dataclasses.fields(section)}
