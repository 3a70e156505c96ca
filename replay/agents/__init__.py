"""Agent adapters: how a version is run.

Is it Python we import? Then it needs no adapter: one function in `replay/worker/shapes.py` recognises
the target, calls it and reads its answer. Is it something we talk to? Then it is a class that fits
`replay.agents.base.Agent`: one module here and one line in `_BUILT_IN`, or an entry point of another
distribution (docs/extending/agents.md).
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

from replaydiff.replay.agents.base import Agent, AgentAdapter, Outcome, Rules
from replaydiff.replay.errors import UnknownNameError, VersionError
from replaydiff.replay.model import Version, VersionKind

__all__ = ["Agent", "AgentAdapter", "Outcome", "Rules", "build"]

GROUP = "replaydiff.agents"
"""Entry points of this group are adapters of other distributions, used by versions with that `kind`."""
_BUILT_IN = {
    VersionKind.PYTHON: ("python", "PythonAgent"),
    VersionKind.NODE: ("node", "NodeAgent"),
    VersionKind.HTTP: ("http", "HttpAgent"),
    VersionKind.COMMAND: ("command", "CommandAgent"),
    VersionKind.MESSAGES: ("messages", "MessagesAgent"),
}
"""Kind of version → the module here and the class of its adapter."""


def build(version: Version, rules: Rules) -> Agent:
    """Return the agent of a version, not started yet.

    Raises:
        VersionError: the version is of a kind that is not run, or the kernel refuses its boundary.
    """
    rules = replace(rules, patched=bool(version.tools))
    if version.kind is VersionKind.ADAPTER:
        return _adapter(version)(version, rules)
    if version.kind not in _BUILT_IN:
        raise VersionError(f"version {version.name!r} is {version.kind}: nothing is run for it")
    module, name = _BUILT_IN[version.kind]
    adapter: AgentAdapter = getattr(import_module(f"{__name__}.{module}"), name)
    return adapter(version, rules)


def _adapter(version: Version) -> AgentAdapter:
    """Return the adapter of another distribution.

    Raises:
        UnknownNameError: none of that name is installed.
        VersionError: it cannot be loaded.
    """
    from importlib.metadata import entry_points

    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    name = version.adapter_name or ""
    if name not in entries:
        hint = "kind names an agent adapter that a distribution installs; see docs/extending/agents.md"
        raise UnknownNameError("agent adapter", name, entries, hint)
    try:
        adapter: Any = entries[name].load()
    except Exception as error:  # noqa: BLE001 - another distribution's code may raise anything
        raise VersionError(
            f"the agent adapter {name!r} of version {version.name!r} cannot be loaded: "
            f"{type(error).__name__}: {error}"
        ) from None
    if not callable(adapter):
        raise VersionError(
            f"the agent adapter {name!r} is {type(adapter).__name__}; it must be a class or a function that "
            "takes a version and the rules"
        )
    return adapter  # type: ignore[no-any-return]
