"""What ends a command with which code and line: the table of docs/ci.md, and how tests hold the command to it.

Each situation is provoked by a test, which passes what it saw to `check_exit`. `tests/docs/test_exit_codes.py`
holds that no situation is without one.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Situation(NamedTuple):
    """How a command ends."""

    code: int
    when: str
    line: str
    """A line that it prints; `…` is any text."""


SITUATIONS = {
    "gate passed": Situation(0, "the gate passed", "… held"),
    "gate failed": Situation(1, "the gate failed", "… did not hold"),
    "unknown name": Situation(
        2,
        "a name does not exist",
        "error: there is no sample 'octobr'; did you mean 'october'? …",
    ),
    "does not start": Situation(2, "the agent does not start", "error: version '.' does not start: …"),
    "no key": Situation(2, "a key is not set", "error: …ANTHROPIC_API_KEY…"),
    "version changed": Situation(
        2,
        "the code changed since the run that is resumed began",
        "error: version '.' is not what run … began with: …; put it back, start a new run, or replay the rest as "
        "it is now with --accept-changes",
    ),
    "not trusted": Situation(
        2,
        "the folder's own functions would run, and it is not trusted",
        "error: …; read it, then run `replay trust …` or set REPLAY_TRUST=1",
    ),
    "damaged store": Situation(
        2,
        "the store lacks a table, holds a value that nothing writes",
        "error: the store is damaged: …; restore it from a copy, or move it away and import again …",
    ),
    "newer store": Situation(
        2,
        "the store was written by a newer replaydiff",
        "error: the store … has schema version …, and replaydiff … knows versions up to …; install a newer "
        "replaydiff",
    ),
    "rejected records": Situation(3, "an import rejected some records", "… records rejected, the first at …"),
    "failed trials": Situation(3, "trials ended in an error", "  new … timeout: no answer within … seconds"),
    "budget spent": Situation(
        3,
        "a budget left trials unstarted",
        "the budget of $… has no room for more ($… is spent): … trials did not start; continue with "
        "`replay run --resume … --budget USD`",
    ),
    "failed votes": Situation(
        3,
        "votes of the judge failed",
        "the judge failed on some trials (…); `replay run --resume …` continues with the judge",
    ),
    "undecided gate": Situation(4, "the gate cannot be decided", "… cannot be decided"),
    "bug": Situation(
        70,
        "a bug in replaydiff",
        "error: a bug in replaydiff (…), the details are in …; please report it with that file; …",
    ),
    "store in use": Situation(
        75,
        "another process writes to the store",
        "error: the store … is in use by process …; wait until it has ended, or wait longer with --set store.wait=60",
    ),
    "full disk in a run": Situation(
        75,
        "the disk is full during a run",
        "error: …; no finished trial is lost; correct that, then `replay run --resume …`",
    ),
    "full disk": Situation(
        75,
        "the disk is full in any other command",
        "error: the store could not be written (…); what was committed before is kept; make room, …",
    ),
    "provider down": Situation(
        75,
        "every trial fails in the same way: the model's provider does not answer",
        "error: …once it is up again: `replay run --resume … --retry infra_error`",
    ),
    "long wait": Situation(
        75,
        "the provider asks to wait for more than five minutes",
        "error: the provider of the model asks to wait … minutes before the next call; continue then with `replay "
        "run --resume …`",
    ),
    "judge down": Situation(
        75,
        "the judge's provider does not answer, or something else does in its stead (a proxy's page)",
        "error: the judge was stopped: 12 of its votes in a row failed for the provider or the network (the "
        "model's API at … answered HTML with status 200 in place of JSON (7 tries)); what it has graded is kept",
    ),
    "key revoked": Situation(
        75,
        "a key is refused in the middle of the work",
        "error: the model's API does not accept the key (…); set ANTHROPIC_API_KEY to a valid one",
    ),
    "no cluster": Situation(
        75, "no Ray cluster answers", "error: no Ray cluster can be reached at …; start one …"
    ),
    "cluster lost": Situation(
        75,
        "the Ray cluster is lost during a run",
        "error: the Ray cluster at … does not answer any more; everything that finished is kept; start it again, "
        "then continue with `replay run --resume`",
    ),
    "interrupted": Situation(
        130,
        "Ctrl-C, SIGTERM or SIGHUP in a run",
        "interrupted; what had finished is kept: continue with `replay run --resume …`",
    ),
    "interrupted early": Situation(
        130,
        "the same before the first trial",
        "interrupted before anything was replayed; nothing was stored",
    ),
}


def check_exit(name: str, code: int, printed: str) -> None:
    """Assert that a command ended as the table says.

    Args:
        name: of the situation.
        code: that the command ended with.
        printed: all that it wrote.
    """
    situation = SITUATIONS[name]
    assert code == situation.code, printed
    pattern = ".*".join(map(re.escape, situation.line.split("…")))
    assert any(re.fullmatch(pattern, line) for line in printed.splitlines()), printed
