"""One case of a file, before anyone asked whether it is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replaydiff.replay.errors import InputError


class FormError(InputError):
    """A text is not of the form it should be; `line` is where, from 1."""

    def __init__(self, said: str, line: int = 1) -> None:
        """The text does not name the line: whoever knows the file puts both in front."""
        super().__init__(said)
        self.line = line


@dataclass(frozen=True, slots=True)
class Piece:
    """Where a case stands in the text of its file."""

    line: int
    """Of the file, from 1, where it begins."""
    start: int
    """Of the text that is the case's own, as an index into the file's text; its own comments included."""
    end: int
    """Where what is not its own begins."""
    record: Any
    """What was read there, or the `InputError` that says why nothing could be."""

    @property
    def broken(self) -> bool:
        """Whether nothing could be read."""
        return isinstance(self.record, InputError)
