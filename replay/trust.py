"""Whose code commands may run: a list of trusted folders in the user's home.

A folder's replay.toml and golden set can name functions of the folder: graders, the redaction hook, a judge.
Commands whose purpose is to run the agent (`run`, `check`, `compare`, `bisect`, `fork`, `doctor --probe`) run
code by intention, so using one of them trusts the folder, now and later. Every other command runs such
functions only in a trusted folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from replaydiff.replay.errors import ReplayError, UntrustedError
from replaydiff.replay.files import locked, private_folder, write_whole
from replaydiff.replay.settings import Settings

VARIABLE = "REPLAY_TRUST"
"""Trusts every folder if it is `1`; nothing is added to the list then. For CI and containers."""
_in_this_process: set[Path] = set()


def list_path() -> Path:
    """Return the path of the list: one JSON string per line, each the path of a folder."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(configured) if Path(configured).is_absolute() else Path.home() / ".config"
    return base / "replaydiff" / "trusted"


def trusted_folders() -> list[Path]:
    """Return the folders of the list, oldest entry first; a damaged line trusts nothing."""
    try:
        lines = list_path().read_text(encoding="utf-8").splitlines()
    except (OSError, RuntimeError, UnicodeDecodeError):
        return []
    folders = []
    for line in lines:
        with suppress(ValueError):
            if isinstance(name := json.loads(line), str):
                folders.append(Path(name))
    return folders


def is_trusted(root: Path) -> bool:
    """Return whether commands may run the code of this folder.

    Args:
        root: the folder of replay.toml.
    """
    folder = root.resolve()
    return os.environ.get(VARIABLE) == "1" or folder in _in_this_process or folder in trusted_folders()


def require_trust(root: Path, what: str) -> None:
    """Refuse to run code of a folder that is not trusted.

    Args:
        root: the folder of replay.toml.
        what: what names the code, for the error: "[grading] graders = 'graders:polite'".

    Raises:
        UntrustedError: it is not trusted.
    """
    if not is_trusted(root):
        raise UntrustedError(root.resolve(), f"{what} is code of {root.resolve()}, which is not trusted")


def trust_in_this_process(root: Path) -> None:
    """Trust a folder until this process ends.

    Args:
        root: the folder of replay.toml.
    """
    _in_this_process.add(root.resolve())


def trust(root: Path) -> bool:
    """Trust a folder in this process and add it to the list; return whether the list could be written.

    Folders that no longer exist are removed from the list, so a new folder of that name is not trusted.

    Args:
        root: the folder of replay.toml.
    """
    folder = root.resolve()
    trust_in_this_process(folder)
    return folder in trusted_folders() or _change(lambda folders: [*folders, folder])


def distrust(root: Path) -> bool:
    """Remove a folder from the list; return whether it was in it.

    Args:
        root: the folder of replay.toml.

    Raises:
        ReplayError: the list cannot be written.
    """
    folder = root.resolve()
    _in_this_process.discard(folder)
    if folder not in trusted_folders():
        return False
    if not _change(lambda folders: [trusted for trusted in folders if trusted != folder]):
        raise ReplayError(f"{list_path()} cannot be written", hint="make it writable")
    return True


def trust_by_use(settings: Settings) -> None:
    """Trust a project's folder because its user runs the agent in it.

    Args:
        settings: of the project.

    Raises:
        UntrustedError: another user of this machine wrote replay.toml.
    """
    if is_trusted(settings.root):
        trust_in_this_process(settings.root)
        return
    if settings.file is None:
        trust_in_this_process(settings.root)
        return
    owner, user = settings.file.stat().st_uid, os.geteuid()
    # The administrator of a container works on files of others.
    if user not in (0, owner) and owner != 0:
        reason = f"{settings.file} belongs to another user (number {owner})"
        raise UntrustedError(settings.root.resolve(), reason)
    trust(settings.root)


def _change(change: Callable[[list[Path]], list[Path]]) -> bool:
    """Rewrite the list; return whether that was possible, as it is not without a home."""
    try:
        path = list_path()
        private_folder(path.parent)
        with locked(path.with_name(f"{path.name}.lock")):
            changed = change([folder for folder in trusted_folders() if folder.is_dir()])
            write_whole(path, "".join(json.dumps(str(folder)) + "\n" for folder in dict.fromkeys(changed)))
    except (OSError, RuntimeError, ReplayError):
        return False
    return True
