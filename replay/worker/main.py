"""The worker: runs an agent in its own interpreter and folder, one JSON line a message.

Started as `PYTHON main.py CONTROL TOOLS LIFE LOG`, four file descriptors; standard output and error belong to
the agent. Two of them are sockets:

control   in   {"entrypoint", "factory", "tools", "live", "settled", "ignore",
                "args",
                "adapter": {"path", "digest"} or null,
                "packages": bool}   first
          out  {"ready": {"mode": "sync" | "async", "takes": "text" | "messages", "signature": "…",
                "versions": {…}}}
               or {"failed": "one sentence"}, and the worker ends; both with "blocked" and "proxied", as a
               trial has them, of the imports
          in   {"trial": 7, "input": "…"} or {"trial": 7, "messages": […]}; with "watch": {tool: [argument]},
               calls of these tools that pass no patch point are looked for; with "tape": [[tool, arguments,
               answer]], calls with these very arguments are answered here and reported as "given"
          out  {"trial": 7, "ms": 12.5, "answer": {"text", "tool_calls", "usage", "cost_usd"}}
               or {"trial": 7, "ms": 12.5, "failed": {"status", "reason", "retry_after_s"}}; both with
               "unpatched": {tool: function} and "blocked": [[what, line, in a tool]], what was found by the
               watch, and "given": [{"name", "args"}], the calls that were answered here and not reported
               yet. After "failed" a sync worker answers {"trial": 8, "skipped": true} to what waits, until it
               gets {"go": true}: the process may be spoilt, and then it is ended
          async workers also: in {"cancel": 7}, and out {"began": 7} when a trial gets its first turn
tools     out  {"trial": 7, "name": "…", "args": {…}}             answered before the next one goes out
          in   {"result": …}, {"error": "…"}, {"stop": "why"} or {"live": 3}: the tool may run
          out  {"given": [{"name", "args"}], "trial": 7}   calls answered here before the next one; not
               answered
          out  {"trial": 7, "ran": 3, "result": …} or {…, "error": "…"}   what it gave; not answered

A sync agent runs one trial at a time, in the order in which they come, an async one many. The worker ends
when its control socket closes, and takes its process group with it when LIFE, a pipe nobody writes to, does:
so it cannot outlive its parent. LOG is a file to which each call that is answered here is written, as
`7 {"name", "args"}`: the engine reads it where the process ends before it has reported them.
Works on Python 3.9 and later; imports the standard library and its neighbours, and those by path.
"""

from __future__ import annotations

import contextlib
import contextvars
import faulthandler
import importlib.util
import inspect
import json
import os
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - importing pathlib takes 8 ms

if TYPE_CHECKING:
    import asyncio

    from replaydiff.replay.worker import (
        blocked,
        broker,
        calls,
        failures,
        imports,
        patch,
        processes,
        remote,
        replies,
        shapes,
        watch,
    )
else:

    def _neighbour(name: str) -> Any:
        """A module beside this file, under a name that no module of a user has."""
        private = f"_replaydiff_worker_{name}"
        if private not in sys.modules:
            spec = importlib.util.spec_from_file_location(private, os.path.join(FOLDER, f"{name}.py"))  # noqa: PTH118
            module = importlib.util.module_from_spec(spec)
            sys.modules[private] = module
            spec.loader.exec_module(module)
        return sys.modules[private]

    # A script's own folder is the first place Python looks: `import main` of an agent would find this file.
    if sys.path and os.path.abspath(sys.path[0] or ".") == FOLDER:  # noqa: PTH100
        del sys.path[0]
    processes = _neighbour("processes")
    imports = _neighbour("imports")
    failures = _neighbour("failures")
    trampoline = _neighbour("trampoline")
    replies = _neighbour("replies")
    shapes = _neighbour("shapes")
    remote = _neighbour("remote")
    calls = _neighbour("calls")
    answers = _neighbour("answers")
    holders = _neighbour("holders")
    kinds = _neighbour("kinds")
    decorators = _neighbour("decorators")
    places = _neighbour("places")
    remakes = _neighbour("remakes")
    discovery = _neighbour("discovery")
    classes = _neighbour("classes")
    tables = _neighbour("tables")
    tool = _neighbour("tool")
    plain = _neighbour("plain")
    patch = _neighbour("patch")
    broker = _neighbour("broker")
    watch = _neighbour("watch")
    _neighbour("substitutes")
    blocked = _neighbour("blocked")

PACKAGES = (
    "anthropic", "openai", "google-genai", "mistralai", "cohere", "groq", "litellm", "boto3",
    "langchain", "langchain-core", "langgraph", "openai-agents", "pydantic-ai", "pydantic-ai-slim",
    "claude-agent-sdk", "google-adk", "strands-agents", "crewai", "llama-index-core", "smolagents",
    "autogen-agentchat", "semantic-kernel", "haystack-ai", "dspy", "instructor", "mcp",
)  # fmt: skip
"""Distributions whose version can change what an agent does; those that are installed are reported."""
STANDARD = sys.path[:]
"""Where modules are looked for before the agent's folder is the first place."""


def end_with_parent(life: int) -> None:
    """Wait until the other end of the pipe closes, then end the whole process group."""

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(life, 1):
                pass
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=wait, name="replay-life", daemon=True).start()


def versions() -> dict[str, str]:
    """The interpreter, and those packages that are installed and matter.

    Loading importlib.metadata would take a third of the time in which a worker starts; the names of folders
    have the same. What is installed in an older form, or within an archive, is looked up there.
    """
    found: dict[str, str] = {}
    unknown: set[str] = set()
    for folder in sys.path:
        try:
            names = [entry.name for entry in os.scandir(folder or ".")]
        except NotADirectoryError:
            unknown.update(PACKAGES)
            continue
        except OSError:
            continue
        for name in names:
            stem, dot, form = name.rpartition(".")
            if dot and form in ("dist-info", "egg-info"):
                package, _, version = stem.rpartition("-") if form == "dist-info" else stem.partition("-")
                package = (package or version).lower().replace("_", "-").replace(".", "-")
                if form == "egg-info":
                    unknown.add(package)
                elif package in PACKAGES:
                    found.setdefault(package, version)
    if missing := unknown.intersection(PACKAGES) - found.keys():
        found.update(_looked_up(missing))
    python = ".".join(map(str, sys.version_info[:3]))
    return {"python": python, **{name: found[name] for name in PACKAGES if name in found}}


def _looked_up(names: set[str]) -> dict[str, str]:
    from importlib import metadata

    found = {}
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _import_asyncio() -> Any:
    """Import it where it is needed: it takes longer than all else that a worker imports.

    The modules it consists of are the standard library's, whatever the agent's folder holds.
    """
    paths = sys.path[:]
    sys.path[:] = STANDARD
    try:
        import asyncio
    finally:
        sys.path[:] = paths
    return asyncio


class Worker:
    """The agent, and how its trials are run."""

    def __init__(self, control: socket.socket, tools: socket.socket, log: int) -> None:
        self.control = control
        self.tools = calls.Tools(tools, log)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._began: set[int] = set()
        self._watch = watch.Watch(lambda code: self.patches.places.starts(code))
        self._sending = threading.Lock()
        self._has_failed = False
        """A trial of a sync agent has failed, and it is not known yet whether this process takes another."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """One loop for the worker's whole life: clients that an agent keeps are bound to it."""
        if self._loop is None:
            asyncio = _import_asyncio()
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop

    def send(self, message: dict[str, Any], given: list[str] | None = None) -> None:
        line = calls.encode(message, given)
        if len(line) > calls.LARGEST_LINE:
            reason = f"the agent's answer is longer than {calls.LARGEST_LINE >> 20} MB"
            line = calls.encode(_without_answer(message, reason), given)
        with self._sending:
            self.control.sendall(line)

    def start(self, order: dict[str, Any]) -> shapes.Target:
        """Import the entrypoint, put the patches in place, and see how the agent is called.

        Raises:
            shapes.Unusable: with one sentence that says why this version can never run.
        """
        self._observer = blocked.Observer()
        self.patches = patch.Patches(
            order["tools"],
            self.tools.ask,
            self.tools.refuse,
            live=order["live"],
            settled=order["settled"],
            ignore=order["ignore"],
        )
        descendants = None
        if order["tools"]:
            descendants = self._see_to_descendants()
        module = self._import(order["entrypoint"], order["adapter"], order["tools"])
        self.patches.apply()
        target = shapes.resolve(
            module,
            order["entrypoint"] or "adapter:run_agent",
            order["factory"],
            order["args"],
            self._wait,
            self.patches.prefers_async,
        )
        # A factory may have filled the tables.
        self.patches.apply()
        if descendants is not None:
            descendants.modules, descendants.is_ready = self.patches.modules(), True
            descendants.renew()
        ready = {
            "mode": "async" if target.is_async else "sync",
            "takes": target.takes,
            "signature": target.signature,
        }
        installed = versions() if order["packages"] else {}
        self.send(
            {
                "ready": {
                    **ready,
                    "tools": self.patches.names,
                    "patched": self.patches.paths,
                    "returns": self.patches.returns(),
                    "versions": installed,
                    **self.blocked_before(),
                }
            }
        )
        return target

    def blocked_before(self) -> dict[str, Any]:
        """Return what was tried in vain before the first trial."""
        return self._observer.before()

    def _import(self, entrypoint: str, adapter: dict[str, str] | None, tools: list[str]) -> Any:
        """Return the module of the entrypoint, or the adapter where there is none; import both."""
        module = None
        if entrypoint:
            module = shapes.import_module(entrypoint.partition(":")[0], "entrypoint", "entrypoint")
        if adapter is None:
            return module
        imports.load("frameworks.base")
        own = imports.load("frameworks.adapter").load(adapter["path"], adapter["digest"])
        if callable(getattr(own, "patch", None)) and "adapter" not in tools:
            raise shapes.Unusable(
                f'the adapter {adapter["path"]} defines patch(answer), and `tools` does not name "adapter"; '
                "add it"
            )
        if module is None and not callable(getattr(own, "run_agent", None)):
            raise shapes.Unusable(
                f"the adapter {adapter['path']} defines no run_agent, and no `entrypoint` is set; add either"
            )
        return own if module is None else module

    def _see_to_descendants(self) -> processes.Descendants:
        """Have the processes that the agent starts patch the same tools, and ask through this one."""
        door = broker.Broker(self.tools, self.patches.config)
        connection = remote.Remote(door.address, door.secret)
        self.tools.elsewhere = calls.Elsewhere(connection, self.tools.current_trial)
        descendants = processes.Descendants(
            door.address,
            door.secret,
            self.patches.modules(),
            is_ready=False,
            trial=self.tools.current_trial,
            refuse=self.tools.refuse,
        )
        if any(framework.name == "adapter" for framework in self.patches.frameworks):
            descendants.here_only = "in which the adapter has not put its patch"
        descendants.install()
        guard = imports.ImportGuard(self.patches.is_ours, self.patches.apply_to, self.tools.refuse)
        processes.carry_trial_into_pools(guard.others, descendants, lambda _: None)
        return descendants

    def _wait(self, awaitable: Any) -> Any:
        async def outcome() -> Any:
            return await awaitable

        return self.loop.run_until_complete(outcome())

    def run_one_by_one(self, target: shapes.Target, lines: Any) -> None:
        """Trials of a sync agent, in the main thread."""
        for line in lines:
            order = json.loads(line.decode())
            if "go" in order:
                self._has_failed = False
            elif self._has_failed:
                self.send({"trial": order["trial"], "skipped": True})
            else:
                contextvars.copy_context().run(self._run_sync, target, order)

    def _run_sync(self, target: shapes.Target, order: dict[str, Any]) -> None:
        trial = order["trial"]
        calls.TRIAL.set(trial)
        self.tools.begin(trial, order.get("tape", []))
        began = time.perf_counter()
        try:
            self.patches.renew()
            began = time.perf_counter()
            self._begin_watch(order)
            value = target.call(order)
            if inspect.isawaitable(value):
                value = self._wait(value)
            took = time.perf_counter() - began
            outcome: dict[str, Any] = {"answer": replies.read_answer(value)}
        except BaseException as error:
            self.patches.places.end(trial)
            took = time.perf_counter() - began
            outcome = {"failed": failures.describe(error)}
        self._finish(trial, took, outcome)

    def run_together(self, target: shapes.Target, lines: Any) -> None:
        """Run trials of an async agent as tasks of one loop."""
        del lines  # nothing is sent between the first line and `ready`, so nothing is left in its buffer
        loop, buffer = self.loop, bytearray()

        def read() -> None:
            try:
                chunk = self.control.recv(1 << 16, socket.MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                return
            if not chunk:
                loop.stop()
                return
            buffer.extend(chunk)
            if b"\n" not in chunk:
                return
            *complete, rest = bytes(buffer).split(b"\n")
            buffer[:] = rest
            for line in complete:
                self._take(target, json.loads(line.decode()))

        loop.add_reader(self.control, read)
        while True:
            try:
                loop.run_forever()
            except SystemExit:
                # asyncio lets it through every loop; the trial's own task reports it.
                continue
            return

    def _take(self, target: shapes.Target, order: dict[str, Any]) -> None:
        if "cancel" in order:
            self._cancel(order["cancel"])
            return
        trial = order["trial"]
        self.tools.begin(trial, order.get("tape", []))
        self._tasks[trial] = self.loop.create_task(self._run_async(target, order))

    def _cancel(self, trial: int) -> None:
        task = self._tasks.get(trial)
        if task is None:
            return
        task.cancel()
        if trial not in self._began:
            # A task that is cancelled before its first step never takes it, and so would never reply.
            del self._tasks[trial]
            self._finish(trial, 0.0, {"failed": failures.failed("agent_error", "cancelled before it began")})

    async def _run_async(self, target: shapes.Target, order: dict[str, Any]) -> None:
        trial = order["trial"]
        calls.TRIAL.set(trial)
        self._began.add(trial)
        self.send({"began": trial})
        began = time.perf_counter()
        try:
            self.patches.renew()
            began = time.perf_counter()
            self._begin_watch(order)
            value = await target.call(order)
            took = time.perf_counter() - began
            outcome: dict[str, Any] = {"answer": replies.read_answer(value)}
        except BaseException as error:
            self.patches.places.end(trial)
            took = time.perf_counter() - began
            outcome = {"failed": failures.describe(error)}
        del self._tasks[trial]
        self._began.discard(trial)
        self._finish(trial, took, outcome)

    def _begin_watch(self, order: dict[str, Any]) -> None:
        self._observer.begin(order["trial"])
        self.patches.places.begin(order["trial"])
        if order.get("watch") or self.patches.places.needs_profile:
            self._watch.begin(order["trial"], order.get("watch", {}))

    def _finish(self, trial: int, took: float, outcome: dict[str, Any]) -> None:
        self.patches.places.end(trial)
        if "answer" in outcome:
            calls.TRIAL.set(trial)
            self.patches.check_late()
        given = self.tools.end(trial)
        steering = self.patches.steering
        unpatched = {name: at for name, at in self._watch.end(trial).items() if name not in steering}
        answer = outcome.get("answer")
        if answer and answer["tool_calls"]:
            answer["tool_calls"] = [one for one in answer["tool_calls"] if one["name"] not in steering]
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        refused = calls.REFUSED.pop(trial, None)
        if refused is not None:
            outcome = {"failed": failures.failed("agent_error", refused)}
        self._has_failed = "failed" in outcome
        message = {
            "trial": trial,
            "ms": took * 1000,
            "unpatched": unpatched,
            **self._observer.end(trial),
            **outcome,
        }
        try:
            self.send(message, given)
        except (ValueError, RecursionError, TypeError) as error:
            self._has_failed = True
            reason = f"the agent's answer cannot be written as JSON: {error}"
            self.send(_without_answer(message, reason), given)


def _without_answer(message: dict[str, Any], reason: str) -> dict[str, Any]:
    """Return a trial's reply that says why its answer is not in it."""
    return {**message, "answer": None, "failed": failures.failed("agent_error", reason)}


def main() -> None:
    """Serve until the control socket closes."""
    control, tools, life, log = (int(number) for number in sys.argv[1:5])
    del sys.argv[1:]
    for descriptor in (control, tools, life, log):
        # A process that the agent starts must not keep our channels open.
        os.set_inheritable(descriptor, False)
    sys.path.insert(0, os.getcwd())  # noqa: PTH109
    for stream in (sys.stdout, sys.stderr):
        # An agent may print anything, and what it printed before it died is what explains the death.
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    faulthandler.enable()
    end_with_parent(life)
    calls.carry_trial_into_threads()
    worker = Worker(socket.socket(fileno=control), socket.socket(fileno=tools), log)
    lines = worker.control.makefile("rb")
    try:
        target = worker.start(json.loads(lines.readline()))
    except shapes.Unusable as unusable:
        worker.send({"failed": str(unusable), **worker.blocked_before()})
        return
    if target.is_async:
        worker.run_together(target, lines)
    else:
        worker.run_one_by_one(target, lines)


if __name__ == "__main__":
    main()
