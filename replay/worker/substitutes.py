"""Let `multiprocessing` do without Unix sockets, which a boundary refuses.

Which path a Unix socket leads to cannot be seen when it is made, and neither Landlock nor a namespace keeps a
process from one outside. `multiprocessing` needs them for two things that stay inside:

forkserver    the default start method of Python 3.14. Its processes are started by `spawn` instead, which
              takes the same arguments and has the same effect, but costs an interpreter's start each time.
managers      and whatever else listens without an address (`Manager`, sockets in queues). They listen at a
              port of loopback; where that is shared with other programs, at one of a few reserved ports.
"""

from __future__ import annotations

import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

LISTENING = ("multiprocessing.managers", "multiprocessing.resource_sharer")
"""Modules that listen without an address."""


def install(ports: Iterable[int]) -> None:
    """Prepare this process and those that it forks.

    Args:
        ports: at which they may listen; none where they may at any.
    """
    sys.modules["multiprocessing.popen_forkserver"] = _SpawnInstead("multiprocessing.popen_forkserver")
    sys.addaudithook(_listens_at_loopback(list(ports)))


class _SpawnInstead(types.ModuleType):
    """Stands for a module and has what is imported from it; loads nothing before that."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from multiprocessing import popen_spawn_posix

        return getattr(popen_spawn_posix, name)


def _listens_at_loopback(ports: list[int]) -> Callable[[str, tuple[Any, ...]], None]:
    """Return a hook that changes where `multiprocessing` listens, just before a module of it does."""

    def change(event: str, args: tuple[Any, ...]) -> None:
        if event != "import" or args[0] not in LISTENING:
            return
        import multiprocessing.connection as connection

        connection.default_family = "AF_INET"  # type: ignore[attr-defined]
        if ports:
            choose = connection.arbitrary_address  # type: ignore[attr-defined]
            connection.arbitrary_address = (  # type: ignore[attr-defined]
                lambda family: ("127.0.0.1", _free(ports)) if family == "AF_INET" else choose(family)
            )

    return change


def _free(ports: Iterable[int]) -> int:
    """Return the first port at which nobody listens; any port where there is none."""
    import socket

    for port in ports:
        with socket.socket() as trying:
            trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trying.bind(("127.0.0.1", port))
                trying.listen()
            except OSError:
                continue
        return port
    return 0
