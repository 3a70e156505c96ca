"""DuckDB's driver: `duckdb` without its relational API, which is not used here and takes long to import.

The classes and functions are the same objects as those of the package `duckdb`, which is built of them. Only
objects that are given to DuckDB as tables (`register`) need the package, which shows the driver how to read
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["duckdb", "read_registered"]

if TYPE_CHECKING:
    import duckdb
else:
    try:
        import _duckdb as duckdb
    except ImportError:
        # It is no public name, so a later release may have another.
        import duckdb


def read_registered() -> None:
    """Have the driver read the objects that are given to it as tables."""
    import duckdb  # noqa: F401 - it is imported for that effect
