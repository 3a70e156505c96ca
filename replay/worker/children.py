"""Python processes that the agent starts: they patch the same tools, and ask the worker for their answers.

A process that was forked has the patched functions already. Any other Python finds
`bootstrap/sitecustomize.py` on its PYTHONPATH before anything of the user's runs: that folder and the
worker's address are in the environment of what the agent starts. A module that holds tools is patched there
as soon as it was executed.

What does not come this way runs its tools within the boundary: a Python without this environment (`-I`,
`env -i`, an `env` of its own), the tools' own file as a program, a module under another name. The
worker serves at a port of loopback. The first line of a connection is the secret; each other is a message:

in   {"config": true}                        out  {"config": what must be patched}
in   {"trial": null, "name", "args"}         out  the answer, as the tools channel gives it
in   {"trial": 7, "ran": 3, …}               out  {} once the worker has what a tool gave that ran
"""

from __future__ import annotations

import _thread
import json
import os
import socket
import threading

from . import imports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from . import calls, patch

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - importing pathlib takes 8 ms
BOOTSTRAP = os.path.join(FOLDER, "bootstrap")  # noqa: PTH118
WORKER = "REPLAYDIFF_WORKER"
"""Environment variable: address, secret, and then a line for each name or file of a module."""
PORT = "REPLAY_WORKER_PORT"
"""Environment variable: the port that the boundary keeps open for the worker; any other without it."""
GREETING_S = 5.0
"""Seconds that a stranger may take for the first line."""
LONGEST_GREETING = 256
"""Bytes of the first line."""


class ToolServer:
    """Answers the processes that the agent starts."""

    def __init__(self, tools: calls.Tools, config: Callable[[], Any]) -> None:
        """Listen, and lead the processes here that are started from now on.

        Args:
            tools: where tool calls are passed on to.
            config: returns what another process must patch.
        """
        self._tools, self._config = tools, config
        self._secret = os.urandom(16).hex()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # The engine has the port reserved by a socket of its own.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", int(os.environ.pop(PORT, 0))))
        self._socket.listen(64)
        self._address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        tools.parent = Connection(self._address, self._secret).ask
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        paths = [BOOTSTRAP, *(path for path in paths if path and path != BOOTSTRAP)]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        self.open(())
        imports.after_execution(self._pass_environment_on)
        # Not `threading.Thread`: see `trials.end_with_parent`.
        _thread.start_new_thread(self._accept, ())

    def open(self, modules: Iterable[str]) -> None:
        """Tell other processes from now on which modules to patch.

        Args:
            modules: names and files.
        """
        os.environ[WORKER] = "\n".join([self._address, self._secret, *modules])

    def _pass_environment_on(self, module: Any) -> None:
        """Give the variables to programs that are started with an environment of their own."""
        if module.__name__ != "subprocess":
            return
        start = module.Popen.__init__

        def __init__(popen: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            if kwargs.get("env") is not None:
                our_variables = {
                    name: os.environ[name] for name in (WORKER, "PYTHONPATH") if name in os.environ
                }
                kwargs["env"] = {**kwargs["env"], **our_variables}
            start(popen, *args, **kwargs)

        module.Popen.__init__ = __init__

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            _thread.start_new_thread(self._serve, (connection,))

    def _serve(self, connection: socket.socket) -> None:
        import hmac

        with connection:
            connection.settimeout(GREETING_S)
            lines = connection.makefile("rb")
            try:
                if not hmac.compare_digest(lines.readline(LONGEST_GREETING), f"{self._secret}\n".encode()):
                    return
                connection.settimeout(None)
                for line in lines:
                    connection.sendall(self._answer(json.loads(line)))
            except (OSError, ValueError, KeyError, TypeError):
                return

    def _answer(self, message: Any) -> bytes:
        if "config" in message:
            return json.dumps({"config": self._config()}).encode() + b"\n"
        return self._tools.pass_on(message)


class Connection:
    """The way to the worker from another process; opened at first use, and again in a forked one."""

    def __init__(self, address: str, secret: str) -> None:
        """Keep the address; nothing is opened yet."""
        self._address, self._secret = address, secret
        self._after_fork()
        os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        self._lines: Any = None
        self._lock = threading.Lock()

    def ask(self, line: bytes) -> bytes:
        """Send a line and return the answer.

        Raises:
            OSError: the worker cannot be reached.
        """
        with self._lock:
            if self._lines is None:
                host, _, port = self._address.rpartition(":")
                self._socket = socket.create_connection((host, int(port)))
                self._lines = self._socket.makefile("rb")
                self._socket.sendall(f"{self._secret}\n".encode())
            self._socket.sendall(line)
            reply: bytes = self._lines.readline()
        if not reply.endswith(b"\n"):
            raise ConnectionError("the worker is gone")
        return reply


class ChildProcess:
    """The tools of a process that the agent started, patched as their modules are executed."""

    def __init__(self, settings: str) -> None:
        """Read the settings that the worker passed on.

        Args:
            settings: the text of the variable `WORKER`.
        """
        address, secret, *modules = settings.split("\n")
        self._connection = Connection(address, secret)
        self._modules = frozenset(modules)
        self._patches: patch.Patches | None = None

    def after_execution(self, module: Any) -> None:
        """Patch the tools of a module."""
        if self._patches is None:
            if self._modules.isdisjoint((module.__name__, imports.file_of(module))):
                return
            self._patches = self._connected()
        self._patches.after_execution(module)

    def _connected(self) -> patch.Patches:
        from . import calls, patch

        class ChildCalls(calls.Asking):
            """Asks through the worker."""

            def trial_of(self, name: str) -> int | None:  # noqa: ARG002
                return None

            def exchange(self, line: bytes, name: str) -> bytes:  # noqa: ARG002
                return connection.ask(line)

            def send(self, line: bytes) -> None:
                connection.ask(line)

            def refuse(self, reason: str) -> calls.Stopped:
                return calls.Stopped(reason)

        connection = self._connection
        config = json.loads(connection.ask(b'{"config": true}\n'))["config"]
        return patch.Patches(config, ChildCalls())
