"""A run, what it replays of an item, and the versions it compares."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from replaydiff.replay.model.json import JsonObject
from replaydiff.replay.model.lane import Lane

ACCEPTED_CHANGES = "accepted_changes"
"""Key of a run's settings with the changes of versions with which it was resumed."""


class VersionKind(StrEnum):
    """How a version is run."""

    PYTHON = "python"
    """An entrypoint imported in a worker process."""
    NODE = "node"
    """An entrypoint in JavaScript or TypeScript, imported in a worker process."""
    HTTP = "http"
    """Something that answers at a URL: one POST a trial."""
    COMMAND = "command"
    """A program of any language, spoken to in JSON over its standard input and output."""
    MESSAGES = "messages"
    """No agent code: a system prompt, tool definitions and a model; the loop runs here."""
    ADAPTER = "adapter"
    """By an agent adapter that another distribution installs."""
    OBSERVED = "observed"
    """What production recorded; nothing is run."""

    @property
    def is_imported(self) -> bool:
        """Return whether an entrypoint is imported in worker processes, where its tools are replaced."""
        return self in (VersionKind.PYTHON, VersionKind.NODE)

    @property
    def is_local(self) -> bool:
        """Return whether it is code that runs in processes of this machine, behind the boundary."""
        return self.is_imported or self is VersionKind.COMMAND


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A fully resolved version: it identifies what was run."""

    name: str
    """What the person called it: `prod`, `git:v1.4.0`, `observed:release = '2.1'`."""
    kind: VersionKind
    entrypoint: str | None = None
    """`module:attr[.attr…]`, or of Node `file#export[.attr…]`."""
    factory: bool = False
    """The entrypoint is called once, without arguments, to get the agent."""
    adapter: str | None = None
    """The file of the user's own glue, which is the same for every revision; None without one."""
    adapter_digest: str | None = None
    """SHA-256 of its content."""
    tools: tuple[str, ...] = ()
    """Patch points where tool calls are answered, or `endpoint`; `()`: it has none, or they may run."""
    url: str | None = None
    """For `http`: where it answers."""
    header_env: dict[str, str] = field(default_factory=dict)
    """For `http`: header → the environment variable that holds its value. Values are never stored."""
    request: str | None = None
    """For `http`: the template of the request's body; None for the form of docs/versions.md."""
    response: dict[str, str] = field(default_factory=dict)
    """For `http`: field → its path in the response; without any, the form of docs/versions.md."""
    command: tuple[str, ...] = ()
    """For `command`: program and arguments; no shell reads them."""
    persistent: bool = False
    """For `command`: one process runs many trials, a line of JSON each."""
    adapter_name: str | None = None
    """For `adapter`: its entry point in the group `replaydiff.agents`."""
    setup: JsonObject = field(default_factory=dict)
    """For `messages`: what a file sets (`system`, `tools`, `model` …) instead of the trace."""
    git: str | None = None
    """The revision as it was named."""
    commit: str | None = None
    """The commit it resolved to before anything ran; for a folder in a git repository, its HEAD."""
    dirty_hash: str | None = None
    """Hash of the uncommitted changes of a folder, or of its files where it is in no repository; None where
    there are none."""
    path: str | None = None
    """The folder the worker runs in: a checkout, or a snapshot of `source`."""
    source: str | None = None
    """The user's folder; None for a revision."""
    python: str | None = None
    """The interpreter of the worker."""
    lock: str | None = None
    """What its own virtual environment was built from, with a hash: `uv.lock sha256:…`; None without one."""
    args: JsonObject = field(default_factory=dict)
    """Extra keyword arguments of the entrypoint."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment of the worker beside the command's own. Never stored: see `env_names`."""
    env_names: tuple[str, ...] = ()
    """Names, never values, of the environment set for this version."""
    env_hashes: dict[str, str] = field(default_factory=dict)
    """Name → hash of the value, with a key that is beside the store."""
    condition: str | None = None
    """For `observed:CONDITION`: which traces."""
    packages: dict[str, str] = field(default_factory=dict)
    """Interpreter and package versions of the worker, as it reported them."""

    @property
    def model(self) -> str | None:
        """Return the model that the version's arguments name; None if they name none."""
        model = self.args.get("model", self.setup.get("model"))
        return model if isinstance(model, str) else None


class Mode(StrEnum):
    """What is replayed of an item."""

    ROLLOUT = "rollout"
    """The whole agent, from the input on."""
    STEP = "step"
    """Each recorded decision of the model with its recorded input: only the next action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The answer of a run that may stop early at one of its looks."""

    items: int
    """The first items of the run's order, all of whose trials had finished."""
    answer: str
    """`SHIP`, `HOLD` or `CAN'T TELL`."""
    stopped: str | None = None
    """Why the run ended here: `answer` or `futility`; None where it did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run as the store keeps it: resumable, never rewritten; only looks and `finished_at` come later."""

    id: str
    created_at: datetime
    lanes: dict[Lane, Version]
    trials: int
    """Trials an item and lane; observed lanes may have fewer or more."""
    seed: int
    sample: str | None = None
    """Name of the sample; None for a golden set."""
    golden_path: str | None = None
    """Path of the golden set as it was given; None for a sample."""
    mode: Mode = Mode.ROLLOUT
    budget_usd: float | None = None
    max_tokens: int | None = None
    """What its agents may read and write together; None for any number."""
    settings: JsonObject = field(default_factory=dict)
    """What else decided the outcome: time-out, concurrency, ignored arguments, rule on a miss, pairing."""
    finished_at: datetime | None = None
    """None while trials are missing that the run still wants."""
    looks: tuple[Look, ...] = ()
    """Of a run that may stop early, in their order."""

    @property
    def has_control(self) -> bool:
        """Return whether `old` is the recorded model, called again, and `old2` the recording itself."""
        observed = self.settings.get("observed")
        return self.mode is Mode.STEP and isinstance(observed, dict) and str(Lane.OLD2) in observed
