"""Every error a person can meet, and the exit code it ends the command with.

    ReplayError                 2  the command or its input was wrong; nothing was changed
    ├── SettingsError              replay.toml, an environment variable or a flag
    ├── UnknownNameError           a name that is not known; lists the valid ones and the nearest
    ├── StoreError                 the DuckDB file
    │   ├── StoreMissingError      there is none yet
    │   ├── StoreBusyError         another process holds it
    │   └── StoreVersionError      written by a newer replaydiff, or not a store at all
    ├── InputError                 a file or record that cannot be used at all
    ├── VersionError               an agent version that cannot be resolved or started
    └── CredentialsError           a key that is needed is not set
    Interrupted               130  stopped by the person; resumable

An error is one sentence: what is wrong, where, and what to do next. A failure of the tested agent is
not an error: it is data (`replay.model.trial.Status`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command. Where several apply: 2, then 1, then 4, then 3."""

    OK = 0
    """Done, and any gate held."""
    GATE_FAILED = 1
    """A gate did not hold."""
    WRONG_INPUT = 2
    """The command or its input was wrong; nothing was changed."""
    PARTIAL = 3
    """Done, but some items errored or some records were rejected; what succeeded is kept."""
    CANNOT_TELL = 4
    """A gate could not be decided."""
    INTERRUPTED = 130
    """Stopped by the person; resumable."""


def worst_exit(codes: Iterable[ExitCode]) -> ExitCode:
    """The code a command ends with where several apply: 2, then 1, then 4, then 3, else 0."""
    present = set(codes)
    order = (
        ExitCode.INTERRUPTED,
        ExitCode.WRONG_INPUT,
        ExitCode.GATE_FAILED,
        ExitCode.CANNOT_TELL,
        ExitCode.PARTIAL,
    )
    return next((code for code in order if code in present), ExitCode.OK)


class ReplayError(Exception):
    """An error a person can mend. Its text is one sentence: what, where, what to do next."""

    exit_code: ExitCode = ExitCode.WRONG_INPUT


class SettingsError(ReplayError):
    """A setting in replay.toml, the environment or a flag is wrong."""


class UnknownNameError(ReplayError):
    """A name that is not known. The sentence names the nearest valid one, or lists them.

    `kind` is the noun ("sample"), `name` what was asked for, `known` the valid names, `hint` what to do
    where there are none.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        names = sorted(known)
        self.kind, self.name, self.known = kind, name, names
        text = f"there is no {kind} {name!r}"
        near = difflib.get_close_matches(name, names, n=1)
        if near:
            text += f"; did you mean {near[0]!r}?"
        elif names:
            shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
            text += f"; there are: {shown}"
        if hint:
            text += ("; " if not text.endswith("?") else " ") + hint
        super().__init__(text)


class StoreError(ReplayError):
    """The store cannot be used."""


class StoreMissingError(StoreError):
    """There is no store file yet."""


class StoreBusyError(StoreError):
    """Another process holds the store. `pid` is None where it could not be read."""

    def __init__(self, text: str, pid: int | None) -> None:
        self.pid = pid
        super().__init__(text)


class StoreVersionError(StoreError):
    """The file was written by a newer replaydiff, or is not a store."""


class InputError(ReplayError):
    """A file that cannot be read or used at all (a bad record is a reject, not an error)."""


class VersionError(ReplayError):
    """A version of the agent cannot be resolved, or does not start."""


class CredentialsError(ReplayError):
    """A key that this command needs is not in the environment."""


class Interrupted(ReplayError):  # noqa: N818 - an event, not a fault
    """The person stopped the command."""

    exit_code = ExitCode.INTERRUPTED
