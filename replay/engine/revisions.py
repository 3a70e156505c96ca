"""The history between two revisions, as git knows it. Nothing here writes."""

from __future__ import annotations

import contextlib
from pathlib import Path

from replaydiff.replay.engine.checkout import git
from replaydiff.replay.errors import VersionError


def commits_between(folder: Path, good: str, bad: str) -> list[tuple[str, tuple[str, ...], str]]:
    """List id, parents, subject of each commit that contains `good` and is contained in `bad`, parents first.

    Raises:
        VersionError: there is none, since `bad` does not contain `good`.
    """
    if good == bad:
        raise VersionError(f"both revisions are commit {good[:12]}; name an older --good")
    base = _common_ancestor(folder, good, bad)
    if base == bad:
        raise VersionError(f"--good {good[:12]} is newer than --bad {bad[:12]}; exchange them")
    if base != good:
        hint = f"; name their common ancestor {base[:12]} as --good" if base else ""
        raise VersionError(f"--bad {bad[:12]} does not contain --good {good[:12]}{hint}")
    listed = git(
        folder, "log", "-z", "--topo-order", "--reverse", "--ancestry-path", "--no-show-signature",
        "--format=%H%n%P%n%s", f"{good}..{bad}",
    )  # fmt: skip
    commits = []
    for entry in filter(None, listed.split("\0")):
        commit, parents, subject = entry.split("\n", 2)
        commits.append((commit, tuple(parents.split()), subject))
    return commits


def subject_of(folder: Path, commit: str) -> str:
    """Return the first line of a commit's message."""
    return git(folder, "log", "-1", "--no-show-signature", "--format=%s", commit).removesuffix("\n")


def changes_of(folder: Path, parent: str, commit: str) -> bytes:
    """Return what a commit changed since a parent, as a patch without context."""
    shown = git(
        folder, "-c", "core.quotePath=false", "diff", "--unified=0", "--binary", "--no-renames", "--no-color",
        "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short",
        "--inter-hunk-context=0", parent, commit,
    )  # fmt: skip
    return shown.encode("utf-8", "surrogateescape")


def prefix_of(folder: Path) -> str:
    """Return the path of a folder within its repository."""
    return git(folder, "rev-parse", "--show-prefix").removesuffix("\n")


def _common_ancestor(folder: Path, first: str, second: str) -> str:
    # Without one, git ends with an error code and prints nothing.
    with contextlib.suppress(VersionError):
        return git(folder, "merge-base", first, second).strip()
    return ""
