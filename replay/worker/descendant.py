"""A Python process that the agent started: its tools are patched as they are imported, and ask the worker.

At its start little is done: modules are watched. The first one that holds tools loads the rest, fetches the
patch points from the worker and patches them; where that fails, the import fails.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from replaydiff.replay.worker import imports, processes
else:
    imports = sys.modules["_replaydiff_worker_imports"]
    processes = sys.modules["_replaydiff_worker_processes"]

MODULES = (
    "failures", "trampoline", "replies", "shapes", "remote", "calls", "answers", "holders", "kinds",
    "decorators", "places", "remakes", "discovery", "classes", "tables", "tool", "plain", "patch",
)  # fmt: skip
"""What is loaded once the process imports tools, each after what it needs."""


class Descendant:
    """What this process knows of the tools, and of the trial that it belongs to."""

    def __init__(self, text: str) -> None:
        self._names: set[str] = set()
        self._files: set[str] = set()
        self._patches: Any = None
        self._remote: Any = None
        self._needed: set[str] = set()
        """Files whose tools are patched here, or of which there are none."""
        self.trial: int | None = None
        self.descendants = processes.Descendants(
            "", "", (), is_ready=False, trial=self.current_trial, refuse=self.refuse
        )
        self.update(text)

    def update(self, text: str) -> None:
        """Read the settings that the parent process passed on (see `processes.Descendants.text`)."""
        address, secret, state, trial, *modules = text.split("\n")
        known = self.descendants
        known.address, known.secret, known.is_ready = address, secret, state == "ready"
        known.modules = [(name, file) for name, _, file in (line.partition("\t") for line in modules)]
        self.trial = int(trial) if trial else None
        self._names = {name for name, _ in known.modules}
        self._files = {file for _, file in known.modules if file}

    def current_trial(self) -> int | None:
        trial = processes.TRIAL.get()
        return self.trial if trial is None else trial

    def is_ours(self, name: str, file: str) -> bool:
        """Return whether a module contains tools. In a process older than the patches, every agent module
        may."""
        if name in self._names and not (file and self._files and os.path.exists(file)):  # noqa: PTH110
            return True
        if imports.same_text(file, self._files):
            return True
        if self._patches is not None and self._patches.is_ours(name, file):
            return True
        return not self.descendants.is_ready and bool(file) and not imports.is_library(file)

    def patch(self, module: Any) -> None:
        """Patch the tools of a module that was run."""
        if self._patches is None:
            self._patches = self._connected(module)
        self._patches.apply_to(module)

    def need(self, file: str) -> bool:
        """Import the modules of a file, so that their tools are patched; return whether none is missing.

        Functions that come by value (cloudpickle) bring their code, and nothing else imports its module.
        """
        if file in self._needed or not self.descendants.is_ready:
            return True
        self._needed.add(file)
        real = imports.real_path(file)
        for name, known in self.descendants.modules if real in self._files else ():
            if known == real and not self._is_imported(name):
                self._needed.discard(file)
                return False
        return True

    def _is_imported(self, name: str) -> bool:
        from importlib import import_module

        try:
            return import_module(name) is not None
        except ImportError:
            return False

    def _connected(self, module: Any) -> Any:
        for name in MODULES:
            imports.load(name)
        connection = self._connection()
        config = connection.config()
        if config is None:
            raise RuntimeError(
                f"{module.__name__} holds tools, and was imported in a process that was started before the "
                "agent's tools were patched; start processes when the agent runs, not while it is imported"
            )
        tools = sys.modules["_replaydiff_worker_calls"].Elsewhere(connection, self.current_trial)
        patches = sys.modules["_replaydiff_worker_patch"].Patches(
            config["points"],
            tools.ask,
            tools.refuse,
            homes=[tuple(home) for home in config["homes"]],
            modules=config["modules"],
            live=config["live"],
            settled=config["settled"],
            ignore=config["ignore"],
        )
        self.descendants.modules = [tuple(one) for one in config["modules"]]
        self.descendants.is_ready = True
        self.update(self.descendants.text)
        return patches

    def _connection(self) -> Any:
        if self._remote is None:
            known = self.descendants
            self._remote = imports.load("remote").Remote(known.address, known.secret)
        return self._remote

    def refuse(self, reason: str) -> BaseException:
        """Have the trial count for nothing; what is returned may be raised."""
        self._connection().refuse(self.current_trial(), reason)
        return RuntimeError(f"replay refuses this: {reason}")


def begin(text: str) -> None:
    """Watch modules and processes from now on."""
    own = Descendant(text)
    guard = imports.ImportGuard(own.is_ours, own.patch, own.refuse, own.need)
    own.descendants.install()
    processes.carry_trial_into_pools(guard.others, own.descendants, own.update)
