"""Refuses connections of an agent that lead elsewhere than to its model: `--no-network`.

Loopback and Unix sockets stay open, and so do the hosts that are named. What is covered: everything that goes
through Python's own `socket` module in the worker, whatever library asks. What is not: processes that the
agent starts, and native code with sockets of its own (gRPC, uvloop).

A refused trial is the agent's error even where the agent catches the refusal: a tool that would have run for
real got an error in its place, so what came after is no replay.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import socket
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replaydiff.replay.worker import calls
else:
    calls = sys.modules["_replaydiff_worker_calls"]


class RefusedError(PermissionError):
    """A connection that may not be made."""


class Gate:
    """Which hosts may be reached, and what their addresses were found to be."""

    def __init__(self, hosts: list[str]) -> None:
        self._hosts = {host.lower() for host in hosts}
        self._addresses: set[str] = set()

    def close(self) -> None:
        """From now on, for the rest of the process."""
        resolve, resolve_one = socket.getaddrinfo, socket.gethostbyname

        def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
            self._check_host(host)
            found = resolve(host, *args, **kwargs)
            self._addresses.update(str(entry[4][0]) for entry in found)
            return found

        def gethostbyname(host: Any) -> str:
            self._check_host(host)
            found = resolve_one(host)
            self._addresses.add(found)
            return found

        socket.getaddrinfo = getaddrinfo
        socket.gethostbyname = gethostbyname
        sys.addaudithook(self._heard)

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
            host = str(args[1][0])
            if host not in self._addresses and not _is_near(host) and not self._is_named(host):
                self._refuse(f"{host}:{args[1][1]}")

    def _check_host(self, host: Any) -> None:
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
        if name is None or _is_near(str(name)):
            return
        if not self._is_named(str(name)):
            self._refuse(str(name))

    def _is_named(self, host: str) -> bool:
        name = host.lower().rstrip(".")
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self._hosts)

    def _refuse(self, where: str) -> None:
        trial = calls.TRIAL.get()
        if trial is not None:
            reason = f"it opened a connection to {where}, which --no-network refuses"
            calls.REFUSED.setdefault(trial, reason)
        raise RefusedError(f"--no-network refuses a connection to {where}")


def _is_near(host: str) -> bool:
    """Whether it is this machine."""
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
