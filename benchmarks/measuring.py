"""What benchmarks measure with: wall clock and processor time, memory, and how busy the machine was."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BUSY = 0.5
"""Runnable processes of others, per core, from which a figure is marked."""
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""That of measured processes: without byte code on the disk each would compile what it imports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one process took, with all that it started and waited for."""

    wall_s: float
    cpu_s: float
    memory_mb: float
    """The most that the process itself held, or whoever started it: keep that one small."""
    output: str


def run(
    command: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Cost:
    """Run a fresh process and return what it took.

    Args:
        command: program and arguments.
        cwd: the folder in which it runs.
        env: beside the environment.

    Raises:
        CalledProcessError: it failed.
    """
    began = time.perf_counter()
    with subprocess.Popen(
        list(map(str, command)),
        cwd=cwd,
        env={**ENVIRONMENT, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(map(str, command)), output)
    return Cost(
        wall_s=wall, cpu_s=used.ru_utime + used.ru_stime, memory_mb=used.ru_maxrss / 1024, output=output
    )


def processor_s() -> float:
    """Return the processor seconds of this process and of those that it has waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def others() -> float:
    """Return how many processes run or wait for a processor, this one aside, on the average of a second."""
    looks = []
    for _ in range(20):
        # The fourth field of /proc/loadavg is `runnable/all`; the averages before it go back a minute.
        running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
        looks.append(max(0, running - 1))
        time.sleep(0.05)
    return sum(looks) / len(looks)


def is_busy(before: float, after: float) -> bool:
    """Return whether other work took so much of the machine that the figures between are to be marked."""
    return max(before, after) > BUSY * (os.cpu_count() or 1)


def machine() -> str:
    """Return what this machine is, in a line."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GB, {platform.system()}, Python {platform.python_version()}"
