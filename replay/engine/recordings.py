"""The run whose recorded answers take the place of models."""

from __future__ import annotations

from pathlib import Path

from replaydiff.replay.errors import InputError
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.model_calls import count_model_calls, latest_recorded
from replaydiff.replay.store.runs import get_run

LATEST = "latest"


def recorded_run(store: Path, name: str) -> str:
    """The id of a run with recorded model calls: that of this id, or the latest of them.

    Raises:
        UnknownNameError: there is no such run.
        InputError: nothing was recorded.
    """
    with open_store(store, read_only=True) as con:
        found = latest_recorded(con) if name == LATEST else get_run(con, name).id
        if found is None:
            raise InputError("no run has recorded its models yet; make one with `replay run --record`")
        if not count_model_calls(con, found):
            raise InputError(
                f"run {found} recorded no model; name one made with `replay run --record`, or `latest`"
            )
    return found
