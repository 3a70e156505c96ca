"""Which tokens of a case stand for something that redaction took out, so that its readers can tell."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from replaydiff.replay.golden import case_to_json
from replaydiff.replay.model import Case

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

KEY = "redacted"
"""Of a case's metadata: token → kind of what it stands for."""
_TOKEN = re.compile(r"\[([A-Z][A-Z0-9_]*)_(\d+)\]")


def with_redactions(con: DuckDBPyConnection, case: Case) -> Case:
    """The case with the tokens that it holds in its metadata; as it was where it holds none.

    Only tokens that this store has given out count. The values are nowhere: the store has only their hashes.
    """
    found = set(_TOKEN.findall(json.dumps(case_to_json(case), ensure_ascii=False)))
    if not found:
        return case
    given = {
        (str(kind), str(number))
        for kind, number in con.execute("SELECT kind, number FROM redactions").fetchall()
    }
    tokens = {f"[{kind}_{number}]": kind for kind, number in sorted(found & given)}
    if not tokens:
        return case
    provenance = replace(case.provenance, extra={**case.provenance.extra, KEY: dict(tokens)})
    return replace(case, provenance=provenance)
