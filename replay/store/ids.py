"""Ids as a person types them: whole, or a beginning that only one has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replaydiff.replay.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def resolve(con: DuckDBPyConnection, table: str, column: str, name: str, kind: str, hint: str) -> str:
    """The full id for an id or its unique beginning of at least six characters.

    Raises:
        UnknownNameError: nothing is called that.
        InputError: several begin with it.
    """
    exact = con.execute(f"SELECT {column} FROM {table} WHERE {column} = ?", [name]).fetchone()
    if exact:
        return str(exact[0])
    if len(name) >= 6:
        matching = f"SELECT {column} FROM {table} WHERE starts_with({column}, ?) ORDER BY 1 LIMIT 4"
        found = [str(row[0]) for row in con.execute(matching, [name]).fetchall()]
        if len(found) == 1:
            return found[0]
        if found:
            some = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
            raise InputError(f"several {kind}s begin with {name!r}: {some}; type more of the id")
    near = f"SELECT {column} FROM {table} ORDER BY jaro_winkler_similarity({column}, ?) DESC, 1 LIMIT 3"
    raise UnknownNameError(kind, name, [str(row[0]) for row in con.execute(near, [name]).fetchall()], hint)
