"""The user's own glue: a file beside `replay.toml`, used for every revision (`[agent] adapter`).

It may define

- `run_agent`, any shape of entrypoint (see `shapes`), which is called where `entrypoint` is not set;
- `patch(answer)`, which puts `answer` in the place of what calls the agent's tools. `"adapter"` in `tools`
  names it. It is called once, after the agent's module was imported and before the first trial.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from .. import calls, failures, shapes
from . import base

MODULE = "_replaydiff_adapter"
"""The name under which the file is imported, which no module of the user has."""


def load(path: str, digest: str) -> Any:
    """Import an adapter.

    Args:
        path: of its file.
        digest: SHA-256 of its content when the run began.

    Raises:
        shapes.Unusable: it is another one by now, fails, or defines nothing that is used.
    """
    if MODULE in sys.modules:
        return sys.modules[MODULE]
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - importing pathlib takes 8 ms
            file_digest = hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        raise shapes.Unusable(f"the adapter {path} cannot be read: {error.strerror}") from None
    if file_digest != digest:
        raise shapes.Unusable(f"the adapter {path} was changed since the run began; start another run")
    spec: Any = importlib.util.spec_from_file_location(MODULE, path)
    module = sys.modules[MODULE] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except shapes.Unusable:
        raise
    except BaseException as error:
        raise shapes.Unusable(f"the adapter {path} does not load: {failures.sentence(error)}") from None
    if not callable(getattr(module, "run_agent", None)) and not callable(getattr(module, "patch", None)):
        raise shapes.Unusable(f"the adapter {path} defines neither run_agent nor patch(answer)")
    return module


class Adapter(base.Framework):
    """Calls `patch(answer)` of the user's adapter."""

    name = "adapter"
    _is_patched = False

    def check(self) -> None:
        """Accept any: the file is looked at once the agent's module was imported."""

    def renew(self) -> None:
        """Call `patch(answer)`, once.

        Raises:
            shapes.Unusable: there is none, or it fails.
        """
        if self._is_patched:
            return
        module = sys.modules[MODULE]
        patch = getattr(module, "patch", None)
        if not callable(patch):
            raise shapes.Unusable(
                f'`tools` names "adapter", and {module.__file__} defines no patch(answer); define it, or '
                "take it out of `tools`"
            )
        try:
            patch(self._answer)
        except BaseException as error:
            raise shapes.Unusable(
                f"patch(answer) of the adapter {module.__file__} fails: {failures.sentence(error)}"
            ) from None
        self._is_patched = True

    @property
    def names(self) -> list[str]:
        """Return the tools that are answered, which only the adapter knows."""
        return ["every tool that the adapter answers"]

    def _answer(self, name: str, args: Mapping[str, Any], run: Callable[[], Any] | None = None) -> Any:
        """Return the recorded result of a call.

        Args:
            name: of the tool.
            args: of the call.
            run: runs the tool, where it is named in `live` and nothing recorded answers; if it is async, what
                is returned must be awaited.

        Raises:
            RuntimeError: the recorded error.
        """
        answer = self.asking.ask(calls.PatchedCall(name, dict(args), id(run)))
        if not isinstance(answer, calls.Live):
            return answer
        if run is None:
            raise RuntimeError(
                f"{name} is named in `live`, and the adapter gave answer() no function to run it"
            )
        return answer.wait(run) if inspect.iscoroutinefunction(run) else answer.run(run)


ADAPTER = Adapter
