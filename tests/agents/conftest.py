import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def nothing_left_behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every process that a test's workers started is gone when the test is."""
    token = f"{os.getpid()}-{time.monotonic_ns()}"
    monkeypatch.setenv("REPLAY_TEST_TOKEN", token)
    yield
    assert processes_with(f"REPLAY_TEST_TOKEN={token}") == []


def processes_with(variable: str) -> list[int]:
    """Processes that were started with this in their environment."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if variable.encode() in environ.read_bytes().split(b"\0"):
                found.append(int(environ.parent.name))
        except OSError:
            continue
    return found
