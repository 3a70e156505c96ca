"""Whole lines of a file, which the process that needs them splits."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from replaydiff.replay.errors import UnavailableError


class JsonBlock(Sequence[tuple[int, bytes]]):
    """Lines of a file, each with its number, without those that are blank.

    Of a line that is too large it has the beginning, by which it is known. Another process is given the range
    of bytes alone, and reads it from the file; the bytes themselves where no file has them unpacked.
    """

    __slots__ = ("_data", "_lines", "line", "place", "size")

    def __init__(
        self, line: int, data: bytes | None, size: int = 0, place: tuple[str, int] | None = None
    ) -> None:
        """Take some lines.

        Args:
            line: 1-based number of the first.
            data: the lines; None for those of a file that are still to be read.
            size: how many bytes they are, where they are still to be read.
            place: the file's path, and the byte of it at which they begin; None where it has them packed.
        """
        self.line, self.place = line, place
        self.size = size if data is None else len(data)
        self._data = data
        self._lines: list[tuple[int, bytes]] | None = None

    @property
    def data(self) -> bytes:
        """The bytes.

        Raises:
            UnavailableError: the file is not there any more, or it is shorter.
        """
        if self._data is None:
            assert self.place is not None  # noqa: S101 - as for every block that is still to be read
            self._data = _read(*self.place, self.size)
        return self._data

    @property
    def last_line(self) -> int:
        """The number of the last line that is not blank."""
        return self.line + self.data.rstrip().count(b"\n")

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield number and text of each line."""
        return iter(self._split())

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self._split())

    @overload
    def __getitem__(self, at: int) -> tuple[int, bytes]: ...
    @overload
    def __getitem__(self, at: slice) -> list[tuple[int, bytes]]: ...
    def __getitem__(self, at: int | slice) -> tuple[int, bytes] | list[tuple[int, bytes]]:
        """Return a line with its number."""
        return self._split()[at]

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what another process makes the same of."""
        return JsonBlock, (self.line, self.data if self.place is None else None, self.size, self.place)

    def _split(self) -> list[tuple[int, bytes]]:
        if self._lines is None:
            self._lines = []
            for number, line in enumerate(self.data.split(b"\n"), self.line):
                text = line.strip()
                if number == 1:
                    text = text.removeprefix(codecs.BOM_UTF8)
                if text:
                    self._lines.append((number, text))
        return self._lines


def _read(path: str, start: int, size: int) -> bytes:
    try:
        with Path(path).open("rb") as file:
            file.seek(start)
            data = file.read(size)
    except OSError:
        data = b""
    if len(data) < size:
        raise UnavailableError(
            f"{path} was moved or cut while it was read; what was written is kept", hint="import it again"
        )
    return data
