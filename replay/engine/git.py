"""What the engine asks git: where a folder belongs, what a revision is, what was changed.

Nothing here writes to the user's branch, index or files.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from replaydiff.replay.errors import UnknownNameError, VersionError

_PLACE = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
)
"""Set in a hook, and then they name that hook's repository whatever folder git is called in."""
_REFS = ("refs/tags", "refs/heads", "refs/remotes")
_READ_WHOLE = 10 * 1024 * 1024
"""Bytes up to which an untracked file counts by its content; a larger one by size and time."""
_NEVER_CODE = ("**/__pycache__/**", "**/.replay/**", "**/replay-report-*")
"""Untracked files that say nothing about an agent: running it, or replay itself, makes them."""


def git(folder: Path, *args: str) -> str:
    """What a git command prints.

    Raises:
        VersionError: git is missing, or the command failed; says what git said.
    """
    done = _run(folder, *args)
    if done.returncode:
        output = done.stderr.decode(errors="replace").strip().splitlines()
        reason = output[-1] if output else f"exit code {done.returncode}"
        raise VersionError(f"git {args[0]} failed in {folder}: {reason.removeprefix('fatal: ')}")
    return done.stdout.decode(errors="surrogateescape")


def toplevel(folder: Path) -> Path | None:
    """The top folder of the repository that a folder is in; None where it is in none."""
    done = _run(folder, "rev-parse", "--show-toplevel")
    return Path(os.fsdecode(done.stdout).removesuffix("\n")) if not done.returncode else None


def commit_of(folder: Path, ref: str) -> str:
    """The full id of the commit that a revision names.

    Raises:
        UnknownNameError: the repository has no such revision; names the nearest tag or branch.
        VersionError: the folder is in no repository.
    """
    if toplevel(folder) is None:
        # Other reasons than a missing repository (an owner git does not trust) are git's to tell.
        git(folder, "rev-parse", "--git-dir")
    # What begins with a dash would be an option.
    commit = None if ref.startswith("-") else _commit(folder, ref)
    if commit is None:
        refs = git(folder, "for-each-ref", "--format=%(refname:short)", *_REFS).split()
        known = f"any tag, branch or commit of {toplevel(folder)} can be named"
        raise UnknownNameError("git revision", ref, refs, known)
    return commit


def head(folder: Path) -> str | None:
    """The commit a folder is at; None without git, outside a repository, and in one without commits."""
    return _commit(folder, "HEAD") if shutil.which("git") else None


def dirty_hash(folder: Path, leave_out: Iterable[Path] = ()) -> str | None:
    """A hash of all uncommitted changes within a folder, new files included; None where there are none.

    Ignored files do not count, nor does what is in `leave_out`.
    """
    top = toplevel(folder) or folder
    inside = [path.relative_to(top) for path in leave_out if path.is_relative_to(top)]
    without = [f":(exclude,top,literal){path}" for path in inside]
    without += [f":(exclude,top,glob){pattern}" for pattern in _NEVER_CODE]
    hashed = hashlib.sha256()
    changed = git(folder, "diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv", "--", ".", *without)
    hashed.update(os.fsencode(changed))
    new = git(folder, "ls-files", "--others", "--exclude-standard", "-z", "--", ".", *without)
    for name in sorted(filter(None, new.split("\0"))):
        hashed.update(os.fsencode(name) + b"\0")
        hashed.update(_content(folder / name))
    return f"sha256:{hashed.hexdigest()}" if changed or new else None


def _content(file: Path) -> bytes:
    try:
        if file.is_symlink():
            return os.fsencode(file.readlink())
        state = file.stat()
        if state.st_size > _READ_WHOLE:
            return f"{state.st_size} {state.st_mtime_ns}".encode()
        return hashlib.sha256(file.read_bytes()).digest()
    except OSError as error:
        return f"unreadable: {error.errno}".encode()


def _commit(folder: Path, ref: str) -> str | None:
    done = _run(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    return None if done.returncode else done.stdout.decode().strip()


def _run(folder: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if name not in _PLACE}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    environment["LC_ALL"] = "C"
    if shutil.which("git") is None:
        raise VersionError("git is not installed, and a git: version needs it; install it")
    return subprocess.run(["git", *args], cwd=folder, env=environment, capture_output=True, check=False)
