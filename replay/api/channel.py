"""What the API reports while it works: sentences for a person, and progress."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

_log = logging.getLogger("replaydiff")

Update = Callable[[Any], None]
"""Gets the state of some work: `done`, `total`, `spent_usd`."""


@dataclass(frozen=True, slots=True)
class Work:
    """The state of some work."""

    done: int
    total: int
    failed: int = 0
    spent_usd: float = 0.0
    note: str = ""
    """What else is known of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """Where messages and progress go; by default messages go to the log `replaydiff`."""

    message: Callable[[str], None] = _log.info
    """Gets sentences that a person should read at once."""
    progress: Callable[[str, str], AbstractContextManager[Update]] | None = None
    """Shows some work (`replaying`) counted in a unit (`trials`); None: nothing is shown."""
    status: Callable[[str], AbstractContextManager[Callable[[str], None]]] = lambda _: nullcontext(_log.debug)
    """Shows requests to a server (`fetching from langfuse`), by texts on them."""

    def showing(self, work: str, unit: str) -> AbstractContextManager[Update]:
        """Show the progress of some work for as long as the context lasts."""
        if self.progress is None:
            return nullcontext(lambda _: None)
        return self.progress(work, unit)
