"""The agent's interpreter, where projects keep it, so that `replay` is installed apart from the agent.

The first of these, where `python` of [agent] names none:

    VIRTUAL_ENV                       the environment that is active
    .venv, venv                       beside the agent, or in a folder above it in its repository
    poetry.lock, Pipfile.lock, …      the environment that this tool names
    CONDA_PREFIX                      the active conda environment, `base` aside
    python3 on PATH                   where `replay` is installed as a tool (uv, pipx); else its own
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FOLDERS = (".venv", "venv", ".conda")
_MANAGERS = {
    "poetry.lock": ("poetry", "env", "info", "--executable"),
    "Pipfile.lock": ("pipenv", "--py"),
    "pdm.lock": ("pdm", "info", "--python"),
}
"""Lock file → the command that prints the interpreter of its environment."""
_WITHIN_S = 20.0
_TOOLS = {"uv-receipt.toml": "uv", "pipx_metadata.json": "pipx"}
"""File in an environment that one of these made for a single tool."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The interpreter of an agent that `python` does not name."""

    path: str | None
    """None: the one that runs `replay`."""
    origin: str
    """Where it was found: `.venv of /home/me/agent`; empty where it was not."""


def installer() -> str | None:
    """Return what installed `replay` as a tool in an environment of its own: `uv`, `pipx`; else None."""
    names = (name for file, name in _TOOLS.items() if Path(sys.prefix, file).exists())
    return next(names, None)


def find_interpreter(folder: Path, *, ask_managers: bool = True) -> Interpreter:
    """Return the interpreter of the agent in a folder. Nothing of the agent is run.

    Args:
        folder: of the agent's modules.
        ask_managers: let poetry, pipenv or pdm say where its environment is.
    """
    for python, origin in _candidates(folder, ask_managers):
        if _is_executable(python):
            # A virtual environment is its link to an interpreter, so the link is not followed.
            is_here = python.parent.parent.resolve() == Path(sys.prefix).resolve()
            return Interpreter(None if is_here else str(python), origin)
    return Interpreter(None, "")


def _candidates(folder: Path, ask_managers: bool) -> Iterator[tuple[Path, str]]:
    folders = [*_up_to_repository(folder.absolute())]
    if active := os.environ.get("VIRTUAL_ENV"):
        yield Path(active, "bin", "python"), f"VIRTUAL_ENV {active}"
    for parent in folders:
        for name in _FOLDERS:
            environment = parent / name
            if (environment / "pyvenv.cfg").is_file() or (environment / "conda-meta").is_dir():
                yield environment / "bin" / "python", f"{name} of {parent}"
    for parent in folders if ask_managers else ():
        for lock, command in _MANAGERS.items():
            if (parent / lock).is_file() and (printed := _output(command, parent)):
                yield Path(printed), f"{command[0]} in {parent}"
    conda = os.environ.get("CONDA_PREFIX")
    if conda and os.environ.get("CONDA_DEFAULT_ENV") != "base":
        yield Path(conda, "bin", "python"), f"CONDA_PREFIX {conda}"
    if installer() is not None:
        for name in ("python3", "python"):
            if on_path := shutil.which(name):
                yield Path(on_path), f"{name} on PATH"


def _up_to_repository(folder: Path) -> Iterator[Path]:
    """Yield a folder and those above it in its repository; without a repository the folder alone."""
    parents = [folder, *folder.parents]
    top = next((number for number, parent in enumerate(parents) if (parent / ".git").exists()), 0)
    yield from parents[: top + 1]


def _output(command: tuple[str, ...], folder: Path) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = result.stdout.split()
    return lines[-1] if result.returncode == 0 and lines else None


def _is_executable(python: Path) -> bool:
    return python.is_file() and os.access(python, os.X_OK)
