"""From the versions of a run to agents that run: one a version, under the rules that the run keeps.

The rules decide outcomes, so a run stores them and is resumed under them, whatever the settings say by then.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from replaydiff.replay.agents import Agent, build
from replaydiff.replay.agents.network import model_hosts
from replaydiff.replay.agents.simulate import ModelSimulator
from replaydiff.replay.engine.corpus import StoreCorpus
from replaydiff.replay.errors import SettingsError
from replaydiff.replay.gateway.proxy import Gateway
from replaydiff.replay.model import JsonObject, Lane, Mode, RunRecord, Version, VersionKind
from replaydiff.replay.settings import Settings, ToolSection

LISTED_TOOLS = 12
"""How many tools are named in a run's inventory."""


def rules_of(settings: Settings) -> JsonObject:
    """What decides outcomes.

    Raises:
        SettingsError: a tool that writes may not run, or nobody is named who plays tools.
    """
    section = settings.run
    for name in settings.agent.live:
        tool = settings.tools.get(name)
        if tool is not None and tool.effect == "write":
            raise SettingsError(
                f'the tool {name} has effect = "write" and is named in `live`: what writes never runs during '
                "a replay; take it out of one of them"
            )
    if section.on_miss == "simulate" and settings.simulate.model is None:
        raise SettingsError(
            'on_miss = "simulate" has a model play the tools; name it as `model` in [simulate] of '
            f"{settings.file or 'replay.toml'}"
        )
    if section.memory_mb is not None and sys.platform != "linux":
        raise SettingsError("memory_mb needs Linux, where it can be seen what a process holds; leave it out")
    return {
        "timeout": section.timeout,
        "on_miss": section.on_miss,
        "ignore_args": list(settings.agent.ignore_args),
        "tools": {
            name: {"effect": tool.effect, "ignore_args": list(tool.ignore_args)}
            for name, tool in settings.tools.items()
        },
        "live": list(settings.agent.live),
        "corpus": section.corpus,
        "memory_mb": section.memory_mb,
        "network": list(settings.agent.network) if section.no_network else None,
        "simulate": settings.simulate.model if section.on_miss == "simulate" else None,
        "record": section.record,
        "replay_model": section.replay_model,
    }


@dataclass(slots=True)
class Crew:
    """The agents of a run, and what answers their tools besides the tape."""

    agents: dict[Lane, Agent]
    lanes: dict[Lane, Version]
    """The run's versions, with the packages their agents reported."""
    corpus: StoreCorpus
    simulator: ModelSimulator | None
    gateway: Gateway | None = None
    """Between the agents and their models, where they are recorded or answered from a recording."""
    live: tuple[str, ...] = ()
    """Tools that may run."""
    notes: Sequence[str] = ()
    """What a person should be told of them."""

    async def close(self) -> None:
        """End all that was started. May be called at any time."""
        await asyncio.gather(*(agent.close() for agent in self.agents.values()))
        if self.simulator is not None:
            await self.simulator.close()
        if self.gateway is not None:
            await self.gateway.close()


def crew_of(run: RunRecord, settings: Settings, rules: JsonObject) -> Crew:
    """The agents of a run's lanes, not started yet: lanes of the same version share one."""
    corpus = StoreCorpus()
    simulator = None
    if model := _rule(rules, "simulate"):
        simulator = ModelSimulator(replace(settings.simulate, model=model), settings.prices)
    gateway = None
    if _rule(rules, "record") or _rule(rules, "replay_model"):
        gateway = Gateway(run.id, settings.prices, recording=_rule(rules, "replay_model"))
    named = _rule(rules, "network")
    distinct: list[tuple[Version, Agent]] = []
    agents: dict[Lane, Agent] = {}
    for lane, version in run.lanes.items():
        if version.kind is VersionKind.OBSERVED:
            continue
        agent = next((agent for known, agent in distinct if known == version), None)
        if agent is None:
            agent = build(
                version,
                timeout_s=_rule(rules, "timeout"),
                concurrency=settings.run.concurrency,
                on_miss=_rule(rules, "on_miss"),
                ignore_args=_rule(rules, "ignore_args"),
                tools=msgspec.convert(_rule(rules, "tools"), dict[str, ToolSection]),
                live=_rule(rules, "live") or (),
                corpus=corpus if _rule(rules, "corpus") else None,
                simulator=simulator,
                network=None if named is None else model_hosts(named, {**os.environ, **version.env}),
                memory_mb=_rule(rules, "memory_mb"),
                prices=settings.prices,
                single=run.mode is Mode.STEP,
                gateway=gateway,
            )
            distinct.append((version, agent))
        agents[lane] = agent
    return Crew(
        agents=agents,
        lanes=dict(run.lanes),
        corpus=corpus,
        simulator=simulator,
        gateway=gateway,
        live=tuple(_rule(rules, "live") or ()),
    )


async def start_crew(crew: Crew) -> None:
    """Start the agents, and find out what they are made of.

    Raises:
        VersionError: one of them can never run.
        CredentialsError: one of them has no key.
    """
    if crew.simulator is not None:
        crew.simulator.check()
    if crew.gateway is not None:
        await crew.gateway.start()
    distinct = {id(agent): agent for agent in crew.agents.values()}
    results = await asyncio.gather(*(agent.start() for agent in distinct.values()), return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    if failures:
        raise failures[0]
    notes = []
    for lane, agent in crew.agents.items():
        before, now = crew.lanes[lane].packages, agent.describe()
        other = sorted(name for name in before | now if before.get(name) != now.get(name))
        if before and other:
            notes.append(f"note: lane {lane} has other packages than when the run began: {', '.join(other)}")
        crew.lanes[lane] = replace(crew.lanes[lane], packages=now)
    crew.notes = [*_inventory(crew.agents), *notes]


def _inventory(agents: Mapping[Lane, Agent]) -> list[str]:
    """Return a line that lists the tools of each version in Python; lanes with the same tools share it."""
    from replaydiff.replay.agents.python import PythonAgent

    lanes: dict[tuple[str, ...], list[Lane]] = {}
    for lane, agent in agents.items():
        if isinstance(agent, PythonAgent) and agent.tools:
            lanes.setdefault(agent.tools, []).append(lane)
    lines = []
    for tools, sharing in lanes.items():
        listed = ", ".join(tools[:LISTED_TOOLS]) + (", …" if len(tools) > LISTED_TOOLS else "")
        verb = "tool is" if len(tools) == 1 else "tools are"
        whose = "" if len(lanes) == 1 else f"{' and '.join(map(str, sharing))}: "
        lines.append(f"{whose}{len(tools)} {verb} answered from recordings: {listed}")
    return lines


def _rule(rules: Mapping[str, Any], name: str) -> Any:
    # A run of an earlier version of replay has no word on the younger rules.
    return rules.get(name)
