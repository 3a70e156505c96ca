"""A version's side of a run."""

from __future__ import annotations

import re
from typing import ClassVar, Literal, TypeAlias, get_args

from replaydiff.replay.errors import UnknownNameError

Side: TypeAlias = Literal["old", "new"]


class Lane(str):
    """One version's side of a run; `Lane("new", 2)` is the second of several compared with the old one.

    A lane is its own text (`"new2"`), so it is a key of JSON objects and a value of DuckDB columns as it is.

    Args:
        side: "old" for the version in use, "new" for a version under test.
        number: 1 for the first; the second old lane is the A/A lane, the old version run again.

    Raises:
        ValueError: there is no such side, or the number is not in 1 to 9,999.
    """

    __slots__ = ("number", "side")
    OLD: ClassVar[Lane]
    NEW: ClassVar[Lane]
    OLD2: ClassVar[Lane]
    """The A/A lane."""
    side: Side
    number: int

    def __new__(cls, side: Side, number: int = 1) -> Lane:
        if side not in get_args(Side) or not 1 <= number < 10_000:
            raise ValueError(f"there is no lane {side!r} {number}")
        self = super().__new__(cls, side if number == 1 else f"{side}{number}")
        self.side, self.number = side, number
        return self

    def __getnewargs__(self) -> tuple[Side, int]:  # type: ignore[override]
        """Return the arguments that copy and pickle call `__new__` with."""
        return self.side, self.number

    def __repr__(self) -> str:
        return f"Lane({self.side!r}, {self.number})"

    @classmethod
    def parse(cls, text: str) -> Lane:
        """Return the lane written as `text`: `old`, `new`, `old2`, `new2` and so on.

        Raises:
            UnknownNameError: no lane is written so.
        """
        if not (match := _LANE.fullmatch(text)):
            raise UnknownNameError("lane", text, ("old", "new", "old2", "new2", "new3"))
        return cls("old" if match[1] == "old" else "new", int(match[2] or 1))

    @property
    def is_new(self) -> bool:
        """Return whether a version under test runs here, and not the one in use."""
        return self.side == "new"

    @property
    def order(self) -> tuple[int, bool]:
        """Return the sort key that lists lanes as old, new, old2, new2, new3 …"""
        return self.number, self.is_new


Lane.OLD, Lane.NEW, Lane.OLD2 = Lane("old"), Lane("new"), Lane("old", 2)
_LANE = re.compile(r"(old|new)([2-9]|[1-9][0-9]{1,3})?")
