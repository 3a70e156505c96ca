"""The code of versions, packed in the driver and unpacked on a node.

Of a revision or a folder in a git repository the files are sent that git tracks or would track, and those
that `include` of `[ray]` names; of another folder everything but virtual environments and caches. The
repository's other folders come along, since code may import them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from replaydiff.replay.engine.checkout import git, toplevel
from replaydiff.replay.errors import VersionError
from replaydiff.replay.files import DATA_FOLDER, mark_of

CODE_PACKAGE = "replaydiff_shipped_code"
"""The module that holds the archives on a node; it contains nothing else."""
PACKAGE = Path(os.path.abspath(__file__)).parents[3]  # noqa: PTH100 - the links of an editable install stay
"""The folder of this package."""
_NEVER = {".git", DATA_FOLDER, "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
LARGEST_MB = 400
"""What the code of a run may be in megabytes: Ray takes packages of 500."""
_EPOCH = 1577836800
"""2020-01-01: the same time for every file, so that the same code is the same archive."""


class Archive(NamedTuple):
    """The packed code of a version."""

    name: str
    inside: str
    """The version's folder within it, as a relative path."""


def stage(folder: Path) -> Path:
    """Put this package and an empty package for archives into a folder; return the latter.

    Args:
        folder: exists and is empty; its two subfolders are what Ray sends to the nodes.
    """
    shutil.copytree(PACKAGE, folder / "replaydiff", ignore=shutil.ignore_patterns("__pycache__"))
    code = folder / CODE_PACKAGE
    code.mkdir()
    (code / "__init__.py").touch()
    return code


def pack(folder: Path, into: Path, include: Sequence[str] = ()) -> Archive:
    """Pack the code of a version.

    Args:
        folder: of the version.
        into: where the archive is written; one that is there already is kept.
        include: patterns of files that git ignores and the agent needs, relative to the folder.

    Raises:
        VersionError: a file cannot be read, or there is too much to be sent.
    """
    top = toplevel(folder) if shutil.which("git") else None
    root = (top or folder).resolve()
    key = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    archive = into / f"{key}.tar"
    if not archive.exists():
        included = (path for pattern in include for path in folder.resolve().glob(pattern))
        files = {*_files(root, is_repository=top is not None), *_within(included, root)}
        try:
            _write(archive, root, sorted(files))
        except OSError as error:
            raise VersionError(
                f"{error.filename or folder} cannot be sent to the cluster: {error.strerror or error}"
            ) from None
        size = sum(file.stat().st_size for file in into.glob("*.tar")) / 1e6
        if size > LARGEST_MB:
            raise VersionError(
                f"the code of the run's versions is {size:.0f} MB with that of {root}, and a cluster takes "
                f"{LARGEST_MB} MB",
                hint="have git ignore what no agent needs",
            )
    return Archive(archive.name, folder.resolve().relative_to(root).as_posix())


def unpack(archive: Path, into: Path) -> Path:
    """Unpack an archive, once, and return its folder.

    Args:
        archive: that `pack` wrote.
        into: the folder that gets the new one.
    """
    folder = into / archive.stem
    if not folder.exists():
        with tarfile.open(archive) as file:
            # Our own archive, with the links that a checkout has.
            file.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
            file.extractall(folder)  # noqa: S202
        folder.mkdir(exist_ok=True)
        # Each of its trials gets a copy, as of a checkout.
        mark_of(folder).touch()
    return folder


def _files(root: Path, *, is_repository: bool) -> Iterator[Path]:
    if not is_repository:
        yield from _all_files(root)
        return
    for name in git(root, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0"):
        path = root / name
        if not name or _NEVER.intersection(PurePosixPath(name).parts):
            continue
        if path.is_dir() and not path.is_symlink():
            # A submodule.
            yield from _all_files(path)
        elif path.is_symlink() or path.is_file():
            yield path


def _all_files(folder: Path) -> Iterator[Path]:
    for entry in list(os.scandir(folder)):
        if entry.name in _NEVER:
            continue
        if entry.is_dir(follow_symlinks=False):
            if not Path(entry.path, "pyvenv.cfg").exists():
                yield from _all_files(Path(entry.path))
        elif entry.is_symlink() or entry.is_file():
            yield Path(entry.path)


def _within(paths: Iterable[Path], root: Path) -> Iterator[Path]:
    for path in paths:
        if path.is_relative_to(root) and not _NEVER.intersection(path.relative_to(root).parts):
            if path.is_dir() and not path.is_symlink():
                yield from _all_files(path)
            else:
                yield path


def _write(archive: Path, root: Path, files: Iterable[Path]) -> None:
    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = _EPOCH
        return entry

    with tarfile.open(archive, "w") as file:
        for path in files:
            file.add(path, path.relative_to(root).as_posix(), recursive=False, filter=plain)
