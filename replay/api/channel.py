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


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """Where messages and progress go; by default messages go to the log `replaydiff`."""

    message: Callable[[str], None] = _log.info
    """Gets sentences that a person should read at once."""
    progress: Callable[[str, str], AbstractContextManager[Update]] | None = None
    """Shows some work (`replaying`) counted in a unit (`trials`); None: nothing is shown."""

    def showing(self, work: str, unit: str) -> AbstractContextManager[Update]:
        """Show the progress of some work for as long as the context lasts."""
        if self.progress is None:
            return nullcontext(lambda _: None)
        return self.progress(work, unit)
