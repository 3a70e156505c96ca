"""Where a version's code is: its folder, private checkouts of git revisions, its interpreter.

A checkout is in `.replay/worktrees/<commit>`, made once, used again; of two processes one makes it. The
user's own files, index and branches are never touched, and no hook, filter or monitor that the repository's
own configuration names is run. Filters of the user's or the machine's configuration (Git LFS) are.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from replaydiff.replay.errors import UnknownNameError, VersionError
from replaydiff.replay.files import alone, home_of, mark_of
from replaydiff.replay.settings import Settings, VersionEntry

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
_FILTER = r"^filter\..*\.(clean|smudge|process)$"
"""Settings that name a program which changes files on their way into or out of a checkout."""
_READ_WHOLE = 10 * 1024 * 1024
"""Bytes up to which an untracked file counts by its content; a larger one by size and time."""
_NEVER_CODE = ("**/__pycache__/**", "**/.replay/**", "**/replay-report-*")
"""Untracked files that say nothing about an agent: running it, or replay itself, makes them."""


def git(folder: Path, *args: str, options: Sequence[str] = ()) -> str:
    """What a git command prints.

    Args:
        folder: where it runs.
        args: the command and its arguments.
        options: of git itself, before the command.

    Raises:
        VersionError: git is missing, or the command failed; with the message of git.
    """
    done = _run(folder, *options, *args)
    if done.returncode:
        output = done.stderr.decode(errors="replace").strip().splitlines()
        reason = output[-1] if output else f"exit code {done.returncode}"
        raise VersionError(f"git {args[0]} failed in {folder}: {reason.removeprefix('fatal: ')}")
    return done.stdout.decode(errors="surrogateescape")


def toplevel(folder: Path) -> Path | None:
    """Return the top folder of the repository that contains a folder; None if there is none."""
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
    """Return a hash of all uncommitted changes in a folder, including new files; None if there are none.

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
    command = ["git", "-c", "core.fsmonitor=false", *args]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)


def _without_programs(repository: Path) -> list[str]:
    """Return the options with which git runs no hook and no filter of the repository's configuration."""
    words = ("--local", "--includes", "--null", "--name-only", "--get-regexp", _FILTER)
    listed = _run(repository, "config", *words)
    keys = sorted({key for key in os.fsdecode(listed.stdout).split("\0") if key})
    drivers = sorted({key.rpartition(".")[0] for key in keys})
    settings = [f"core.hooksPath={os.devnull}", *(f"{key}=" for key in keys)]
    settings += [f"{driver}.required=false" for driver in drivers]
    return [word for setting in settings for word in ("-c", setting)]


_log = logging.getLogger(__name__)
_LETTERS = 12
"""Of the commit's id in the folder's name."""


def checkout(repository: Path, commit: str, data_folder: Path) -> Path:
    """Return the folder with a checkout of a commit, creating it if missing.

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
            _add_worktree(repository, folder, commit)
            if (folder / ".gitmodules").is_file():
                _fill_submodules(folder)
            mark.write_text(f"{commit}\n", encoding="ascii")
    return folder


def patched_checkout(repository: Path, commit: str, patch: bytes, data_folder: Path) -> Path:
    """The folder of a checkout of a commit with a patch applied, and not committed; made anew each time.

    Raises:
        VersionError: git cannot make it, or the patch does not apply.
    """
    digest = hashlib.sha256(patch).hexdigest()[:_LETTERS]
    folder = home_of(data_folder, "worktrees") / f"{commit[:_LETTERS]}-{digest}"
    file = folder.parent / f"{folder.name}.patch"
    with alone(folder):
        shutil.rmtree(folder, ignore_errors=True)
        _add_worktree(repository, folder, commit)
        if patch:
            file.write_bytes(patch)
            git(folder, "apply", "--index", "--unidiff-zero", "--whitespace=nowarn", str(file.absolute()))
        if (folder / ".gitmodules").is_file():
            _fill_submodules(folder)
    return folder


def _add_worktree(repository: Path, folder: Path, commit: str) -> None:
    # Twice: what a killed git left behind is locked, and given up only for that.
    words = ("worktree", "add", "--quiet", "--detach", "--force", "--force", str(folder.absolute()), commit)
    git(repository, *words, options=_without_programs(repository))


def _usable(folder: Path, mark: Path, commit: str) -> bool:
    """Whether the checkout is whole, and still what it was: an agent may have written into its own files."""
    # Where the user has pruned git's own record of it, git does not answer in it any more.
    with contextlib.suppress(OSError, VersionError):
        if mark.read_text(encoding="ascii").strip() == commit and (folder / ".git").is_file():
            words = ("status", "--porcelain", "--untracked-files=no")
            return not git(folder, *words, options=_without_programs(folder)) and (
                git(folder, "rev-parse", "HEAD").strip() == commit
            )
    return False


def _fill_submodules(folder: Path) -> None:
    """A checkout's submodules, each at the commit that the revision names.

    Raises:
        VersionError: one cannot be had.
    """
    try:
        words = ("submodule", "--quiet", "update", "--init", "--recursive")
        git(folder, *words, options=_without_programs(folder))
    except VersionError as error:
        raise VersionError(
            f"the submodules of revision {folder.name} cannot be fetched: {error}; see that `git submodule "
            "update --init` works in a clone of it"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder with the data that identifies its content."""

    folder: Path
    commit: str | None
    dirty_hash: str | None


def place_of(name: str, settings: Settings, entry: VersionEntry, copy: Path | None = None) -> Place:
    """The folder of a version; `copy` is that of a copy of the project.

    Raises:
        VersionError: it is not there.
        UnknownNameError: there is no such git revision.
    """
    if entry.git is not None:
        commit = commit_of(settings.root, entry.git)
        folder = _checked_out(name, settings, commit, entry.path or settings.agent.path)
        return Place(folder=folder, commit=commit, dirty_hash=None)
    folder = _folder(name, settings, entry, copy)
    commit_checked_out = head(folder)
    dirty = None if commit_checked_out is None else dirty_hash(folder, _own_files(settings))
    return Place(folder=folder, commit=commit_checked_out, dirty_hash=dirty)


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


def interpreter_of(name: str, settings: Settings, python: str | None) -> str | None:
    """The path of an interpreter, not resolved: the link of a virtual environment is what makes it one.

    Raises:
        VersionError: it cannot be executed.
    """
    if python is None:
        return None
    given = Path(python).expanduser()
    if given.name == python:
        found = shutil.which(python)
        if found is None:
            raise VersionError(
                f"the interpreter {python} of version {name!r} is not on PATH; correct `python`"
            )
        return found
    path = Path(os.path.abspath(settings.root / given))  # noqa: PTH100 - Path.resolve would follow the link
    if not path.is_file() or not os.access(path, os.X_OK):
        why = "cannot be executed" if path.is_file() else "does not exist"
        raise VersionError(
            f"the interpreter {path} of version {name!r} {why}; correct `python` in {file_of(settings)}, "
            "or make the environment: python3 -m venv"
        )
    return str(path)


def _own_files(settings: Settings) -> list[Path]:
    """What lies in a project without being the agent: changing it makes no other version."""
    files = [settings.golden_path, settings.store_path, settings.data_folder]
    return [Path(os.path.realpath(file)) for file in (*files, settings.file) if file is not None]


def file_of(settings: Settings) -> str:
    """Return the name of the settings file for messages."""
    return str(settings.file or "replay.toml (`replay init` writes one)")
