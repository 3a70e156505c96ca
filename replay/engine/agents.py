"""From the versions of a run to agents that run: one a version, under the rules that the run keeps.

The rules decide outcomes, so a run stores them and is resumed under them, whatever the settings say by then.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from replaydiff.replay.agents import Agent, Rules, build
from replaydiff.replay.agents.base import ANY_TOOL
from replaydiff.replay.agents.simulate import ModelSimulator
from replaydiff.replay.engine.corpus import StoreCorpus
from replaydiff.replay.errors import SettingsError
from replaydiff.replay.gateway.proxy import ModelProxy
from replaydiff.replay.model import Lane, Mode, RunRecord, Version, VersionKind
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import result_forms
from replaydiff.replay.tape import unclear_results

PROVIDERS = (
    "api.anthropic.com",
    "api.openai.com",
    "*.openai.azure.com",
    "*.services.ai.azure.com",
    "generativelanguage.googleapis.com",
    "aiplatform.googleapis.com",
    "*-aiplatform.googleapis.com",
    "oauth2.googleapis.com",
    "bedrock-runtime.*.amazonaws.com",
    "api.mistral.ai",
    "api.cohere.com",
    "api.groq.com",
    "api.together.xyz",
    "api.fireworks.ai",
    "api.deepseek.com",
    "api.x.ai",
    "openrouter.ai",
)
"""Hosts that answer for models; `*` is any text without a dot."""
BASES = (
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_VERTEX_BASE_URL",
    "AZURE_OPENAI_ENDPOINT",
    "GOOGLE_GEMINI_BASE_URL",
    "LITELLM_PROXY_API_BASE",
    "OLLAMA_HOST",
    "OPENAI_API_BASE",
    "OPENAI_BASE_URL",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
)
"""Environment variables that name another place for them, or the proxy they are behind."""


def model_hosts(named: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """What an agent may reach with `--no-network`.

    Args:
        named: the hosts of `[agent] network`.
        environment: whose base URLs of providers and proxies are followed.
    """
    found = [*PROVIDERS, *named]
    for name, value in environment.items():
        if name.upper() in BASES:
            try:
                host = urlsplit(value if "//" in value else f"//{value}").hostname
            except ValueError:
                continue
            if host:
                found.append(host)
    return sorted(set(found))


LISTED_TOOLS = 12
"""How many tools are named in a run's inventory."""


def rules_of(settings: Settings) -> Rules:
    """Return the trial rules of a run with these settings.

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
    if section.sandbox and sys.platform != "linux":
        raise SettingsError("--sandbox needs Linux and its namespaces; leave it out and use --no-network")
    if section.sandbox and settings.agent.network:
        raise SettingsError(
            "--sandbox leaves the model gateway as the only way out, and `network` in [agent] names other "
            "hosts; take them out, or use --no-network instead"
        )
    return Rules(
        timeout_s=section.timeout,
        on_miss=section.on_miss,
        ignore_args=settings.agent.ignore_args,
        tools=settings.tools,
        live=settings.agent.live,
        from_corpus=section.corpus,
        memory_mb=section.memory_mb,
        # Within the boundary, a refusal by Python's own sockets says which trial tried to leave it.
        network=settings.agent.network if section.no_network or section.sandbox else None,
        sandbox=section.sandbox,
        simulate=settings.simulate.model if section.on_miss == "simulate" else None,
        record=section.record,
        replay_model=section.replay_model,
    )


def with_results(rules: Rules, store: Path) -> Rules:
    """Return the rules with what the store's recordings show of the results of tools."""
    if not store.exists():
        return rules
    with open_store(store, read_only=True) as con:
        forms = result_forms(con)
    open_forms = [one for one in forms if one.name not in rules.tools or rules.tools[one.name].result is None]
    return replace(
        rules,
        results={one.name: one.form for one in open_forms if one.form},
        ambiguous=tuple(one.name for one in open_forms if one.form is None),
    )


@dataclass(slots=True)
class LaneAgents:
    """The agents of a run, and what answers their tools besides the tape."""

    agents: dict[Lane, Agent]
    lanes: dict[Lane, Version]
    """The run's versions, with the packages their agents reported."""
    rules: Rules
    corpus: StoreCorpus
    simulator: ModelSimulator | None
    gateway: ModelProxy | None = None
    """Between the agents and their models: it records, answers from a recording, or is all they can reach."""
    notes: Sequence[str] = ()
    """What a person should know about them."""

    async def close(self) -> None:
        """End all that was started. May be called at any time."""
        await asyncio.gather(*(agent.close() for agent in self.agents.values()))
        if self.simulator is not None:
            await self.simulator.close()
        if self.gateway is not None:
            await self.gateway.close()


def build_agents(run: RunRecord, settings: Settings, rules: Rules) -> LaneAgents:
    """Return the agents of a run's lanes, not started yet; each lane has its own."""
    corpus = StoreCorpus(rules.renames)
    simulator = gateway = None
    if rules.simulate:
        simulator = ModelSimulator(replace(settings.simulate, model=rules.simulate), settings.prices)
    keeps = rules.record or rules.replay_model is not None
    if keeps or rules.sandbox:
        gateway = ModelProxy(run.id, settings.prices, recording=rules.replay_model, keeps=keeps)
    rules = replace(
        rules,
        concurrency=settings.run.concurrency,
        single=run.mode is Mode.STEP,
        prices=settings.prices,
        corpus=corpus if rules.from_corpus else None,
        simulator=simulator,
        gateway=gateway,
    )
    agents: dict[Lane, Agent] = {}
    for lane, version in run.lanes.items():
        if version.kind is VersionKind.OBSERVED:
            continue
        hosts = None
        if rules.sandbox:
            hosts = []
        elif rules.network is not None:
            hosts = model_hosts(rules.network, {**os.environ, **version.env})
        # Lanes of one version share no process: what one keeps (a cache, a seed) must show between them.
        agents[lane] = build(version, replace(rules, network=hosts))
    return LaneAgents(
        agents=agents,
        lanes=dict(run.lanes),
        rules=rules,
        corpus=corpus,
        simulator=simulator,
        gateway=gateway,
    )


async def start_agents(lane_agents: LaneAgents) -> None:
    """Start the agents, and find out what they are made of.

    Raises:
        VersionError: one of them can never run.
        CredentialsError: one of them has no key.
    """
    if lane_agents.simulator is not None:
        lane_agents.simulator.check()
    if lane_agents.gateway is not None:
        await lane_agents.gateway.start()
    starts = (agent.start() for agent in lane_agents.agents.values())
    results = await asyncio.gather(*starts, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    if failures:
        raise failures[0]
    notes = []
    for lane, agent in lane_agents.agents.items():
        before, now = lane_agents.lanes[lane].packages, agent.describe()
        other = sorted(name for name in before | now if before.get(name) != now.get(name))
        if before and other:
            notes.append(f"note: lane {lane} has other packages than when the run began: {', '.join(other)}")
        lane_agents.lanes[lane] = replace(lane_agents.lanes[lane], packages=now)
    unclear = _unclear_results(lane_agents)
    lane_agents.notes = [*_inventory(lane_agents.agents), *notes, *unclear]


def _unclear_results(lane_agents: LaneAgents) -> list[str]:
    """Return a note on the tools of which neither code nor recordings show what they return."""
    from replaydiff.replay.agents.python import PythonAgent

    agents = lane_agents.agents.values()
    known = [agent.returns if isinstance(agent, PythonAgent) else {} for agent in agents]
    names = [
        name
        for name in lane_agents.rules.ambiguous
        if any(name not in returns and ANY_TOOL not in returns for returns in known)
    ]
    return [f"note: {unclear_results(names)}"] if names else []


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
