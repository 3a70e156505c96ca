"""The socket over which processes that an agent started reach its worker."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

from replaydiff.replay.worker import imports


def test_a_process_goes_on_once_the_worker_knows_that_it_was_refused() -> None:
    for name in ("failures", "processes", "replies", "remote", "calls", "broker"):
        imports.load(name)
    remote, broker = (sys.modules[f"_replaydiff_worker_{name}"] for name in ("remote", "broker"))
    refused: list[tuple[str, int]] = []

    def refuse(reason: str, trial: int) -> None:
        # The thread that serves the process may have to wait for the others of a busy worker.
        time.sleep(0.2)
        refused.append((reason, trial))

    serving = broker.Broker(SimpleNamespace(refuse=refuse), dict)
    remote.Remote(serving.address, serving.secret).refuse(7, "isolated Python")
    assert refused == [("isolated Python", 7)]
