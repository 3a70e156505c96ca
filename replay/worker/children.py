"""Python processes that the agent starts: they patch the same tools, and ask the worker for their answers.

A process that was forked has the patched functions already. Any other Python finds
`bootstrap/sitecustomize.py` on its PYTHONPATH before anything of the user's runs: that folder and the
worker's address are in the environment of what the agent starts. A module that holds tools is patched there
as soon as it was executed.

What does not come this way runs its tools within the boundary: a Python that ignores its environment (`-I`,
`env -i`), one of a program that is not Python and cleans the environment, a module under another name. The
worker serves at a port of loopback. The first line of a connection is `{"secret": …}`; then one JSON line a
message:

in   {"config": true}                        out  {"config": what must be patched}
in   {"trial": 7 or null, "name", "args"}    out  the answer, as the tools channel gives it
in   {"trial": 7, "ran": 3, …}               out  {} once the worker has what a tool gave that ran
in   {"trial": 7, "refused": "why"}          out  {}: the trial counts for nothing
"""

from __future__ import annotations

import _thread
import json
import os
import socket
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from . import calls, patch

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - importing pathlib takes 8 ms
BOOTSTRAP = os.path.join(FOLDER, "bootstrap")  # noqa: PTH118
WORKER = "REPLAYDIFF_WORKER"
"""Environment variable: address, secret, the trial, and then a line for each name or file of a module."""
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
        tools.parent = Connection(self._address, self._secret)
        self._modules: list[str] = []
        os.environ.update(self.environment(os.environ))
        _pass_environment_on(self.environment)
        # Not `threading.Thread`: see `trials.end_with_parent`.
        _thread.start_new_thread(self._accept, ())

    def open(self, modules: Iterable[str]) -> None:
        """Tell other processes from now on which modules to patch.

        Args:
            modules: names and files.
        """
        self._modules = list(modules)
        os.environ.update(self.environment(os.environ))

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a process that is started with these variables."""
        from . import calls

        trial = calls.TRIAL.get()
        lines = [self._address, self._secret, "" if trial is None else str(trial), *self._modules]
        paths = variables.get("PYTHONPATH", "").split(os.pathsep)
        paths = [BOOTSTRAP, *(path for path in paths if path and path != BOOTSTRAP)]
        return {**variables, "PYTHONPATH": os.pathsep.join(paths), WORKER: "\n".join(lines)}

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
                greeting = json.loads(lines.readline(LONGEST_GREETING))
                if not hmac.compare_digest(str(greeting["secret"]), self._secret):
                    return
                connection.settimeout(None)
                for line in lines:
                    connection.sendall(self._answer(json.loads(line)))
            except (OSError, ValueError, KeyError, TypeError):
                return

    def _answer(self, message: Any) -> bytes:
        if "config" in message:
            return json.dumps({"config": self._config()}).encode() + b"\n"
        if "refused" in message:
            self._tools.refuse(message["refused"], message["trial"])
            return b"{}\n"
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
                self._socket.sendall(json.dumps({"secret": self._secret}).encode() + b"\n")
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
        address, secret, trial, *modules = settings.split("\n")
        self._connection = Connection(address, secret)
        self._trial = int(trial) if trial else None
        self._modules = frozenset(modules)
        self._patches: patch.Patches | None = None
        self._check_script()

    def _check_script(self) -> None:
        """End a program whose own file has tools: it calls them before they can be patched."""
        from . import imports

        script = sys.argv[0] if sys.argv else ""
        if script == "-m":
            script = sys.orig_argv[sys.orig_argv.index("-m") + 1] if hasattr(sys, "orig_argv") else ""
        if self._modules.isdisjoint((script, imports.real_path(script))):
            return
        reason = (
            f"the agent starts {script} as a program, whose tools cannot be answered there; name the "
            "function that starts it in `tools`"
        )
        self._connection.ask(json.dumps({"trial": self._trial, "refused": reason}).encode() + b"\n")
        sys.stderr.write(f"replay: {reason}\n")
        os._exit(1)

    def after_execution(self, module: Any) -> None:
        """Patch the tools of a module."""
        from . import imports

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
                return self_trial if (trial := calls.TRIAL.get()) is None else trial

            def exchange(self, line: bytes, name: str) -> bytes:  # noqa: ARG002
                return connection.ask(line)

            def send(self, line: bytes) -> None:
                connection.ask(line)

            def refuse(self, reason: str) -> calls.Stopped:
                return calls.Stopped(reason)

        connection, self_trial = self._connection, self._trial
        config = json.loads(connection.ask(b'{"config": true}\n'))["config"]
        asking = ChildCalls()
        return patch.Patches.of_config(config, asking.ask, asking.refuse)


def _pass_environment_on(environment: Callable[[Mapping[str, str]], dict[str, str]]) -> None:
    """Give the worker's variables to programs that are started with an environment of their own."""
    from . import imports

    def replace_popen(module: Any) -> None:
        if module.__name__ != "subprocess":
            return
        start = module.Popen.__init__

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            if kwargs.get("env") is not None or "PYTHONPATH" not in os.environ:
                passed_environment = kwargs.get("env")
                kwargs["env"] = environment(
                    _texts(os.environ if passed_environment is None else passed_environment)
                )
            start(self, *args, **kwargs)

        module.Popen.__init__ = __init__

    if "subprocess" in sys.modules:
        replace_popen(sys.modules["subprocess"])
    else:
        imports.after_execution(replace_popen)
    replace_program, spawn = os.execve, os.posix_spawn

    def execve(path: Any, argv: Any, env: Any) -> Any:
        return replace_program(path, argv, environment(_texts(env)))

    def posix_spawn(path: Any, argv: Any, env: Any, **options: Any) -> int:
        return spawn(path, argv, environment(_texts(os.environ if env is None else env)), **options)

    os.execve, os.posix_spawn = execve, posix_spawn


def _texts(variables: Mapping[Any, Any]) -> dict[str, str]:
    return {os.fsdecode(name): os.fsdecode(value) for name, value in variables.items()}
