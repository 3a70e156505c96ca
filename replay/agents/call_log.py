"""A file with the calls that a worker answered from the recordings it was sent.

The worker reports them with the trial's reply, which one that dies never sends. So it also writes each of
them to this file, which has no name and is held open here: what it did before it ended is known all the same.
"""

from __future__ import annotations

import os
import tempfile

from replaydiff.replay.messages import parse
from replaydiff.replay.model import JsonObject


class CallLog:
    """The file of one worker. Each line is a trial's number and a call: `7 {"name": "f", "args": {}}`."""

    def __init__(self) -> None:
        """Create the file.

        Raises:
            OSError: the system has no room for it.
        """
        if hasattr(os, "memfd_create"):
            self.descriptor = os.memfd_create("replaydiff-calls")
        else:
            with tempfile.TemporaryFile() as file:
                self.descriptor = os.dup(file.fileno())

    def calls(self, trial: int, first: int) -> list[JsonObject]:
        """Return the calls of a trial, in their order.

        Args:
            trial: its number.
            first: how many of its calls are left out, as they are known.
        """
        if self.descriptor < 0:
            return []
        size = os.fstat(self.descriptor).st_size
        number, found = b"%d" % trial, []
        # A line without its end was being written when the process was killed.
        for line in os.pread(self.descriptor, size, 0).split(b"\n")[:-1]:
            name, _, call = line.partition(b" ")
            if name == number:
                found.append(call)
        return [parse(call) for call in found[first:]]  # type: ignore[misc]

    def close(self) -> None:
        """Close the file."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
