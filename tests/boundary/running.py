"""Run a program behind a boundary of a kind, as the engine does."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from replaydiff.replay.agents.base import Rules
from replaydiff.replay.agents.boundary import KINDS, boundary_of, refusal_of
from replaydiff.replay.engine.agents import BOUNDARY_SUMMARY, NO_BOUNDARY

AVAILABLE = [kind for kind in KINDS if refusal_of(kind) is None]
BOUNDARY_LINE = f"boundary: {AVAILABLE[0]}; {BOUNDARY_SUMMARY}\n" if AVAILABLE else NO_BOUNDARY
"""What a run prints of the strongest boundary that this system builds."""
NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"
PATIENCE_S = 60


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    code: int
    out: str
    err: str
    refused: tuple[str, ...]


def run(
    kind: str,
    argv: Sequence[str],
    folder: Path,
    *,
    network: Sequence[str] = (),
    writable: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    user: int | None = None,
    before: Sequence[str] = (),
) -> Ended:
    """Run a program to its end.

    Args:
        kind: of the boundary.
        argv: program and arguments.
        folder: where it runs, and may write.
        network: as in [world].
        writable: as in [world].
        environment: beside this process's own.
        user: whose process it is; None: this user's.
        before: a command that starts the boundary's command.
    """

    async def confined() -> Ended:
        rules = Rules(timeout_s=1, boundary=kind, network=network, writable=writable)
        boundary = boundary_of(rules, environment or {})
        assert boundary is not None
        confinement = boundary.confine(str(folder))
        await confinement.prepare()
        command = confinement.wrap(argv)
        if user is not None:
            # That of the tests may be where only its owner gets to.
            command[0] = SYSTEM_PYTHON
        process = subprocess.Popen(
            [*before, *command],
            cwd=folder,
            env={**os.environ, **(environment or {}), **confinement.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[confinement.descriptor],
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
        try:
            await confinement.open()
            out, err = await asyncio.to_thread(process.communicate, timeout=PATIENCE_S)
        finally:
            process.kill()
            confinement.close()
        return Ended(
            process.returncode, out, err, tuple(refusal.destination for refusal in confinement.refused)
        )

    return asyncio.run(confined())
