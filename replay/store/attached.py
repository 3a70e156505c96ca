"""Mark a store as the local copy of a shared folder (`replay.store.shared`): it is only read."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from replaydiff.replay.errors import StoreError


def mark_of_origin(store: Path) -> Path:
    """Return the file that names the shared folder of a local copy.

    Args:
        store: path of the copy.
    """
    return store.with_name(f"{store.name}.origin")


def refuse_writing(store: Path) -> None:
    """Raise if a store is the local copy of a shared folder.

    Args:
        store: path of the store.

    Raises:
        StoreError: it is the copy of a shared folder.
    """
    with suppress(OSError):
        origin = mark_of_origin(store).read_text(encoding="utf-8").strip()
        raise StoreError(
            f"{origin} is a shared folder of runs, which is only read",
            hint="leave --db out to write to your own store, then `replay store publish` it",
        )
