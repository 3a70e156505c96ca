"""A folder of the agent as it was when a run began: `.replay/worktrees/<commit>[-<digest>]`.

In a git repository the tracked files and the untracked ones that git does not ignore become a commit, which
no branch has, with a private worktree. A temporary index is used for it, so the user's own is not changed.
Elsewhere the files are copied, and their content is their name.

What git ignores is still needed to run the agent: `.env` and local data are copied, virtual environments,
`node_modules` and what is larger than `LINK_FROM` are links to the user's own. Caches are left out.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from replaydiff.replay.engine.checkout import (
    add_worktree,
    checkout,
    git,
    head,
    is_checkout_of,
    toplevel,
    without_programs,
)
from replaydiff.replay.errors import NoSpaceError, VersionError
from replaydiff.replay.files import DATA_FOLDER, alone, home_of, mark_of

CACHES = frozenset(
    (".git", DATA_FOLDER, "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox")
)
"""Names of files and folders that no agent needs."""
LARGEST = 1 << 30
"""Bytes of files that are copied or put into git; with more a folder is refused."""
MOST_FILES = 200_000
LINK_FROM = 100 << 20
"""Bytes from which an ignored file or folder is linked and not copied."""
_WORKTREES = "worktrees"
_LETTERS = 12
"""Of a commit or digest in a folder's name."""
_NOT_CODE = ("**/__pycache__/**", f"**/{DATA_FOLDER}/**", "**/replay-report-*")
"""Untracked files that say nothing about an agent: running it, or replay itself, makes them."""
_AUTHOR = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (
        ("NAME", "replaydiff"),
        ("EMAIL", "replaydiff@localhost"),
        ("DATE", "1577836800 +0000"),
    )
}
"""The same for every snapshot, so that the same files are the same commit."""
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A folder as it was at one moment."""

    folder: Path
    """What stands for the folder that the snapshot was taken of."""
    commit: str | None
    """HEAD of its repository; None without one."""
    dirty_hash: str | None
    """Of the changes since that commit, or of all files where there is none; None without changes."""


def take(folder: Path, data_folder: Path, leave_out: Iterable[Path] = ()) -> Snapshot:
    """Take a snapshot of a folder, or return the one that has the same files.

    Args:
        folder: the folder; of a repository, the whole repository is taken.
        data_folder: `.replay`, where the snapshot is kept.
        leave_out: files and folders that belong to replay and not to the agent.

    Raises:
        VersionError: it cannot be taken; nothing is left of it.
        NoSpaceError: the disk is full.
    """
    top = toplevel(folder) if shutil.which("git") else None
    try:
        if top is None:
            return _copied(folder, data_folder, leave_out)
        return _committed(folder, top, data_folder, leave_out)
    except OSError as error:
        reason = f"no snapshot of {top or folder} can be taken: {error.strerror or error}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpaceError(reason, hint="make room, then run the same command again") from None
        raise VersionError(
            reason if error.filename is None else f"{reason}: {error.filename}",
            hint="run replay in a copy of the folder that can be written to: it keeps snapshots there"
            if error.errno == errno.EROFS
            else "make it readable, or name a folder without it as `path`",
        ) from None
    except VersionError as error:
        if os.strerror(errno.EROFS).lower() in str(error).lower():
            hint = "replay keeps snapshots among git's objects: name a clone that can be written to as `path`"
            raise VersionError(str(error), hint=hint) from None
        if os.strerror(errno.ENOSPC).lower() not in str(error).lower():
            raise
        reason = f"no snapshot of {top or folder} can be taken: {error}"
        raise NoSpaceError(reason, hint="make room, then run the same command again") from None


def is_there(path: str, data_folder: Path) -> bool:
    """Return whether a version's folder is in a snapshot that is still whole."""
    top = top_of(Path(path), data_folder)
    if top is None or not Path(path).is_dir() or not mark_of(top).is_file():
        return False
    commit = mark_of(top).read_text(encoding="ascii").strip()
    return not commit or is_checkout_of(top, commit)


def top_of(path: Path, data_folder: Path) -> Path | None:
    """Return the checkout or snapshot that contains a path; None where it is in neither."""
    home = data_folder.absolute() / _WORKTREES
    return home / path.relative_to(home).parts[0] if path.is_relative_to(home) and path != home else None


def changed_files(earlier: str, now: str, data_folder: Path) -> list[str]:
    """Return the files that differ between two snapshots or checkouts, as far as that is still known.

    Args:
        earlier: path of a version's folder, which may be gone.
        now: path of another one, which is there.
        data_folder: `.replay`.
    """
    before, after = (top_of(Path(path), data_folder) for path in (earlier, now))
    if before is None or after is None:
        return []
    try:
        names = git(
            after, "diff", "--name-only", "-z", "--no-ext-diff", "--no-textconv",
            before.name[:_LETTERS], after.name[:_LETTERS], options=without_programs(after),
        )  # fmt: skip
    except VersionError:
        return []
    return [name for name in names.split("\0") if name]


def _committed(folder: Path, top: Path, data_folder: Path, leave_out: Iterable[Path]) -> Snapshot:
    options, base = without_programs(top), head(top)
    home = home_of(data_folder.absolute(), _WORKTREES)
    inside = folder.resolve().relative_to(top.resolve())
    with tempfile.TemporaryDirectory(prefix="snapshot-", dir=home, ignore_cleanup_errors=True) as scratch:
        commit, modules = _commit(top, base, Path(scratch, "index"), leave_out, options)
        extra = Path(scratch, "files")
        extra.mkdir()
        module_digest = _copy(top, modules, extra)
        digest = _copy(top, _ignored(top, options), extra, link_folders=True)
        _copy_empty_folders(top, extra, options)
        if not any(extra.iterdir()):
            target = checkout(top, commit, data_folder.absolute())
        else:
            key = hashlib.sha256(f"{module_digest}{digest}".encode()).hexdigest()
            target = home / f"{commit[:_LETTERS]}-{key[:_LETTERS]}"
            with alone(target):
                if not is_there(str(target), data_folder):
                    mark_of(target).unlink(missing_ok=True)
                    shutil.rmtree(target, ignore_errors=True)
                    add_worktree(top, target, commit)
                    _move_into(extra, target)
                    mark_of(target).write_text(f"{commit}\n", encoding="ascii")
    changed = [part for part in (commit if commit != base else "", _dirty_modules(top, modules)) if part]
    dirty = f"sha256:{hashlib.sha256(' '.join(changed).encode()).hexdigest()}" if changed else None
    return Snapshot(folder=target / inside, commit=base, dirty_hash=dirty)


def _commit(
    top: Path, base: str | None, index: Path, leave_out: Iterable[Path], options: Sequence[str]
) -> tuple[str, list[str]]:
    """Write a commit of the files as they are; return its id and the repositories that are inside."""
    original = Path(top, git(top, "rev-parse", "--git-path", "index").removesuffix("\n"))
    if original.is_file():
        # Its times of files spare git from reading every one again, and its own time tells which to doubt.
        shutil.copy2(original, index)
    git(top, "read-tree", *(["--reset", base] if base else ["--empty"]), options=options, index=index)
    names = _changed_names(top, index, leave_out, options)
    _check_size(top, names)
    git(
        top, "update-index", "--add", "--remove", "--replace", "-z", "--stdin",
        options=[*options, "-c", "core.safecrlf=false"], index=index,
        stdin=b"".join(os.fsencode(name) + b"\0" for name in names),
    )  # fmt: skip
    tree = git(top, "write-tree", options=options, index=index).strip()
    staged = git(top, "ls-files", "--stage", "-z", options=options, index=index).split("\0")
    modules = [entry.partition("\t")[2] for entry in staged if entry.startswith("160000 ")]
    if base is not None and tree == git(top, "rev-parse", f"{base}^{{tree}}", options=options).strip():
        return base, modules
    words = ("commit-tree", tree, *(("-p", base) if base else ()), "-m", "replaydiff: a folder as it was")
    return git(top, *words, options=options, environment=_AUTHOR).strip(), modules


def _changed_names(top: Path, index: Path, leave_out: Iterable[Path], options: Sequence[str]) -> list[str]:
    """Return the files that differ from the index and the untracked ones that git does not ignore."""
    paths = [path.relative_to(top.resolve()) for path in leave_out if path.is_relative_to(top.resolve())]
    without = [f":(exclude,top,literal){path}" for path in paths]
    without += [f":(exclude,top,glob){pattern}" for pattern in _NOT_CODE]
    words = ("ls-files", "--modified", "--deleted", "--others", "--exclude-standard", "-z", "--", ".")
    listed = git(top, *words, *without, options=options, index=index).split("\0")
    return sorted({name.rstrip("/") for name in listed if name})


def _check_size(top: Path, names: Sequence[str]) -> None:
    """Refuse a repository with uncommitted files that are too much to be kept.

    Raises:
        VersionError: they are.
    """
    sizes = {name: _size(top / name) for name in names}
    if sum(sizes.values()) > LARGEST or len(sizes) > MOST_FILES:
        largest = max(sizes, key=lambda name: sizes[name])
        raise VersionError(
            f"no snapshot of {top} can be taken: its {len(sizes)} uncommitted files have "
            f"{sum(sizes.values()) / 1e9:.1f} GB ({largest} alone {sizes[largest] / 1e9:.1f} GB), "
            f"and at most {LARGEST / 1e9:.1f} GB in {MOST_FILES} files are kept",
            hint="have git ignore what is no code; what it ignores can still be read",
        )


def _dirty_modules(top: Path, modules: Iterable[str]) -> str:
    """Return a digest of the changes within the repositories that are inside; empty without changes."""
    states = []
    for module in modules:
        folder = top / module
        if (folder / ".git").exists():
            options = without_programs(folder)
            if changes := git(folder, "status", "--porcelain", "-z", options=options):
                changes += git(
                    folder, "diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv", options=options
                )
                states.append(f"{module}\0{changes}")
    return hashlib.sha256(os.fsencode("\0".join(states))).hexdigest() if states else ""


def _ignored(top: Path, options: Sequence[str]) -> list[str]:
    """Return the files and folders that git ignores, none of them within another.

    A folder that ignores itself (`*` in its own .gitignore) is listed with all that is in it.
    """
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    listed = set(git(top, *words, options=options).split("\0")) - {""}
    return [
        name.rstrip("/")
        for name in sorted(listed)
        if listed.isdisjoint(f"{parent}/" for parent in PurePosixPath(name).parents)
    ]


def _copy_empty_folders(top: Path, into: Path, options: Sequence[str]) -> None:
    """Make the untracked folders without files, which no commit can hold."""
    words = ("ls-files", "--others", "--exclude-standard", "--directory", "-z")
    for name in git(top, *words, options=options).split("\0"):
        if name.endswith("/") and (top / name).is_dir() and not any((top / name).iterdir()):
            (into / name).mkdir(parents=True, exist_ok=True)


def _copied(folder: Path, data_folder: Path, leave_out: Iterable[Path]) -> Snapshot:
    """Copy a folder that is in no repository."""
    home = home_of(data_folder.absolute(), _WORKTREES)
    names = {
        path.relative_to(folder.resolve()).as_posix()
        for path in leave_out
        if path.is_relative_to(folder.resolve())
    }
    _check_tree(folder, names)
    with tempfile.TemporaryDirectory(prefix="snapshot-", dir=home, ignore_cleanup_errors=True) as scratch:
        files = Path(scratch, "files")
        files.mkdir()
        entries = [entry.name for entry in os.scandir(folder) if not _is_report(entry.name)]
        digest = _copy(folder, entries, files, leave_out=frozenset(names))
        target = home / f"files-{digest[:_LETTERS]}"
        with alone(target):
            if not is_there(str(target), data_folder):
                mark_of(target).unlink(missing_ok=True)
                shutil.rmtree(target, ignore_errors=True)
                files.rename(target)
                mark_of(target).write_text("\n", encoding="ascii")
    return Snapshot(folder=target, commit=None, dirty_hash=f"sha256:{digest}")


def _check_tree(folder: Path, leave_out: Iterable[str]) -> None:
    """Refuse a folder that is too much to be copied.

    Raises:
        VersionError: it is.
    """
    total = 0
    for number, file in enumerate(_files_below(folder, set(leave_out), folder), start=1):
        size = _size(file)
        total += size if size < LINK_FROM else 0
        if total > LARGEST or number > MOST_FILES:
            raise VersionError(
                f"no snapshot of {folder} can be taken: it has more than {LARGEST / 1e9:.1f} GB or "
                f"{MOST_FILES} files, and is no git repository that ignores what is no code",
                hint="name the agent's own folder as `path`, or make it a git repository",
            )


def _files_below(folder: Path, leave_out: set[str], root: Path) -> Iterator[Path]:
    for entry in list(os.scandir(folder)):
        path = Path(entry.path)
        if entry.name in CACHES or path.relative_to(root).as_posix() in leave_out:
            continue
        if not entry.is_dir(follow_symlinks=False):
            yield path
        elif not _has_packages(path):
            yield from _files_below(path, leave_out, root)


def _copy(
    root: Path,
    names: Iterable[str],
    into: Path,
    *,
    leave_out: frozenset[str] = frozenset(),
    link_folders: bool = False,
) -> str:
    """Copy files and folders of a root; return a digest of their names and content.

    Args:
        root: the folder that names are relative to.
        names: of files and folders.
        into: takes the place of the root.
        leave_out: names below the root that are not copied.
        link_folders: link folders that are large; large files and installed packages are linked anyway.
    """
    digest = hashlib.sha256()
    remaining = sorted(names, reverse=True)
    while remaining:
        name = remaining.pop()
        source, target = root / name, into / name
        if name in leave_out or _is_report(source.name) or not CACHES.isdisjoint(Path(name).parts):
            continue
        try:
            mode, size = source.lstat().st_mode, source.lstat().st_size
        except FileNotFoundError:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        digest.update(f"{stat.S_IFMT(mode):o} {mode & 0o111:o} ".encode() + os.fsencode(name) + b"\0")
        if stat.S_ISLNK(mode):
            digest.update(os.fsencode(_copy_link(source, target, root)) + b"\0")
        elif stat.S_ISDIR(mode) and (_has_packages(source) or (link_folders and _is_large(source))):
            _link(source, target)
        elif stat.S_ISDIR(mode):
            target.mkdir(exist_ok=True)
            remaining += sorted((f"{name}/{child.name}" for child in os.scandir(source)), reverse=True)
        elif stat.S_ISREG(mode) and size >= LINK_FROM:
            target.symlink_to(source.absolute())
        elif stat.S_ISREG(mode):
            digest.update(_copy_file(source, target))
    return digest.hexdigest()


def _copy_link(source: Path, target: Path, root: Path) -> str:
    """Copy a symbolic link, with an absolute target where it leads out of the root; return its target."""
    link = source.readlink()
    leads_to = (source.parent / link).resolve()
    stays = not link.is_absolute() and leads_to.is_relative_to(root.resolve())
    target.symlink_to(link if stays else leads_to)
    return str(link)


def _link(source: Path, target: Path) -> None:
    """Link a folder entry by entry: the links in it that lead into the project lead into the snapshot."""
    target.mkdir()
    for entry in source.iterdir():
        path = target / entry.name
        if entry.is_symlink() and not entry.readlink().is_absolute():
            path.symlink_to(entry.readlink())
        elif entry.name.startswith("@") and entry.is_dir():
            _link(entry, path)
        else:
            path.symlink_to(entry.absolute())


def _copy_file(source: Path, target: Path) -> bytes:
    """Copy a file with its mode; return the SHA-256 of its content."""
    digest = hashlib.sha256()
    # Only ever a new file: what is there may be a link to the source.
    with source.open("rb") as reader, target.open("xb") as writer:
        while chunk := reader.read(_CHUNK):
            digest.update(chunk)
            writer.write(chunk)
    shutil.copymode(source, target)
    return digest.digest()


def _move_into(source: Path, target: Path) -> None:
    """Move what is in a folder into another one that may have folders of the same names."""
    for entry in source.iterdir():
        path = target / entry.name
        if entry.is_dir() and not entry.is_symlink() and path.is_dir():
            _move_into(entry, path)
        else:
            entry.rename(path)


def _has_packages(folder: Path) -> bool:
    """Return whether a folder holds installed packages, which no run changes."""
    return folder.name == "node_modules" or (folder / "pyvenv.cfg").is_file()


def _is_large(folder: Path) -> bool:
    size = 0
    for path, _, names in os.walk(folder):
        size += sum(_size(Path(path, name)) for name in names)
        if size >= LINK_FROM:
            return True
    return False


def _is_report(name: str) -> bool:
    return name.startswith("replay-report-")


def _size(file: Path) -> int:
    try:
        return file.lstat().st_size
    except OSError:
        return 0
