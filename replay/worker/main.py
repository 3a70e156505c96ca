"""The script of a worker: runs an agent in its own interpreter and folder, one JSON line a message.

Started as `PYTHON main.py CONTROL TOOLS LIFE`, three file descriptors; standard output and error belong to
the agent. Two of them are sockets:

control   in   {"entrypoint", "factory", "tools", "live", "settled", "ignore", "args",
                "adapter": {"path", "digest"} or null, "packages": bool}   first
          out  {"ready": {"mode": "sync" | "async", "takes": "text" | "thread" | "messages", "signature": "…",
                "tools": [name], "patched": [path], "returns": {…}, "versions": {…}}}
               or {"failed": "one sentence"}, and the worker ends; both with "blocked" and "proxied", as a
               trial has them, of the imports
          in   {"trial": 7, "thread": "…", "input": "…"} or {…, "messages": […]}
          out  {"trial": 7, "ms": 12.5, "answer": {"text", "tool_calls", "usage", "cost_usd"}}
               or {"trial": 7, "ms": 12.5, "failed": {"status", "reason", "retry_after_s"}}; and
               where the boundary blocked something, "blocked": [[what, line, in a tool]] and "proxied":
               [[time, line, in a tool]], when the proxy was asked
          async workers also: in {"cancel": 7}, and out {"began": 7} when a trial gets its first turn
tools     out  {"trial": 7, "name": "…", "args": {…}}             answered before the next one goes out
          in   {"result": …}, {"error": "…"}, {"stop": "why"} or {"live": 3}: the tool may run
          out  {"trial": 7, "ran": 3, "result": …} or {…, "error": "…"}   what it gave; not answered

A sync agent runs one trial at a time, in the order in which they come, an async one many. The worker ends
when its control socket closes, and takes its process group with it when LIFE, a pipe nobody writes to, does:
so it cannot outlive its parent.
Works on Python 3.9 and later.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - importing pathlib takes 8 ms
PACKAGE = "_replaydiff_worker"


def load(name: str) -> Any:
    """Return a module of this folder, which is a package of its own here."""
    if PACKAGE not in sys.modules:
        path = os.path.join(FOLDER, "__init__.py")  # noqa: PTH118
        spec = importlib.util.spec_from_file_location(PACKAGE, path, submodule_search_locations=[FOLDER])
        if spec is None or spec.loader is None:
            raise ImportError(path)
        package = sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(package)
    return importlib.import_module(f"{PACKAGE}.{name}")


if __name__ == "__main__":
    # A script's own folder is the first place Python looks: `import main` of an agent would find this file.
    if sys.path and os.path.abspath(sys.path[0] or ".") == FOLDER:  # noqa: PTH100
        del sys.path[0]
    load("trials").main()
