"""Refuses connections of an agent that lead elsewhere than to its model: `--no-network`.

Loopback stays open, and so do the hosts that are named. What is covered: everything that goes through
Python's own sockets in the worker and in the Pythons that it starts, whatever library asks: connections,
datagrams, every look-up of a name or an address, and sockets of the file system. What is not: other programs
that the agent starts, and native code with sockets of its own (gRPC, uvloop).

A refused trial is the agent's error even where the agent catches the refusal: a tool that would have run for
real got an error in its place, so what came after is no replay.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import sys
from collections.abc import Callable
from typing import Any

LOOK_UPS = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}
SENDING = {"socket.connect", "socket.sendto", "socket.sendmsg"}
LISTENING = {getattr(socket, name, None) for name in ("AF_INET", "AF_INET6", "AF_PACKET", "AF_VSOCK")}
"""Families whose sockets other machines reach."""
PROCESSES_OWN = ("\0listener-", "\0replaydiff-")
"""How the addresses begin at which `multiprocessing` and replay itself reach other processes."""


class RefusedConnectionError(PermissionError):
    """A connection that may not be made."""


class HostGate:
    """Which hosts may be reached, and what their addresses were found to be."""

    def __init__(self, hosts: list[str], refuse: Callable[[str], object]) -> None:
        """Make it ready to close.

        Args:
            hosts: names and addresses, in which `*` stands for any text without a dot; or paths of sockets.
            refuse: called with why the running trial counts for nothing.
        """
        self._hosts = [pattern(host) for host in hosts]
        self._refuse_trial = refuse
        self._addresses: set[str] = set()

    def close(self) -> None:
        """From now on, for the rest of the process."""
        import _socket

        resolve, resolve_one, resolve_more = (
            _socket.getaddrinfo,
            _socket.gethostbyname,
            _socket.gethostbyname_ex,
        )

        def getaddrinfo(*args: Any, **kwargs: Any) -> Any:
            found = resolve(*args, **kwargs)
            self._addresses.update(str(entry[4][0]) for entry in found)
            return found

        def gethostbyname(host: Any) -> str:
            found = resolve_one(host)
            self._addresses.add(found)
            return found

        def gethostbyname_ex(host: Any) -> Any:
            found = resolve_more(host)
            self._addresses.update(found[2])
            return found

        # `socket.getaddrinfo` calls the one of `_socket`; the others are the same functions in both.
        modules: list[Any] = [_socket, socket]
        _socket.getaddrinfo = getaddrinfo
        for module in modules:
            module.gethostbyname, module.gethostbyname_ex = gethostbyname, gethostbyname_ex
        self._watch_listening()
        sys.addaudithook(self._heard)

    def _watch_listening(self) -> None:
        """Check the address of a socket that listens: without `bind`, it is every address of the machine."""
        base: Any = socket.socket
        plain = base.listen

        def listen(this: Any, *backlog: int) -> None:
            if this.family in LISTENING:
                self._check_listening(*this.getsockname()[:2])
            plain(this, *backlog)

        base.listen = listen

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if event in LOOK_UPS:
            self._check_host(args[0], args[0])
        elif event == "socket.getnameinfo":
            self._check_host(args[0][0], args[0][0])
        elif event in SENDING:
            address = args[1]
            if isinstance(address, tuple):
                self._check_host(address[0], f"{address[0]}:{address[1]}")
            elif isinstance(address, (str, bytes)):
                self._check_path(os.fsdecode(address))
        elif event == "socket.bind" and args[0].family in LISTENING:
            self._check_listening(*args[1][:2])

    def _check_listening(self, host: Any, port: int) -> None:
        # No host is every address of the machine.
        if not ((host and is_near(str(host))) or self._is_named(str(host))):
            self._refuse_trial(f"it listened on {host or '*'}:{port}, which --no-network refuses")
            raise RefusedConnectionError(f"--no-network refuses to listen on {host or '*'}:{port}")

    def _check_host(self, host: Any, where: object) -> None:
        if host is None:
            return
        name = host.decode("ascii", "replace") if isinstance(host, (bytes, bytearray)) else str(host)
        if not (name in self._addresses or is_near(name) or self._is_named(name.lower().rstrip("."))):
            self._refuse(name if isinstance(where, (bytes, bytearray)) else str(where))

    def _check_path(self, path: str) -> None:
        # multiprocessing makes its sockets there, and loads this module, which takes long, when it does.
        tempfile: Any = sys.modules.get("tempfile")
        own = (os.path.join(tempfile.gettempdir(), "pymp-"),) if tempfile else ()  # noqa: PTH118
        shared = path.startswith((*own, *PROCESSES_OWN))
        if path and not shared and not self._is_named(path):
            self._refuse(f"the socket {path!r}" if path.startswith("\0") else f"the socket {path}")

    def _is_named(self, host: str) -> bool:
        return any(pattern.fullmatch(host) for pattern in self._hosts)

    def _refuse(self, where: str) -> None:
        self._refuse_trial(f"it opened a connection to {where}, which --no-network refuses")
        raise RefusedConnectionError(f"--no-network refuses a connection to {where}")


def pattern(host: str) -> re.Pattern[str]:
    """A pattern of hosts; a star that crossed dots would let in strangers' names under the same domain."""
    if host.startswith("/"):
        return re.compile(re.escape(host))
    return re.compile(re.escape(host.lower()).replace(r"\*", "[^.]*"))


def is_near(host: str) -> bool:
    """Whether it is this machine."""
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
