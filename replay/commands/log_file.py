"""The log of `--log FILE`: one JSON object a line, for programs and for the day after.

Each line has `at` (UTC), `event` and `text`; an event of a trial has its facts besides. What redaction took
out of a trial is not there, nor are secrets of the environment; texts of agents are JSON strings in ASCII, so
none of them can end its line.
"""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from typing import Any

from replaydiff.replay.errors import InputError
from replaydiff.replay.masking import masker

FACTS = "facts"
"""Name of the attribute of a log record that has an event's facts, as a JSON object."""


class LogFile(logging.Handler):
    """Append what happens to a file that its owner alone may read."""

    def __init__(self, path: str) -> None:
        """Open the file.

        Raises:
            InputError: it cannot be written.
        """
        super().__init__(logging.INFO)
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise InputError(
                f"the log {path} cannot be written: {error.strerror}", hint="name another file with --log"
            ) from None
        self._masked = masker()

    def emit(self, record: logging.LogRecord) -> None:
        """Write an event of the library's log."""
        event = record.name.rpartition(".")[2]
        self.write(event, record.getMessage(), **getattr(record, FACTS, {}))

    def write(self, event: str, text: str, **facts: Any) -> None:
        """Write a line; a full disk loses lines of the log and ends no run."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = self._masked(json.dumps({"at": at, "event": event, "text": text, **facts}))
        try:
            os.write(self._file, f"{line}\n".encode())
        except OSError:
            self.setLevel(logging.CRITICAL + 1)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        super().close()
