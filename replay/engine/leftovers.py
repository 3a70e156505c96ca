"""What earlier commands left beside the store: checkouts, virtual environments, copies, rows that wait.

All checkouts and environments can be made again, so removing one costs time at most. Those of a stored run
are kept, because the run may be resumed and its trials shown with their code.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from replaydiff.replay.agents.simulate import answer_files
from replaydiff.replay.engine.checkout import git
from replaydiff.replay.errors import VersionError
from replaydiff.replay.files import FILE_CONTENTS, MEDIA_FOLDER, locked, mark_of
from replaydiff.replay.model.run import RunRecord
from replaydiff.replay.store import pending, snapshot
from replaydiff.replay.store.runs import EXPERIMENT

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What no run needs."""

    checkouts: tuple[Path, ...]
    """Of revisions, and of parts of a commit that a bisection tried."""
    environments: tuple[Path, ...]
    copies: tuple[Path, ...]
    """Of the store, by readers that were killed."""
    simulations: tuple[Path, ...]
    """Simulated answers of runs that are no longer stored."""
    files: tuple[Path, ...]
    """Content of files that trials wrote, of runs that are no longer stored."""
    media: tuple[Path, ...]
    """Pictures, documents and audio that nothing in the store refers to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What is on its way into the store."""

    rows: int
    """Votes of the judge and decisions."""
    journals: int
    """Runs with trials that are not in the store yet."""
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Simulated answers beside the store."""

    runs: int
    bytes: int


def find(
    store: Path,
    runs: Iterable[RunRecord],
    content_hashes: Collection[str],
    media_hashes: Collection[str],
) -> Leftovers:
    """Return what none of these runs needs in the folder of the store.

    Args:
        store: the store's file.
        runs: that are stored.
        content_hashes: SHA-256 of the files of their trials whose content is kept.
        media_hashes: SHA-256 of all media that the store refers to.
    """
    folder, stored_runs = store.absolute().parent, list(runs)
    # The checkouts of a bisection are made anew whenever it needs them.
    last = [run for run in stored_runs if EXPERIMENT not in run.settings]
    paths = [version.path for run in last for version in run.lanes.values()]
    interpreters = [version.python for run in stored_runs for version in run.lanes.values()]
    return Leftovers(
        checkouts=tuple(_unused(folder / "worktrees", paths)),
        environments=tuple(_unused(folder / "venvs", interpreters)),
        copies=tuple(snapshot.left_over(folder)),
        simulations=tuple(_orphaned_answers(store, {run.id for run in stored_runs})),
        files=tuple(_orphaned_files(store, FILE_CONTENTS, content_hashes)),
        media=tuple(_orphaned_files(store, MEDIA_FOLDER, media_hashes)),
    )


def remove(leftovers: Leftovers) -> None:
    """Remove what was found. One that another command is making at this moment stays."""
    for folder in leftovers.checkouts:
        with _locked_folder(folder) as free:
            if free:
                _unregister(folder)
                _remove_folder(folder)
                folder.with_name(f"{folder.name}.patch").unlink(missing_ok=True)
    for folder in leftovers.environments:
        with _locked_folder(folder) as free:
            if free:
                _remove_folder(folder)
    for file in (*leftovers.copies, *leftovers.simulations, *leftovers.files, *leftovers.media):
        file.unlink(missing_ok=True)


def waiting(store: Path) -> Waiting:
    """Return what waits beside a store, without taking it in."""
    of_tables = tuple(f".{table}.jsonl" for table in pending.TABLES)
    files = {path: path.stat().st_size for path in (store.absolute().parent / "journal").glob("*.jsonl")}
    filled = {path: size for path, size in files.items() if size}
    return Waiting(
        rows=pending.count(store),
        journals=sum(not path.name.endswith(of_tables) for path in filled),
        bytes=sum(filled.values()),
    )


def simulated(store: Path) -> Simulated:
    """Return how much is simulated answers, which are kept in files beside a store."""
    sizes = [path.stat().st_size for path in answer_files(store)]
    return Simulated(runs=len(sizes), bytes=sum(sizes))


def _unused(home: Path, used: Iterable[str | None]) -> Iterator[Path]:
    """Yield the folders in `home` that contain none of the paths that are used."""
    # By name: links may lead to `home`, and the interpreter of an environment is one that leads out of it.
    names = {
        name
        for path in used
        if path is not None
        for parent, name in pairwise(Path(path).parts)
        if parent == home.name
    }
    if home.is_dir():
        for folder in sorted(home.iterdir()):
            if folder.is_dir() and not folder.is_symlink() and folder.name not in names:
                yield folder


def _orphaned_answers(store: Path, runs: Collection[str]) -> Iterator[Path]:
    """Yield the files with simulated answers of none of these runs."""
    if _is_only_store(store):
        yield from (file for file in answer_files(store) if file.stem not in runs)


def _orphaned_files(store: Path, folder: str, hashes: Collection[str]) -> Iterator[Path]:
    """Yield the files of a folder that nothing names; nothing while a run's trials wait to be stored."""
    if _is_only_store(store) and not waiting(store).journals:
        files = (store.absolute().parent / folder).glob("*")
        yield from (file for file in sorted(files) if file.name not in hashes)


def _is_only_store(store: Path) -> bool:
    """Return whether no other store is in the folder, whose runs may need what these ones do not."""
    path = store.absolute()
    return set(path.parent.glob("*.duckdb")) - set(snapshot.left_over(path.parent)) <= {path}


@contextlib.contextmanager
def _locked_folder(folder: Path) -> Iterator[bool]:
    """Hold the lock of a folder; yield whether that worked."""
    try:
        with locked(folder.with_name(f"{folder.name}.lock"), wait=False, remove=True):
            yield True
    except BlockingIOError:
        yield False


def _unregister(folder: Path) -> None:
    """Remove git's own record of a checkout; without a repository there is none."""
    with contextlib.suppress(VersionError, OSError):
        main = git(folder, "rev-parse", "--path-format=absolute", "--git-common-dir").removesuffix("\n")
        git(Path(main), "worktree", "remove", "--force", "--force", str(folder))


def _remove_folder(folder: Path) -> None:
    mark_of(folder).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        _log.warning("%s could not be removed", folder)
