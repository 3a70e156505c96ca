"""The code of a version: a checkout of a revision, or a snapshot of a folder.

Both are in `.replay/worktrees` and stay as they are while a run lasts. A run that is resumed uses them again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from replaydiff.replay.engine import snapshots
from replaydiff.replay.engine.checkout import checkout, commit_of, file_of, git
from replaydiff.replay.errors import VersionError
from replaydiff.replay.model import Version
from replaydiff.replay.settings import Settings, VersionEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A version's folder, with what identifies its content."""

    folder: Path
    source: Path | None
    """The user's folder that `folder` is a snapshot of; None for a revision."""
    commit: str | None
    dirty_hash: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the code of a version is taken from, if not from the project as it is now."""

    copy: Path | None = None
    """A folder that is a copy of the project."""
    begun: Version | None = None
    """The version as a run began with it, whose code is used if it is still there."""


def code_of(name: str, settings: Settings, entry: VersionEntry, origin: Origin) -> Code:
    """Return the code of a version, checking it out or taking a snapshot where that is missing.

    Args:
        name: of the version.
        settings: of the project.
        entry: what `[versions]` says of the version.
        origin: where the code is taken from.

    Raises:
        VersionError: there is no such folder, or no snapshot of it can be taken.
        UnknownNameError: there is no such git revision.
        NoSpaceError: the disk is full.
    """
    begun = origin.begun
    if entry.git is not None:
        commit = (begun and begun.commit) or commit_of(settings.root, entry.git)
        folder = _checked_out(name, settings, commit, entry.path or settings.agent.path)
        return Code(folder=folder, source=None, commit=commit, dirty_hash=None)
    if begun is not None and begun.path and snapshots.is_there(begun.path, settings.data_folder):
        return Code(
            folder=Path(begun.path),
            source=None if begun.source is None else Path(begun.source),
            commit=begun.commit,
            dirty_hash=begun.dirty_hash,
        )
    folder = _folder(name, settings, entry, origin.copy)
    if snapshots.top_of(folder, settings.data_folder) is not None:
        # A bisection puts parts of a commit there.
        return Code(folder=folder, source=None, commit=commit_of(folder, "HEAD"), dirty_hash=None)
    snapshot = snapshots.take(folder, settings.data_folder, _files_of_replay(settings))
    return Code(folder=snapshot.folder, source=folder, commit=snapshot.commit, dirty_hash=snapshot.dirty_hash)


def _folder(name: str, settings: Settings, entry: VersionEntry, copy: Path | None) -> Path:
    if copy is not None:
        inside = copy / settings.agent.path
        return Path(os.path.normpath(inside if inside.is_dir() else copy))
    folder = Path(os.path.normpath(settings.root / Path(entry.path or settings.agent.path).expanduser()))
    if not folder.is_dir():
        raise VersionError(
            f"there is no folder {folder} for version {name!r}; correct `path` in {file_of(settings)}"
        )
    return folder


def _checked_out(name: str, settings: Settings, commit: str, path: str) -> Path:
    """Return the agent's folder in a checkout; the project may be a part of the repository."""
    top = checkout(settings.root, commit, settings.data_folder)
    prefix = git(settings.root, "rev-parse", "--show-prefix").removesuffix("\n")
    folder = Path(os.path.normpath(top / prefix / path))
    if not folder.is_dir():
        raise VersionError(
            f"revision {commit[:12]} of version {name!r} has no folder {folder.relative_to(top)}; "
            f"correct `path` in {file_of(settings)}, or name a revision that has it"
        )
    return folder


def _files_of_replay(settings: Settings) -> list[Path]:
    """Return what is in a project without being the agent: changing it makes no other version."""
    files = [settings.golden_path, settings.store_path, settings.data_folder]
    return [Path(os.path.realpath(file)) for file in (*files, settings.file) if file is not None]
