"""What an importer is: a module with a name that turns files of one source into traces.

To add one: write `importers/acme.py` with what `Importer` lists (`NAME`, `read_files` …), add a
line to `BUILTIN`, and put sample records with the traces a person reads from them under
`tests/importers/samples/acme/`. The choices of `replay import`, `auto` and the contract suite follow from
the table. Another distribution names its module in the entry-point group `replaydiff.importers`.

A source that can be asked over its API also has what `LiveImporter` lists.

An importer never writes, and no record stops it: a record it cannot take is a `Reject`, one it leaves out on
purpose is `Skipped`, and what a person should know of a trace it did make is a `Note`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from replaydiff.replay.errors import UnknownNameError
from replaydiff.replay.model import Json, Trace
from replaydiff.replay.store.import_records import EXCERPT_CHARACTERS as EXCERPT_CHARACTERS
from replaydiff.replay.store.import_records import STORED_CHARACTERS as STORED_CHARACTERS
from replaydiff.replay.store.import_records import Reject as Reject

GROUP = "replaydiff.importers"
"""Entry-point group of importers in other distributions."""

BUILTIN = {
    "jsonl": "replaydiff.importers.sources.jsonl",
    "openai": "replaydiff.importers.sources.openai",
    "anthropic": "replaydiff.importers.sources.anthropic",
    "claude-code": "replaydiff.importers.sources.claude_code.source",
    "codex": "replaydiff.importers.sources.codex",
    "langfuse": "replaydiff.importers.sources.langfuse.source",
    "otlp": "replaydiff.importers.sources.otlp",
    "phoenix": "replaydiff.importers.sources.phoenix.source",
    "langsmith": "replaydiff.importers.sources.langsmith.source",
    "mlflow": "replaydiff.importers.sources.mlflow.source",
    "tau2": "replaydiff.importers.sources.tau2",
    "inspect": "replaydiff.importers.sources.inspect",
    "atif": "replaydiff.importers.sources.atif",
    "bedrock": "replaydiff.importers.sources.bedrock",
    "litellm": "replaydiff.importers.sources.litellm",
    "braintrust": "replaydiff.importers.sources.braintrust",
    "weave": "replaydiff.importers.sources.weave",
    "openai-agents": "replaydiff.importers.sources.openai_agents",
    "adk": "replaydiff.importers.sources.adk",
    "gemini-cli": "replaydiff.importers.sources.gemini_cli",
    "opik": "replaydiff.importers.sources.opik",
    "datadog": "replaydiff.importers.sources.datadog",
}
"""Name → module."""


class RecordError(ValueError):
    """A record is rejected; the text is the reason shown to the user."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that is left out on purpose; equal reasons are counted."""

    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something a person should know of a trace that was made; equal texts are counted."""

    text: str


Imported = Trace | Reject | Skipped | Note
"""What an importer yields: a trace, or what became of a record that is none."""


@dataclass(slots=True, kw_only=True)
class InputFile:
    """A readable file of an import. `open(file)` works; reading moves `position`, which progress follows."""

    path: str
    """What to open."""
    name: str
    """What the person called it: the file in rejects and messages."""
    size: int
    """Bytes on disk."""
    modified: float
    """Epoch seconds."""
    lines: bool = False
    """It is known to hold one value a line, and is not looked at to find out."""
    all_environments: bool = False
    """Traces of evaluations and experiments in it are wanted, too."""
    position: int = 0
    """Bytes on disk that were read so far."""

    @property
    def modified_at(self) -> datetime:
        """Return when the file was changed, in naive UTC and whole seconds."""
        return datetime.fromtimestamp(int(self.modified), UTC).replace(tzinfo=None)

    def __fspath__(self) -> str:
        return self.path


class Importer(Protocol):
    """The module of one source."""

    @property
    def NAME(self) -> str:  # noqa: N802 - a constant of the module
        """Return what a person types."""

    @property
    def RECOGNISED_BY(self) -> str:  # noqa: N802
        """Return what distinguishes its records from others: "records have messages with roles"."""

    def recognises(self, record: Json) -> float:
        """Return how sure it is, from 0 to 1, that a file's first record is of this source."""

    def read_files(self, files: Sequence[InputFile]) -> Iterator[Imported]:
        """Read traces in the order of the files, in memory that does not depend on their size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which traces a live import fetches; a field that is not set does not restrict them."""

    start: datetime | None = None
    """Traces that started at or after this, naive UTC."""
    end: datetime
    """Traces that started before this, naive UTC: never open, so that what is paged over stands still."""
    project: str | None = None
    """The source's own word for a collection of traces: project, experiment."""
    environments: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    """Of each of these fields any of the values will do; a trace must have all of the tags."""
    updates: bool = False
    """Take traces that started before `start` too, where something came to them since: what `--since last`
    asks for, since a trace may have been imported while it still ran, or before anyone rated it."""
    all_environments: bool = False
    """Take evaluations and experiments too, which are no production traffic."""

    def covers(self, started_at: datetime) -> bool:
        """Return whether a trace that started then is asked for."""
        early = self.start is not None and started_at < self.start and not self.updates
        return not early and started_at < self.end

    def matches(
        self,
        environment: str | None,
        release: str | None,
        name: str | None,
        user: str | None,
        tags: Iterable[str],
    ) -> bool:
        """Return whether a trace with these fields is asked for, whenever it was."""
        return (
            (not self.environments or environment in self.environments)
            and (not self.releases or release in self.releases)
            and (not self.names or name in self.names)
            and (not self.users or user in self.users)
            and set(self.tags) <= set(tags)
        )


ShowStatus = Callable[[str], None]
"""Called now and then with the progress of a live import in a few words."""


class LiveImporter(Importer, Protocol):
    """A source with an API."""

    def origin(self, query: Query) -> str:
        """Return the source and account of `query` without secrets: host, project, public key.

        Marks of finished imports are bound to it.

        Raises:
            CredentialsError: a key is not in the environment.
            SettingsError: an address in the environment is none.
        """

    def read_live(self, query: Query, folder: Path, show_status: ShowStatus) -> Iterator[Imported]:
        """Ask for the traces of `query`.

        `folder` is this query's own; what is written there is there again at the next try of the same query
        after an interruption, and is removed once the import is complete. An answer that was read whole is
        not asked for twice.

        Raises:
            InputError: the server cannot be reached, refuses, or answers what cannot be understood; what
                was yielded until then is kept.
        """


class AddedImporter(LiveImporter, Protocol):
    """A source with an API that lists parts of traces by the parts' own times.

    A part that was added to a trace days later looks like a trace, and would replace the stored one.
    """

    def expect(self, folder: Path, earlier: Iterable[str]) -> None:
        """Note in a query's folder the ids of the stored traces that began before it, from which it must not
        take parts alone."""


class MirroredImporter(LiveImporter, Protocol):
    """A source with an API that can tell which traces were deleted there."""

    def deleted(self, query: Query, stored: Iterable[Trace], show_status: ShowStatus) -> Iterator[str]:
        """Yield the ids of those of the stored traces that `query` asks for and the source no longer has.

        `stored` are traces of any account of the source, without messages, steps and tool calls. Each is
        asked for by its id: that a list did not have it is no proof.

        Raises:
            InputError: the server cannot be reached, or refuses.
        """


def live(chosen: Importer) -> LiveImporter | None:
    """Return the importer if it has an API; None if it only reads files."""
    return cast("LiveImporter", chosen) if hasattr(chosen, "read_live") else None


def find_importer(name: str) -> Importer:
    """Return the importer of this name: a built-in one, else one of another distribution.

    Raises:
        UnknownNameError: there is none.
    """
    if name in BUILTIN:
        return cast("Importer", import_module(BUILTIN[name]))
    from importlib.metadata import entry_points

    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in entries:
        raise UnknownNameError("source", name, [*BUILTIN, *entries, "auto"], "see `replay import --help`")
    return cast("Importer", entries[name].load())


def content_setting(name: str) -> str | None:
    """Return the setting of the user's instrumentation that puts content into the traces of a source.

    Importers name it as `CONTENT_SETTING`, None if the instrumentation differs from trace to trace.
    """
    return getattr(find_importer(name), "CONTENT_SETTING", None)
