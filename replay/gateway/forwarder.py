"""A proxy from inside a boundary to the models, which passes connections on without reading them.

An agent's HTTP clients find it by `HTTPS_PROXY` and its relatives. `CONNECT host:port` opens a tunnel, so TLS
stays between the client and the model; a plain `GET http://…` is passed on with its head rewritten. Other
hosts than the allowed are refused with 403, and reported. Where replay itself is behind a proxy, that one is
asked in turn.

`relay` passes raw TCP on to one destination, for clients that know no proxies.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from replaydiff.replay.destination import Destination, are_covered, parse_destination
from replaydiff.replay.errors import SettingsError

CONNECT_S = 30.0
"""Seconds that connecting may take, through another proxy as well."""
HEAD_BYTES = 64 * 1024
"""The longest head of a request, and the bytes passed on at a time."""
PORTS = {"http": 80, "https": 443}
REWRITTEN_HEADERS = ("host", "proxy-authorization", "proxy-connection", "connection", "keep-alive")
"""Headers that are written anew, or are those of the connection to the proxy."""
_REQUEST = re.compile(r"([A-Z]+) (?:(http)://)?([^/?# ]+)([/?][^ ]*)? HTTP/1\.[01]")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_DIGITS = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class ParentProxy:
    """The proxy that replay itself is behind."""

    host: str
    port: int
    is_encrypted: bool
    authorization: str | None
    """The value of the header `Proxy-Authorization`."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class UnreachableError(Exception):
    """A destination cannot be connected to; the message gives the reason."""


class Route:
    """How connections leave this machine: directly, or through the proxy of an environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Read the proxies.

        Args:
            environment: with `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in either case.

        Raises:
            SettingsError: one of them is of a kind that cannot be used.
        """
        values = {name.lower(): value for name, value in environment.items() if value}
        self._direct = [entry.strip().lower() for entry in values.get("no_proxy", "").split(",")]
        self._proxies: dict[str, ParentProxy] = {}
        for scheme in PORTS:
            names = [name for name in (f"{scheme}_proxy", "all_proxy") if name in values]
            if names:
                self._proxies[scheme] = _parent_proxy(names[0], values[names[0]])

    def proxy(self, scheme: str, host: str) -> ParentProxy | None:
        """Return the proxy that leads to a host; None where the connection is direct."""
        if Destination(host, 0).is_loopback or self._is_excepted(host):
            return None
        return self._proxies.get(scheme)

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to a destination, through a proxy where there is one.

        Raises:
            UnreachableError: it cannot be had.
        """
        proxy = self.proxy("https", host)
        if proxy is None:
            return await _open(host, port)
        reader, writer = await self.connect_to(proxy)
        authorization = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
        target = Destination(host, port)
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{authorization}\r\n".encode("latin-1"))
        try:
            async with asyncio.timeout(CONNECT_S):
                head = await reader.readuntil(b"\r\n\r\n")
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = b""
        status = head.split(b"\r\n", 1)[0].decode("latin-1")
        if status.split(" ")[1:2] != ["200"]:
            writer.close()
            raise UnreachableError(f"the proxy {proxy} refuses {target}: {status or 'it does not answer'}")
        return reader, writer

    async def connect_to(self, proxy: ParentProxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to a proxy itself.

        Raises:
            UnreachableError: it cannot be had.
        """
        context = ssl.create_default_context() if proxy.is_encrypted else None
        try:
            return await _open(proxy.host, proxy.port, context)
        except UnreachableError as error:
            raise UnreachableError(f"the proxy {proxy} of this machine's environment: {error}") from None

    def _is_excepted(self, host: str) -> bool:
        # NO_PROXY, as curl and Python's clients read it: names with their subdomains, addresses, `*`.
        names = [entry.rpartition(":")[0] if entry.count(":") == 1 else entry for entry in self._direct]
        return any(
            name == "*" or host == name or host.endswith(f".{name.lstrip('.')}") for name in names if name
        )


def _parent_proxy(name: str, value: str) -> ParentProxy:
    try:
        parts = urlsplit(value if "//" in value else f"http://{value}")
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in PORTS or not host:
        kind = "a SOCKS proxy" if parts.scheme.startswith("socks") else "no address of an HTTP proxy"
        raise SettingsError(
            f"{name.upper()} names {kind}, through which a boundary cannot lead to the models; set it to an "
            "http:// or https:// proxy, or run with --no-boundary"
        )
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    return ParentProxy(host, port or PORTS[parts.scheme], parts.scheme == "https", authorization)


async def _open(
    host: str, port: int, context: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        async with asyncio.timeout(CONNECT_S):
            return await asyncio.open_connection(host, port, ssl=context, limit=HEAD_BYTES)
    except OSError as error:
        why = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise UnreachableError(f"{Destination(host, port)} cannot be reached: {why}") from None


class Forwarder:
    """The proxy of one process behind a boundary."""

    def __init__(
        self, allowed: Collection[Destination], route: Route, on_refusal: Callable[[str], object]
    ) -> None:
        """Make a proxy.

        Args:
            allowed: where it leads.
            route: how connections leave this machine.
            on_refusal: called with each `host:port` that it refuses.
        """
        self._allowed, self._route, self._on_refusal = allowed, route, on_refusal
        self._connections: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a client of the proxy."""
        await self._guarded(self._answer(reader, writer), writer)

    def relay(
        self, destination: Destination
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        """Return a function that serves a client whose every byte is for this destination."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._guarded(self._pass_on(destination, reader, writer), writer)

        return serve

    def close(self) -> None:
        """End all connections."""
        for task in self._connections:
            task.cancel()

    async def _guarded(self, work: Awaitable[None], writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        try:
            await work
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not HTTP, or cut off
        except asyncio.CancelledError:
            pass  # closed from here
        finally:
            writer.close()

    async def _pass_on(
        self, destination: Destination, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(UnreachableError):
            await _join(reader, writer, *await self._route.connect(destination.host, destination.port))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *fields = head[:-4].split("\r\n")
        parsed = _parsed(first)
        if parsed is None or any(_CONTROL.search(field) for field in fields):
            await _fail(writer, 400, "replay's boundary answers CONNECT host:port and http://host requests")
            return
        method, destination, path = parsed
        if not are_covered(self._allowed, destination.host, destination.port):
            where = str(destination)
            self._on_refusal(where)
            await _fail(writer, 403, f"replay's boundary refuses {where}; see [world] network in replay.toml")
            return
        try:
            if path is None:
                upstream = await self._route.connect(destination.host, destination.port)
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _join(reader, writer, *upstream)
            else:
                await self._request(reader, writer, (method, destination, path), fields)
        except UnreachableError as error:
            await _fail(writer, 502, f"replay: {error}")

    async def _request(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        request: tuple[str, Destination, str],
        fields: list[str],
    ) -> None:
        """Pass on a plain request, and to another proxy no byte that comes after it.

        Its target and `Host` are written anew, so that whoever reads them next reads the same destination.
        """
        method, destination, path = request
        authority = str(destination).removesuffix(":80")
        passed = [field for field in fields if _name(field) not in REWRITTEN_HEADERS]
        proxy, length = self._route.proxy("http", destination.host), None
        if proxy is None:
            upstream = await _open(destination.host, destination.port)
        else:
            length = _length(fields)
            if length is None:
                sentence = "replay's boundary passes plain requests on to a proxy with a Content-Length only"
                await _fail(writer, 411, sentence)
                return
            upstream = await self._route.connect_to(proxy)
            path = f"http://{authority}{path}"
            if proxy.authorization:
                passed.append(f"Proxy-Authorization: {proxy.authorization}")
        lines = [f"{method} {path} HTTP/1.1", f"Host: {authority}", *passed, "Connection: close", "", ""]
        upstream[1].write("\r\n".join(lines).encode("latin-1"))
        await _join(reader, writer, *upstream, length)


def _parsed(line: str) -> tuple[str, Destination, str | None] | None:
    """Return method, destination and path of a request's first line; a path of None is a tunnel.

    None where it is anything but that: a destination that two readers could read differently is none.
    """
    match = _REQUEST.fullmatch(line)
    if match is None:
        return None
    method, scheme, authority, path = match.groups()
    if (method == "CONNECT") != (scheme is None):
        return None
    has_port = authority.rpartition(":")[2].isdigit()
    try:
        destination = parse_destination(authority if has_port or scheme is None else f"{authority}:80")
    except ValueError:
        return None
    if destination.is_pattern:
        return None
    if scheme is None:
        return None if path else (method, destination, None)
    return method, destination, f"/{(path or '').removeprefix('/')}"


def _name(field: str) -> str:
    return field.partition(":")[0].strip().lower()


def _length(fields: list[str]) -> int | None:
    """Return the bytes of a request's body; None where its head leaves it in doubt."""
    lengths = {field.partition(":")[2].strip() for field in fields if _name(field) == "content-length"}
    is_plain = all(field and not field[0].isspace() and ":" in field for field in fields)
    if not is_plain or any(_name(field) in ("transfer-encoding", "upgrade") for field in fields):
        return None
    if not lengths:
        return 0
    text = lengths.pop()
    return int(text) if not lengths and _DIGITS.fullmatch(text) else None


async def _fail(writer: asyncio.StreamWriter, status: int, sentence: str) -> None:
    """Answer with an error whose sentence is in the status line, as clients show little else."""
    body = f"{sentence}\n".encode()
    head = f"HTTP/1.1 {status} {sentence}\r\ncontent-type: text/plain; charset=utf-8\r\n"
    writer.write(
        f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode("latin-1", "replace")
    )
    writer.write(body)
    await writer.drain()


async def _join(
    inner_reader: asyncio.StreamReader,
    inner_writer: asyncio.StreamWriter,
    outer_reader: asyncio.StreamReader,
    outer_writer: asyncio.StreamWriter,
    most: int | None = None,
) -> None:
    """Pass bytes both ways until both sides have ended; outwards only the first `most`."""
    try:
        async with asyncio.TaskGroup() as directions:
            directions.create_task(_pump(inner_reader, outer_writer, most))
            directions.create_task(_pump(outer_reader, inner_writer))
    except* OSError:
        pass
    finally:
        outer_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int | None = None) -> None:
    while data := await reader.read(HEAD_BYTES):
        if most is not None:
            data = data[:most]
            most -= len(data)
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
