"""Agent adapters: how a version is run.

Is it Python we import? Then it needs no adapter: one function in `replay/worker/shapes.py` recognises
the target, calls it and reads its answer. Is it something we talk to? Then it is one module here with a
class that fits `replay.agents.base.Agent`, and one line in `build`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from replaydiff.replay.agents.base import Agent, Outcome
from replaydiff.replay.agents.rules import Corpus, Gateway, OnMiss, Rules, Simulator
from replaydiff.replay.errors import VersionError
from replaydiff.replay.model import Version, VersionKind
from replaydiff.replay.settings import Price, ToolSection

__all__ = ["Agent", "Outcome", "build"]


def build(
    version: Version,
    *,
    timeout_s: float,
    concurrency: int,
    on_miss: OnMiss = "stop",
    ignore_args: Collection[str] = (),
    tools: Mapping[str, ToolSection] | None = None,
    live: Collection[str] = (),
    corpus: Corpus | None = None,
    simulator: Simulator | None = None,
    network: Collection[str] | None = None,
    memory_mb: float | None = None,
    prices: Mapping[str, Price] | None = None,
    single: bool = False,
    gateway: Gateway | None = None,
) -> Agent:
    """The agent of a version, not started yet.

    Args:
        version: what to run, with everything resolved.
        timeout_s: seconds that one trial may take.
        concurrency: the most trials that will be in flight at once.
        on_miss: whether a call that nothing can answer stops the trial, or gives the agent an error.
        ignore_args: arguments that never count in matching a call with the tape.
        tools: what the settings say about single tools.
        live: tools that may run.
        corpus: the recordings of other traces, where they may answer.
        simulator: a model that plays tools, where one may.
        network: the only hosts that the agent may connect to; None: any.
        memory_mb: what one of its processes and its children may hold; None for any.
        prices: the user's own prices, for a version whose model is asked here.
        single: ask a `messages` version for its next action alone (step mode).
        gateway: what the agent asks its models through.

    Raises:
        VersionError: the version is of a kind that is not run.
    """
    tools = tools or {}
    rules = Rules(
        timeout_s=timeout_s,
        on_miss=on_miss,
        ignore_args=ignore_args,
        ignore_by_tool={name: tool.ignore_args for name, tool in tools.items() if tool.ignore_args},
        effects={name: tool.effect for name, tool in tools.items() if tool.effect is not None},
        live=live,
        corpus=corpus,
        simulator=simulator,
        network=network,
        memory_mb=memory_mb,
        gateway=gateway,
        patched=bool(version.tools),
    )
    if network is not None and version.kind in (VersionKind.HTTP, VersionKind.COMMAND):
        raise VersionError(
            f"version {version.name!r} is no Python entrypoint, and --no-network can hold nothing else; "
            "leave it out, or close the network around that agent yourself"
        )
    if version.kind is VersionKind.PYTHON:
        from replaydiff.replay.agents.python import PythonAgent

        return PythonAgent(version, rules, concurrency=concurrency)
    if version.kind is VersionKind.HTTP:
        from replaydiff.replay.agents.http import HttpAgent

        return HttpAgent(version, rules)
    if version.kind is VersionKind.COMMAND:
        from replaydiff.replay.agents.command import CommandAgent

        return CommandAgent(version, rules, concurrency=concurrency)
    if version.kind is VersionKind.MESSAGES:
        from replaydiff.replay.agents.messages import MessagesAgent

        return MessagesAgent(version, rules, prices=prices or {}, single=single)
    raise VersionError(f"version {version.name!r} is {version.kind}: nothing is run for it")
