"""Run items of a stand-in agent in real worker processes."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from replaydiff.replay.agents import Agent, Outcome, Rules, build
from replaydiff.replay.model import Item, Json, JsonObject, ToolCall, Version, VersionKind

AGENTS = Path(__file__).parent.parent / "stand_ins" / "agents"
RULES = {
    "timeout_s",
    "concurrency",
    "on_miss",
    "ignore_args",
    "tools_settings",
    "network",
    "live",
    "boundary",
    "writable",
}


def python_version() -> tuple[int, int]:
    """The Python that runs the agents: this one, or that of `make interpreters`."""
    other = os.environ.get("REPLAY_TEST_PYTHON")
    if other is None:
        return sys.version_info[:2]
    code = "import sys; print(*sys.version_info[:2])"
    major, minor = subprocess.check_output([other, "-c", code], text=True).split()
    return int(major), int(minor)


def python_has(packages: Iterable[str]) -> set[str]:
    """Those of these packages that the Python that runs the agents can import."""
    other = os.environ.get("REPLAY_TEST_PYTHON", sys.executable)
    code = "import importlib.util, sys; print(*filter(importlib.util.find_spec, sys.argv[1:]))"
    return set(subprocess.check_output([other, "-c", code, *packages], text=True).split())


def agent(entrypoint: str, *, folder: Path = AGENTS, **options: Any) -> Agent:
    """An agent of a stand-in; options are those of `Rules` and of `Version`."""
    settings = {"timeout_s": 20.0, "concurrency": 4}
    settings |= {name: options.pop(name) for name in list(options) if name in RULES}
    if "tools_settings" in settings:
        settings["tools"] = settings.pop("tools_settings")
    # Another interpreter of the agent: `make interpreters`.
    options.setdefault("python", os.environ.get("REPLAY_TEST_PYTHON"))
    kind = VersionKind.NODE if "#" in (entrypoint or "") else VersionKind.PYTHON
    version = Version(name="candidate", kind=kind, entrypoint=entrypoint, path=str(folder), **options)
    return build(version, Rules(**settings))


def run(entrypoint: str, *inputs: str | Item, **options: Any) -> list[Outcome]:
    """Run these inputs at the same time, each once."""

    async def all_of_them() -> list[Outcome]:
        running = agent(entrypoint, **options)
        try:
            await running.start()
            items = [one if isinstance(one, Item) else Item(id=one, input=one) for one in inputs]
            return list(await asyncio.gather(*(running.run(item, 0) for item in items)))
        finally:
            await running.close()

    return asyncio.run(all_of_them())


def run_one(entrypoint: str, input_: str | Item = "hello", **options: Any) -> Outcome:
    [outcome] = run(entrypoint, input_, **options)
    return outcome


def recorded(name: str, result: Json = None, /, *, error: str | None = None, **args: Any) -> ToolCall:
    return ToolCall(name=name, args=args, result=result, error=error)


def item(steps: list[tuple[str, Mapping[str, Any]]] | str, *tape: ToolCall, **fields: Any) -> Item:
    """An item that makes the agents of `shop` do these steps."""
    text = steps if isinstance(steps, str) else json.dumps(steps)
    return Item(id="item", input=text, tape=tape, **fields)


def calls(outcome: Outcome) -> list[tuple[str, JsonObject, str]]:
    """Name, arguments and rule of each served call."""
    return [(served.call.name, served.call.args, served.rule.value) for served in outcome.served]
