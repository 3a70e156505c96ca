"""Private checkouts of git revisions: `.replay/worktrees/<commit>`, made once, used again.

Of two processes one makes it (see `once`). The user's own files, index and branches are never touched, and no
hook of theirs runs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from pathlib import Path

from replaydiff.replay.engine.git import git
from replaydiff.replay.engine.once import alone, home_of, mark_of
from replaydiff.replay.errors import VersionError

_log = logging.getLogger(__name__)
_LETTERS = 12
"""Of the commit's id in the folder's name."""


def checkout(repository: Path, commit: str, data_folder: Path) -> Path:
    """The folder of a checkout of a commit, made where it is missing.

    Args:
        repository: any folder of the repository.
        commit: full id of the commit.
        data_folder: `.replay`.

    Raises:
        VersionError: git cannot make it; says why.
    """
    folder = home_of(data_folder, "worktrees") / commit[:_LETTERS]
    mark = mark_of(folder)
    with alone(folder):
        if not _usable(folder, mark, commit):
            _log.info("checking out %s into %s", commit, folder)
            mark.unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            # Twice: what a killed git left behind is locked, and given up only for that.
            git(
                repository,
                "-c",
                f"core.hooksPath={os.devnull}",
                "worktree",
                "add",
                "--quiet",
                "--detach",
                "--force",
                "--force",
                str(folder.absolute()),
                commit,
            )
            if (folder / ".gitmodules").is_file():
                _fill_submodules(folder)
            mark.write_text(f"{commit}\n", encoding="ascii")
    return folder


def _usable(folder: Path, mark: Path, commit: str) -> bool:
    """Whether the checkout is whole, and still what it was: an agent may have written into its own files."""
    # Where the user has pruned git's own record of it, git does not answer in it any more.
    with contextlib.suppress(OSError, VersionError):
        if mark.read_text(encoding="ascii").strip() == commit and (folder / ".git").is_file():
            return not git(folder, "status", "--porcelain", "--untracked-files=no") and (
                git(folder, "rev-parse", "HEAD").strip() == commit
            )
    return False


def _fill_submodules(folder: Path) -> None:
    """A checkout's submodules, each at the commit that the revision names.

    Raises:
        VersionError: one cannot be had.
    """
    try:
        git(
            folder,
            "-c",
            f"core.hooksPath={os.devnull}",
            "submodule",
            "--quiet",
            "update",
            "--init",
            "--recursive",
        )
    except VersionError as error:
        raise VersionError(
            f"the submodules of revision {folder.name} cannot be fetched: {error}; see that `git submodule "
            "update --init` works in a clone of it"
        ) from None
