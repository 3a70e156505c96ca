"""Places on the network that an agent may reach: `db.internal:5432`, `[::1]:6379`,
`*.openai.azure.com:443`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

_HOST = re.compile(r"[a-z0-9_*]([a-z0-9_*.-]*[a-z0-9_*])?\.?", re.IGNORECASE)
LONGEST_HOST = 253


@dataclass(frozen=True, slots=True, order=True)
class Destination:
    """A host and a TCP port."""

    host: str
    """A name in lower case or an address; `*` in a name is any text without a dot."""
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Return whether it is a port of this machine."""
        if self.host == "localhost":
            return True
        return self.is_address and ipaddress.ip_address(self.host).is_loopback

    @property
    def is_address(self) -> bool:
        """Return whether the host is an IP address and not a name."""
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return True

    @property
    def is_pattern(self) -> bool:
        """Return whether the host matches several."""
        return "*" in self.host

    def covers(self, host: str, port: int) -> bool:
        """Return whether a connection to this host and port leads here."""
        name = host.lower().rstrip(".").strip("[]")
        pattern = re.escape(self.host).replace(r"\*", "[^.]*")
        both_local = self.is_loopback and Destination(name, port).is_loopback
        return port == self.port and (both_local or re.fullmatch(pattern, name) is not None)


def parse_destination(text: str) -> Destination:
    """Return the destination that a text such as `db.internal:5432` names.

    Raises:
        ValueError: it is no host and port; the message shows what to write.
    """
    host, _, port = text.strip().rpartition(":")
    advice = f'{text!r} is no host and port; write it like "db.internal:5432"'
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(advice)
    if host.startswith("[") and host.endswith("]"):
        try:
            return Destination(ipaddress.IPv6Address(host[1:-1]).compressed, int(port))
        except ValueError:
            raise ValueError(advice) from None
    if not _HOST.fullmatch(host) or len(host) > LONGEST_HOST or host.replace(".", "").strip("*") == "":
        raise ValueError(advice)
    return Destination(host.lower().rstrip("."), int(port))


def are_covered(destinations: Iterable[Destination], host: str, port: int) -> bool:
    """Return whether one of the destinations is this host and port."""
    return any(destination.covers(host, port) for destination in destinations)
