"""Dataclasses that only the type checker keeps frozen.

An import makes some forty values for each trace, a diff some ten for each trial. The constructor of a frozen
dataclass sets each field through `object.__setattr__`, which takes two to four times as long as a plain one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["light_dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass as light_dataclass
else:
    from dataclasses import dataclass

    def light_dataclass(*, frozen, **options):  # noqa: ARG001 - typed as `dataclass`
        """Make a `dataclass` for values that nothing changes, and of which there are very many.

        Args:
            frozen: always true: what the type checker goes by. Nothing checks it at run time.
            options: the other options of `dataclass`.
        """
        return dataclass(unsafe_hash=True, **options)
