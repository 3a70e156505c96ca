"""Every error a person can meet, and the exit code it ends the command with.

    ReplayError                  2  the command or its input was wrong; nothing was changed
    ├── SettingsError               replay.toml, an environment variable or a flag
    ├── UntrustedError              code of a folder that its user has not trusted
    ├── UnknownNameError            a name that is not known; lists the valid ones and the nearest
    ├── StoreError                  the DuckDB file
    │   ├── StoreMissingError       there is none yet
    │   ├── StoreVersionError       written by a newer replaydiff, or not a store at all
    │   ├── StoreDamagedError       parts of the file are missing or were changed
    │   ├── StoreMemoryError        a query needs more memory than it may have
    │   ├── StoreBusyError      75  another process holds it
    │   └── StoreWriteError     75  the disk is full or does not take what is written
    ├── InputError                  a file or record that cannot be used at all
    ├── VersionError                an agent version that cannot be resolved or started
    ├── CredentialsError            a key that is needed is not set, or is refused at the first request
    │   └── KeyRefusedError     75  a key is refused in the middle of the work
    ├── AlreadyRunningError     75  another process does the same work
    ├── UnavailableError        75  a service that is needed does not answer
    ├── NoSpaceError            75  a file cannot be written: no space, or too many open files
    ├── InternalError           70  a bug
    └── Interrupted            130  stopped by the person; resumable

An error is one sentence, made of its parts: where, what is wrong, and what to do next. A failure of the
tested agent is not an error: it is data (`replay.model.trial.Status`).
"""

from __future__ import annotations

import difflib
import errno
import os
import shlex
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    """Exit codes of every command."""

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
    INTERNAL = 70
    """A bug; the details are in a file that the message names."""
    TRY_AGAIN = 75
    """Not possible now; nothing is lost, and the same command (or the resume it names) may succeed later."""
    INTERRUPTED = 130
    """Stopped by the person; resumable."""


def worst_exit(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the code a command ends with where several apply: 130, 70, 2, 75, 1, 4, 3, else 0."""
    present = set(codes)
    order = (
        ExitCode.INTERRUPTED,
        ExitCode.INTERNAL,
        ExitCode.WRONG_INPUT,
        ExitCode.TRY_AGAIN,
        ExitCode.GATE_FAILED,
        ExitCode.CANNOT_TELL,
        ExitCode.PARTIAL,
    )
    return next((code for code in order if code in present), ExitCode.OK)


class ReplayError(Exception):
    """An error a person can correct. Its text is one sentence: where, what is wrong, what to do next.

    Args:
        reason: what is wrong.
        where: the file and line, the field or the item it is about; it begins the sentence.
        hint: what to do next; it ends the sentence.
    """

    exit_code: ExitCode = ExitCode.WRONG_INPUT

    def __init__(self, reason: str, *, where: str = "", hint: str = "") -> None:
        self.reason, self.where, self.hint = reason, where, hint
        start = f"{where}: {reason}" if where else reason
        # After a question ("did you mean 'sample'?") a semicolon would look like a slip.
        super().__init__(f"{start}{' ' if start.endswith('?') else '; '}{hint}" if hint else start)


class SettingsError(ReplayError):
    """A setting in replay.toml, the environment or a flag is wrong."""


class UntrustedError(ReplayError):
    """A command would run code of a folder that is not trusted. `folder` is that of replay.toml."""

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder = folder
        super().__init__(
            reason, hint=f"read it, then run `replay trust {shlex.quote(str(folder))}` or set REPLAY_TRUST=1"
        )


class UnknownNameError(ReplayError):
    """A name that does not exist. The sentence names the nearest valid one, or lists them.

    `kind` is the noun ("sample"), `name` what was given, `known` the valid names, `hint` what to do next.
    """

    def __init__(
        self, kind: str, name: str, valid_names: Iterable[str], hint: str = "", where: str = ""
    ) -> None:
        names = sorted(valid_names)
        self.kind, self.name, self.valid_names = kind, name, names
        reason = f"there is no {kind} {name!r}"
        near = difflib.get_close_matches(name, names, n=1)
        if near:
            reason += f"; did you mean {near[0]!r}?"
        elif names:
            shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
            reason += f"; there are: {shown}"
        super().__init__(reason, where=where, hint=hint)


class StoreError(ReplayError):
    """The store cannot be used."""


class StoreMissingError(StoreError):
    """There is no store file yet."""


class StoreVersionError(StoreError):
    """The file was written by a newer replaydiff, or is not a store."""


class StoreDamagedError(StoreError):
    """Parts of the store's file are missing or were changed by something else than DuckDB."""


class StoreMemoryError(StoreError):
    """A query needs more memory than DuckDB may use."""


class StoreBusyError(StoreError):
    """Another process uses the store. `pid` is None if it could not be read."""

    exit_code = ExitCode.TRY_AGAIN

    def __init__(self, reason: str, pid: int | None, *, hint: str = "") -> None:
        self.pid = pid
        super().__init__(reason, hint=hint)


class StoreWriteError(StoreError):
    """The disk does not take what is written: it is full, for example. What was committed before is kept."""

    exit_code = ExitCode.TRY_AGAIN


class InputError(ReplayError):
    """A file that cannot be read or used at all (a bad record is a reject, not an error)."""


class VersionError(ReplayError):
    """A version of the agent cannot be resolved, or does not start."""


class CredentialsError(ReplayError):
    """A key that this command needs is not in the environment, or is refused at the first request."""


class KeyRefusedError(CredentialsError):
    """A key is refused in the middle of the work: it was revoked, or the account is to be paid first."""

    exit_code = ExitCode.TRY_AGAIN


class AlreadyRunningError(ReplayError):
    """Another process does the same work."""

    exit_code = ExitCode.TRY_AGAIN


class UnavailableError(ReplayError):
    """A service that is needed cannot be reached, or fails again and again."""

    exit_code = ExitCode.TRY_AGAIN


class NoSpaceError(ReplayError):
    """A file cannot be written for want of something that may be there later: space, or open files."""

    exit_code = ExitCode.TRY_AGAIN


class InternalError(ReplayError):
    """A bug of replaydiff."""

    exit_code = ExitCode.INTERNAL


class Interrupted(ReplayError):  # noqa: N818 - an event, not a fault
    """The person stopped the command."""

    exit_code = ExitCode.INTERRUPTED


SHORT_OF = frozenset(
    (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EIO,
        errno.EROFS,
        errno.EMFILE,
        errno.ENFILE,
        errno.EAGAIN,
    )
)
"""Errors of the system that may be gone later."""


_REMEDIES = {
    errno.EROFS: "mount its file system for writing",
    errno.EMFILE: "allow more open files (`ulimit -n`)",
    errno.ENFILE: "close files of other programs",
    errno.EIO: "check the disk",
    errno.EACCES: "make its folder writable",
    errno.EPERM: "make its folder writable",
}


def remedy(reason: str) -> str:
    """Return what to do about something that could not be written, beginning a hint.

    Args:
        reason: what the system calls it, or a longer text that has this in it.
    """
    lower = reason.lower()
    steps = (step for number, step in _REMEDIES.items() if os.strerror(number).lower() in lower)
    return next(steps, "make room")


def refused_by_system(error: OSError) -> ReplayError:
    """Return what an error of the system means for a command that did not expect it."""
    reason = f"the system refused: {error.strerror or error}" + (
        f" ({error.filename})" if error.filename else ""
    )
    if error.errno in SHORT_OF:
        return NoSpaceError(reason, hint=f"{remedy(reason)}, then run the same command again")
    return ReplayError(reason)
