"""Git in the service of versions: private checkouts of revisions, and the interpreter of a version.

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
from collections.abc import Mapping, Sequence
from pathlib import Path

from replaydiff.replay.errors import UnknownNameError, VersionError
from replaydiff.replay.files import alone, home_of, mark_of
from replaydiff.replay.settings import Settings

_REPOSITORY_VARIABLES = (
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


def git(
    folder: Path,
    *args: str,
    options: Sequence[str] = (),
    index: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: bytes = b"",
) -> str:
    """Return what a git command prints.

    Args:
        folder: where it runs.
        args: the command and its arguments.
        options: of git itself, before the command.
        index: the index to use; None for the repository's own.
        environment: variables besides those of this process.
        stdin: what the command reads.

    Raises:
        VersionError: git is missing, or the command failed; with the message of git.
    """
    variables = {**(environment or {}), **({} if index is None else {"GIT_INDEX_FILE": str(index)})}
    process = _run(folder, *options, *args, variables=variables, stdin=stdin)
    if process.returncode:
        output = process.stderr.decode(errors="replace").strip().splitlines()
        reason = output[-1] if output else f"exit code {process.returncode}"
        raise VersionError(f"git {args[0]} failed in {folder}: {reason.removeprefix('fatal: ')}")
    return process.stdout.decode(errors="surrogateescape")


def toplevel(folder: Path) -> Path | None:
    """Return the top folder of the repository that contains a folder; None if there is none."""
    process = _run(folder, "rev-parse", "--show-toplevel")
    return Path(os.fsdecode(process.stdout).removesuffix("\n")) if not process.returncode else None


def commit_of(folder: Path, ref: str) -> str:
    """Return the full id of the commit that a revision names.

    Raises:
        UnknownNameError: the repository has no such revision; names the nearest tag or branch.
        VersionError: the folder is in no repository.
    """
    if toplevel(folder) is None:
        # Other reasons than a missing repository (an owner git does not trust) are git's to tell.
        git(folder, "rev-parse", "--git-dir")
    commit = _commit(folder, ref)
    if commit is None:
        refs = git(folder, "for-each-ref", "--format=%(refname:short)", *_REFS).split()
        hint = f"any tag, branch or commit of {toplevel(folder)} can be named"
        raise UnknownNameError("git revision", ref, refs, hint)
    return commit


def has_revision(folder: Path, ref: str) -> bool:
    """Return whether a revision is in the repository of a folder, if there is one."""
    return shutil.which("git") is not None and _commit(folder, ref) is not None


def head(folder: Path) -> str | None:
    """Return the commit a folder is at; None without git, outside a repository, or without commits."""
    return _commit(folder, "HEAD") if shutil.which("git") else None


def _commit(folder: Path, ref: str) -> str | None:
    # What begins with a dash would be an option.
    if ref.startswith("-"):
        return None
    process = _run(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    return None if process.returncode else process.stdout.decode().strip()


def _run(
    folder: Path, *args: str, variables: Mapping[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if name not in _REPOSITORY_VARIABLES}
    environment.update(variables or {})
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    environment["LC_ALL"] = "C"
    if shutil.which("git") is None:
        raise VersionError("git is not installed, and a git: version needs it; install it")
    command = ["git", "-c", "core.fsmonitor=false", *args]
    return subprocess.run(command, cwd=folder, env=environment, input=stdin, capture_output=True, check=False)


def without_programs(repository: Path) -> list[str]:
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
    with alone(folder):
        if not (_is_complete(folder, commit) and is_checkout_of(folder, commit)):
            _log.info("checking out %s into %s", commit, folder)
            mark_of(folder).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            add_worktree(repository, folder, commit)
            if (folder / ".gitmodules").is_file():
                _fill_submodules(folder)
            mark_of(folder).write_text(f"{commit}\n", encoding="ascii")
    return folder


def patched_checkout(repository: Path, commit: str, patch: bytes, data_folder: Path) -> Path:
    """Make a checkout of a commit with a patch applied and not committed, anew each time; return its folder.

    Raises:
        VersionError: git cannot make it, or the patch does not apply.
    """
    digest = hashlib.sha256(patch).hexdigest()[:_LETTERS]
    folder = home_of(data_folder, "worktrees") / f"{commit[:_LETTERS]}-{digest}"
    file = folder.parent / f"{folder.name}.patch"
    with alone(folder):
        shutil.rmtree(folder, ignore_errors=True)
        add_worktree(repository, folder, commit)
        if patch:
            file.write_bytes(patch)
            git(folder, "apply", "--index", "--unidiff-zero", "--whitespace=nowarn", str(file.absolute()))
        if (folder / ".gitmodules").is_file():
            _fill_submodules(folder)
    return folder


def add_worktree(repository: Path, folder: Path, commit: str) -> None:
    """Check out a commit into a folder that does not exist, without the repository's hooks and filters.

    Raises:
        VersionError: git cannot do it.
    """
    # Twice: what a killed git left behind is locked, and given up only for that.
    words = ("worktree", "add", "--quiet", "--detach", "--force", "--force", str(folder.absolute()), commit)
    git(repository, *words, options=without_programs(repository))


def is_checkout_of(folder: Path, commit: str) -> bool:
    """Return whether a folder is a private checkout of a commit in which no tracked file was changed."""
    # Where the user has pruned git's own record of it, git does not answer in it any more.
    with contextlib.suppress(OSError, VersionError):
        if (folder / ".git").is_file():
            words = ("status", "--porcelain", "--untracked-files=no")
            return not git(folder, *words, options=without_programs(folder)) and (
                git(folder, "rev-parse", "HEAD").strip() == commit
            )
    return False


def _is_complete(folder: Path, commit: str) -> bool:
    mark = mark_of(folder)
    return mark.is_file() and mark.read_text(encoding="ascii").strip() == commit


def _fill_submodules(folder: Path) -> None:
    """Fill a checkout's submodules, each at the commit that the revision names.

    Raises:
        VersionError: one cannot be had.
    """
    try:
        words = ("submodule", "--quiet", "update", "--init", "--recursive")
        git(folder, *words, options=without_programs(folder))
    except VersionError as error:
        raise VersionError(
            f"the submodules of revision {folder.name} cannot be fetched: {error}; see that `git submodule "
            "update --init` works in a clone of it"
        ) from None


def interpreter_of(name: str, settings: Settings, python: str | None) -> str | None:
    """Return an interpreter's path, not resolved: the link of a virtual environment is what makes it one.

    Raises:
        VersionError: it cannot be executed.
    """
    if python is None:
        return None
    named = Path(python).expanduser()
    if named.name == python:
        on_path = shutil.which(python)
        if on_path is None:
            raise VersionError(
                f"the interpreter {python} of version {name!r} is not on PATH; correct `python`"
            )
        return on_path
    path = Path(os.path.abspath(settings.root / named))  # noqa: PTH100 - Path.resolve would follow the link
    if not path.is_file() or not os.access(path, os.X_OK):
        why = "cannot be executed" if path.is_file() else "does not exist"
        raise VersionError(
            f"the interpreter {path} of version {name!r} {why}; correct `python` in {file_of(settings)}, "
            "or make the environment: python3 -m venv"
        )
    return str(path)


def file_of(settings: Settings) -> str:
    """Return the name of the settings file for messages."""
    return str(settings.file or "replay.toml (`replay init` writes one)")
