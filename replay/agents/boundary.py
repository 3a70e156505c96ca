"""The outer side of the boundary: choose its kind, start a process behind it, and serve what it may reach.

The inner side, and what the boundary covers, is `replay/worker/boundary.py`. A `Boundary` is that of a
version and makes a `Confinement` for each process:

    boundary = boundary_of(rules, environment, servers)        # None for `boundary = "none"`
    confinement = boundary.confine(folder)
    await confinement.prepare()
    popen(confinement.wrap(argv), env={…, **confinement.environment}, pass_fds=[confinement.descriptor])
    await confinement.open()                                    # the boundary is there
    confinement.close()                                         # the process has ended

Inside, a process reaches our own servers (model gateway, tape), its models, and `[world] network`: by the
proxy variables of its environment, and by name and port besides, where namespaces give it a loopback device
of its own.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from replaydiff.replay.agents.base import Rules
from replaydiff.replay.agents.folder import TrialFolder
from replaydiff.replay.destination import Destination, parse_destination
from replaydiff.replay.errors import VersionError
from replaydiff.replay.gateway.forwarder import Forwarder, Route
from replaydiff.replay.gateway.providers import model_destinations
from replaydiff.replay.model import JsonObject
from replaydiff.replay.serving import HOST, Server

Accept = Callable[[socket.socket], Awaitable[asyncio.Server]]
Kind = Literal["namespaces", "landlock"]
KINDS: tuple[Kind, ...] = ("namespaces", "landlock")
"""The strongest first."""
SCRIPT = Path(__file__).resolve().parent.parent / "worker" / "boundary.py"
# Imported, since a script would be compiled anew at each start, which takes longer than all that it does.
START = (
    sys.executable, "-I", "-S", "-c",
    "import sys; sys.path.append(sys.argv.pop(1)); import boundary; boundary.main(sys.argv[1:])",
    str(SCRIPT.parent),
)  # fmt: skip
"""The command that is followed by the arguments of the inner side."""
BOOTSTRAP = str(SCRIPT.parent / "bootstrap")
"""A folder for PYTHONPATH, whose `sitecustomize` adapts every Python to the boundary."""
LONGEST_MESSAGE = 4096
"""Bytes of what the inner side sends."""
NAME_NETWORK = "127.77"
"""Loopback addresses that begin like this stand for the names of destinations."""
CACHES = (".cache", ".local", ".config")
"""Folders of the home folder that become copy-on-write."""
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
WORKER_PORT = "REPLAY_WORKER_PORT"
"""Variable with a port that the process may both listen at and connect to."""
DESCRIPTION = "REPLAY_BOUNDARY"
"""Variable with a description of the boundary, for what observes the agent inside."""
SPARE_PORTS = "REPLAY_SPARE_PORTS"
"""Variable with the ports at which `multiprocessing` listens; empty for any."""
MOST_SPARE_PORTS = 4
"""Ports at which a process may listen and be connected to, where it has no loopback device of its own."""
NO_PROXY_HOSTS = "localhost,127.0.0.1,::1"
HOW_TO_ALLOW = (
    "allow users to make namespaces (such as `sysctl kernel.apparmor_restrict_unprivileged_userns=0`), or "
    'use a kernel with Landlock (Linux 6.7 or later); --no-boundary, or boundary = "none" in [world], runs '
    "agents without a boundary, where whatever is not answered is real"
)


def resolve(setting: str) -> Kind | None:
    """Return the kind of boundary that a setting means on this machine; None for `none`.

    Raises:
        VersionError: the kernel refuses it.
    """
    if setting == "none":
        return None
    kinds = [kind for kind in KINDS if setting in ("auto", kind)]
    refusals = {}
    for kind in kinds:
        refusal = refusal_of(kind)
        if refusal is None:
            return kind
        refusals[kind] = refusal
    why = "; ".join(f"{kind}: {refusal}" for kind, refusal in refusals.items())
    raise VersionError(f"this system builds no boundary around an agent ({why})", hint=HOW_TO_ALLOW)


@functools.cache
def refusal_of(kind: Kind) -> str | None:
    """Return why this kernel builds no boundary of a kind; None where it does. Starts a process once."""
    if sys.platform != "linux":
        return f"it needs Linux, and this is {sys.platform}"
    message, ended = _tried(f"kind={kind}")
    if message.startswith("ok") and ended.returncode == 0:
        return None
    last = ended.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    return message.removeprefix("failed: ") or (last[0] if last else f"exit code {ended.returncode}")


def _tried(*keys: str) -> tuple[str, subprocess.CompletedProcess[bytes]]:
    """Build a boundary around nothing; return what its inner side said, and how it ended."""
    channel, inner_channel = socket.socketpair()
    with channel, inner_channel:
        argv = [*START, str(inner_channel.fileno()), *keys, "--"]
        # Elsewhere than the current folder, which may be gone.
        ended = subprocess.run(
            argv, pass_fds=[inner_channel.fileno()], cwd="/", capture_output=True, check=False
        )
        inner_channel.close()
        return channel.recv(LONGEST_MESSAGE).decode("utf-8", "replace"), ended


@functools.cache
def can_overlay(lower: str, home: str) -> bool:
    """Return whether this kernel lays an overlay over a folder. Starts a process once.

    Args:
        lower: the folder.
        home: a folder of the file system that gets what is written.
    """
    with tempfile.TemporaryDirectory(dir=home, prefix="overlay-") as scratch:
        layers = [Path(scratch, name) for name in ("upper", "work")]
        for layer in layers:
            layer.mkdir()
        message, ended = _tried("kind=namespaces", "\t".join([f"overlay={lower}", *map(str, layers)]))
        for inner in layers[1].iterdir():
            inner.chmod(0o700)
    return message.startswith("ok") and ended.returncode == 0


def overlay_of(boundary: Boundary | None) -> Callable[[str, str], bool] | None:
    """Return what tells whether a boundary lays overlays over folders; None where it lays none."""
    return can_overlay if boundary is not None and boundary.kind == "namespaces" else None


def boundary_of(rules: Rules, environment: Mapping[str, str], *servers: Server) -> Boundary | None:
    """Return the boundary of a version's processes; None where the rules want none.

    Args:
        rules: of the run.
        environment: of the version, beside the command's own.
        servers: of ours, that its processes reach, besides the model gateway.

    Raises:
        VersionError: the kernel refuses it.
    """
    kind = resolve(rules.boundary)
    if kind is None:
        return None
    whole_environment = {**os.environ, **environment}
    missing = [path for path in rules.writable if not os.path.lexists(path)]
    if missing:
        raise VersionError(
            f"[world] writable names {missing[0]}, which does not exist; create it, or remove it"
        )
    return Boundary(
        kind=kind,
        servers=servers if rules.gateway is None else (rules.gateway.server, *servers),
        destinations=(*model_destinations(whole_environment), *map(parse_destination, rules.network)),
        writable=tuple(rules.writable),
        environment=whole_environment,
        route=Route(whole_environment),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """What the processes of a version may reach and change."""

    kind: Kind
    servers: Sequence[Server]
    """Our own servers."""
    destinations: Sequence[Destination]
    """Models, and `[world] network`."""
    writable: Sequence[str]
    """Files and folders of `[world] writable`."""
    environment: Mapping[str, str]
    """Of the processes, before a confinement changes it."""
    route: Route
    """How connections leave this machine."""

    def confine(self, folder: str, trial_folder: TrialFolder | None = None) -> Confinement:
        """Return the boundary of one process.

        Args:
            folder: where it runs.
            trial_folder: its own folder, which is all that it may write to; None: it may write to `folder`.
        """
        return Confinement(self, folder, trial_folder)


class Refusal(NamedTuple):
    """A destination that a process asked the proxy for in vain."""

    at: float
    """The time, of the monotonic clock."""
    destination: str
    """`host:port`."""


@dataclass(frozen=True, slots=True)
class _Listener:
    """A socket inside, and what serves it outside."""

    address: str
    port: int
    accept: Accept
    """Serves it."""


class Confinement:
    """The boundary of one process, from before its start to its end."""

    def __init__(self, boundary: Boundary, folder: str, trial_folder: TrialFolder | None) -> None:
        """Prepare nothing yet but addresses; the arguments are those of `Boundary.confine`."""
        self.boundary, self.folder, self._trial_folder = boundary, folder, trial_folder
        self.refused: list[Refusal] = []
        """What the process asked the proxy for in vain, in that order."""
        self._accepting: list[asyncio.Server] = []
        self._temporary: str | None = None
        """The process's folder for temporary files, where `/tmp` cannot be made private."""
        self._channel, self._inner_channel = socket.socketpair()
        # Their numbers are taken on this machine, so they are none of a service that the process looks for.
        self._proxy_socket = socket.socket()
        self._proxy_socket.bind((HOST, 0))
        self._worker_socket = _reserved(socket.SO_REUSEPORT)
        spare = MOST_SPARE_PORTS if boundary.kind == "landlock" else 0
        self._spare_sockets = [_reserved(socket.SO_REUSEADDR) for _ in range(spare)]
        self._forwarder = Forwarder(boundary.destinations, boundary.route, self._refuse)
        self._listeners = [] if boundary.kind == "landlock" else list(self._inside())

    @property
    def descriptor(self) -> int:
        """Return the file descriptor that the process must inherit."""
        return self._inner_channel.fileno()

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables that lead the process to its models, and to a folder for temporary files."""
        proxy = f"http://{HOST}:{self._proxy_socket.getsockname()[1]}"
        variables = dict.fromkeys(PROXY_VARIABLES, proxy)
        variables |= {"NO_PROXY": NO_PROXY_HOSTS, "no_proxy": NO_PROXY_HOSTS, "NODE_USE_ENV_PROXY": "1"}
        variables[DESCRIPTION] = json.dumps(self._description())
        variables[SPARE_PORTS] = ",".join(map(str, self._spare_ports()))
        paths = [BOOTSTRAP, self.boundary.environment.get("PYTHONPATH", "")]
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        variables[WORKER_PORT] = str(self._worker_socket.getsockname()[1])
        if self._temporary is not None:
            variables |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), self._temporary)
        return variables

    def _refuse(self, where: str) -> None:
        self.refused.append(Refusal(time.monotonic(), where))

    def _description(self) -> JsonObject:
        """Return what the boundary leaves open, for what observes the agent inside."""
        our_addresses = [f"{HOST}:{port}" for port in self._our_ports()]
        private = [] if self.boundary.kind == "landlock" else self._private()
        trial_folders = [self.folder] if self._trial_folder is None else self._trial_folder.changeable
        writable = [os.path.realpath(path) for path in (*trial_folders, *self.boundary.writable)]
        return {
            "kind": self.boundary.kind,
            "writable": [*writable, *private, *([self._temporary] if self._temporary else [])],
            "reachable": [*map(str, self.boundary.destinations), *our_addresses],
        }

    async def prepare(self) -> None:
        """Get ready what the process needs when it starts."""
        if self.boundary.kind == "landlock":
            if self._trial_folder is None:
                self._temporary = await asyncio.to_thread(tempfile.mkdtemp, prefix="replay-")
            self._accepting.append(await asyncio.start_server(self._forwarder.serve, sock=self._proxy_socket))

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """Return the command that builds the boundary and then becomes `argv`."""
        keys = [f"kind={self.boundary.kind}", f"folder={os.path.abspath(self.folder)}"]  # noqa: PTH100
        keys += [f"write={os.path.realpath(path)}" for path in self._writable()]
        if self._temporary is not None:
            keys.append(f"write={self._temporary}")
        if self.boundary.kind == "landlock":
            keys += [f"connect={port}" for port in self._ports()]
            keys += [f"serve={port}" for port in (*self._spare_ports(), self._worker_socket.getsockname()[1])]
        else:
            private = self._private()
            if self._trial_folder is not None:
                layers = self._trial_folder.layers(private)
                keys += [f"overlay={line}" for line in layers.overlays]
                private = list(layers.private)
            keys += [f"private={line}" for line in private]
            keys += [f"listen={listener.address} {listener.port}" for listener in self._listeners]
            keys += [f"host={address} {name}" for name, address in self._names().items()]
        return [*START, str(self.descriptor), *keys, "--", *argv]

    async def open(self) -> None:
        """Serve the process, once its boundary is there.

        Raises:
            VersionError: the kernel refuses a part of the boundary.
        """
        self._inner_channel.close()
        message, descriptors, *_ = await asyncio.to_thread(
            socket.recv_fds, self._channel, LONGEST_MESSAGE, len(self._listeners)
        )
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        if not message.startswith(b"ok") or len(sockets) != len(self._listeners):
            for unused in sockets:
                unused.close()
            why = message.decode("utf-8", "replace").removeprefix("failed: ") or "its process ended"
            raise VersionError(f"the boundary around the agent cannot be built: {why}", hint=HOW_TO_ALLOW)
        for listener, inner in zip(self._listeners, sockets, strict=True):
            self._accepting.append(await listener.accept(inner))

    def close(self) -> None:
        """Stop serving it, and delete its temporary files. May be called at any time."""
        for accepting in self._accepting:
            accepting.close()
        self._forwarder.close()
        sockets = (self._proxy_socket, self._worker_socket, *self._spare_sockets)
        for endpoint in (self._channel, self._inner_channel, *sockets):
            endpoint.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _ports(self) -> list[int]:
        """Return the TCP ports that Landlock lets the process connect to."""
        direct = (
            destination
            for destination in self.boundary.destinations
            if destination.is_loopback or destination.is_address
        )
        ports = {*self._our_ports(), self._proxy_socket.getsockname()[1]}
        return sorted(ports | {destination.port for destination in direct})

    def _our_ports(self) -> list[int]:
        """Return the ports of our servers, without the proxy's."""
        worker_port: int = self._worker_socket.getsockname()[1]
        return [*(server.port for server in self.boundary.servers), worker_port, *self._spare_ports()]

    def _spare_ports(self) -> list[int]:
        """Return the ports at which the agent's own processes may find each other."""
        return [reserved.getsockname()[1] for reserved in self._spare_sockets]

    def _private(self) -> list[str]:
        """Return the folders that are copy-on-write."""
        return private_folders(self.boundary.environment, self._writable())

    def _writable(self) -> list[str]:
        """Return what the process writes to for real."""
        trial_folders = [self.folder] if self._trial_folder is None else self._trial_folder.writable
        return [*trial_folders, *self.boundary.writable]

    def _inside(self) -> Iterator[_Listener]:
        """Yield what listens inside, each address and port once."""
        endpoints = set()
        for listener in self._endpoints():
            if (listener.address, listener.port) not in endpoints:
                endpoints.add((listener.address, listener.port))
                yield listener

    def _endpoints(self) -> Iterator[_Listener]:
        for server in self.boundary.servers:
            yield _Listener(HOST, server.port, server.accept_from)
        yield _Listener(HOST, self._proxy_socket.getsockname()[1], _accepts(self._forwarder.serve))
        names = self._names()
        for destination in self.boundary.destinations:
            relay = _accepts(self._forwarder.relay(destination))
            if destination.is_loopback:
                if destination.host != "::1":
                    yield _Listener(HOST, destination.port, relay)
                if destination.host in ("::1", "localhost") and _has_ipv6():
                    yield _Listener("::1", destination.port, relay)
            elif destination.is_address:
                yield _Listener(destination.host, destination.port, relay)
            elif destination.host in names:
                yield _Listener(names[destination.host], destination.port, relay)

    def _names(self) -> dict[str, str]:
        """Return the names of destinations, and the loopback address that each has inside."""
        names = [
            destination.host
            for destination in self.boundary.destinations
            if not (destination.is_loopback or destination.is_address or destination.is_pattern)
        ]
        return {
            name: f"{NAME_NETWORK}.{number >> 8}.{number & 255}"
            for number, name in enumerate(dict.fromkeys(names), start=1)
        }


def private_folders(environment: Mapping[str, str], writable: Sequence[str]) -> list[str]:
    """Return the folders that become copy-on-write, none within another or within what may be written to."""
    home = environment.get("HOME", "")
    named = ["/tmp", "/var/tmp", environment.get("TMPDIR", "")]  # noqa: S108 - made private, not written to
    named += [environment.get(name, "") for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")]
    named += [str(Path(home, name)) for name in CACHES] if home.startswith("/") else []
    folders: list[str] = []
    for path in sorted({os.path.realpath(path) for path in named if path.startswith("/")}):
        above = [*folders, *map(os.path.realpath, writable)]
        if path != "/" and not any(Path(path).is_relative_to(folder) for folder in above):
            folders.append(path)
    return folders


def _accepts(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> Accept:
    async def accept(listener: socket.socket) -> asyncio.Server:
        return await asyncio.start_server(serve, sock=listener)

    return accept


def _reserved(option: int) -> socket.socket:
    """Return a socket that keeps a port for those who set the same option; nobody listens there yet."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, option, 1)
    reserved.bind((HOST, 0))
    return reserved


def _has_ipv6() -> bool:
    return os.path.exists("/proc/net/if_inet6")  # noqa: PTH110
