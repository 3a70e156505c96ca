"""`--no-network`: an agent reaches its model and nothing else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.agents import Rules, build
from replaydiff.replay.engine.agents import PROVIDERS, model_hosts
from replaydiff.replay.errors import VersionError
from replaydiff.replay.model import Status, Version, VersionKind
from tests.agents.running import calls, item, recorded, run, run_one
from tests.agents.test_starting import refusal

AGENT = """
import asyncio, http.client, socket, threading, urllib.request

def tool(name, args): ...

def run(text):
    how, _, place = text.partition(" ")
    host, _, port = place.partition(":")
    if how == "careful":
        try:
            socket.create_connection((host, int(port)), timeout=2)
        except OSError:
            pass
        return "went on"
    if how == "thread":
        thread = threading.Thread(target=lambda: run(f"careful {place}"))
        thread.start()
        thread.join()
        return "went on"
    if how == "url":
        urllib.request.urlopen(f"http://{place}/", timeout=2)
    if how in ("listen", "listen6"):
        with socket.socket(socket.AF_INET6 if how == "listen6" else socket.AF_INET) as listening:
            if host != "nowhere":
                listening.bind((host.replace("|", ":"), int(port)))
            listening.listen()
    if how == "udp":
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (host, int(port)))
    if how == "name":
        socket.gethostbyname(host)
    if how == "name_ex":
        socket.gethostbyname_ex(host)
    if how == "name_of_address":
        socket.gethostbyaddr(host)
    if how == "name_info":
        socket.getnameinfo((host, int(port)), 0)
    if how == "name_below":
        import _socket
        _socket.getaddrinfo(host, 80)
    if how == "message":
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendmsg([b"x"], [], 0, (host, int(port)))
    if how == "unix":
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(place)
    if how == "child":
        import subprocess, sys
        code = f"import socket; socket.create_connection(({host!r}, {port}), timeout=2)"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
    if how == "async":
        asyncio.run(asyncio.open_connection(host, int(port)))
    if how == "connect":
        with socket.create_connection((host, int(port)), timeout=2):
            pass
    return str(tool("look", {}))
"""
LOOK = recorded("look", "looked")
FAR = "192.0.2.1:80"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "reaching.py").write_text(AGENT)
    (tmp_path / "early.py").write_text(
        "import socket\nsocket.gethostbyname('shop.example')\ndef run(x): ...\n"
    )
    return tmp_path


@pytest.fixture
def service() -> Iterator[int]:
    """A port of loopback that takes connections."""
    server = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=_accept, args=(server,))
    thread.start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def _accept(server: socket.socket) -> None:
    try:
        while True:
            server.accept()[0].close()
    except OSError:
        return


def outcome(folder: Path, text: str, *hosts: str) -> Any:
    options: dict[str, Any] = {"network": hosts, "folder": folder, "tools": ("reaching:tool",)}
    return run_one("reaching:run", item(text, LOOK), **options)


@pytest.mark.parametrize("how", ["connect", "url", "careful", "thread", "udp", "message", "async", "child"])
def test_a_connection_elsewhere_is_refused_and_ends_in_the_agents_error(folder: Path, how: str) -> None:
    found = outcome(folder, f"{how} {FAR}", "api.anthropic.com")
    assert (found.status, found.final_response) == (Status.AGENT_ERROR, None)
    # Some libraries look the address up before they connect to it.
    places = (FAR, FAR.partition(":")[0])
    assert found.reason in [
        f"it opened a connection to {place}, which --no-network refuses" for place in places
    ]


@pytest.mark.parametrize(
    ("how", "host", "shown"),
    [
        ("listen", "0.0.0.0", "0.0.0.0"),
        ("listen", "", "*"),
        ("listen6", "||", "::"),
        ("listen", "192.0.2.1", "192.0.2.1"),
        ("listen", "nowhere", "0.0.0.0"),
        ("listen6", "nowhere", "::"),
    ],
)
def test_listening_for_other_machines_is_refused(folder: Path, how: str, host: str, shown: str) -> None:
    found = outcome(folder, f"{how} {host}:0")
    assert (found.status, found.reason) == (
        Status.AGENT_ERROR,
        f"it listened on {shown}:0, which --no-network refuses",
    )


@pytest.mark.parametrize(
    ("how", "host", "named"),
    [
        ("listen", "127.0.0.1", ()),
        ("listen", "localhost", ()),
        ("listen6", "||1", ()),
        ("listen", "0.0.0.0", ("0.0.0.0",)),
    ],
)
def test_listening_for_this_machine_is_not(folder: Path, how: str, host: str, named: tuple[str, ...]) -> None:
    assert outcome(folder, f"{how} {host}:0", *named).status is Status.OK


@pytest.mark.parametrize(
    "how", ["name", "name_ex", "name_of_address", "name_info", "name_below", "connect", "url"]
)
def test_a_name_that_is_not_the_models_is_not_even_looked_up(folder: Path, how: str) -> None:
    found = outcome(folder, f"{how} shop.example:80", "api.anthropic.com", "*.openai.azure.com")
    assert found.reason == "it opened a connection to shop.example, which --no-network refuses"


def test_a_star_in_a_host_crosses_no_dot(folder: Path) -> None:
    found = outcome(folder, "name bedrock-runtime.evil.s3.amazonaws.com", *PROVIDERS)
    assert found.reason == (
        "it opened a connection to bedrock-runtime.evil.s3.amazonaws.com, which --no-network refuses"
    )
    # What is allowed fails for want of a network here, which is no refusal.
    allowed = outcome(folder, "careful bedrock-runtime.eu-west-1.amazonaws.com:443", *PROVIDERS)
    assert (allowed.status, allowed.final_response) == (Status.OK, "went on")


def test_a_socket_of_the_file_system_is_refused_unless_it_is_named(folder: Path) -> None:
    path = folder / "x.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        refused = outcome(folder, f"unix {path}")
        assert refused.reason == f"it opened a connection to the socket {path}, which --no-network refuses"
        named = outcome(folder, f"unix {path}", str(path))
        assert (named.status, named.final_response) == (Status.OK, "looked")


def test_loopback_and_the_named_hosts_stay_open(folder: Path, service: int) -> None:
    near = outcome(folder, f"connect 127.0.0.1:{service}")
    assert (near.status, near.final_response) == (Status.OK, "looked")
    assert calls(near) == [("look", {}, "tape")]
    assert outcome(folder, f"connect localhost:{service}").status is Status.OK
    # What is allowed fails for want of a network here, which is no refusal.
    allowed = outcome(folder, "careful sub.shop.invalid:80", "*.shop.invalid")
    assert (allowed.status, allowed.final_response) == (Status.OK, "went on")


def test_without_it_nothing_is_refused(folder: Path, service: int) -> None:
    [found] = run("reaching:run", item("careful shop.invalid:80", LOOK), folder=folder, tools=())
    assert found.final_response == "went on"


def test_an_agent_that_connects_while_it_is_imported_does_not_start(folder: Path) -> None:
    sentence = refusal("early:run", folder, network=())
    assert "--no-network refuses a connection to shop.example" in sentence


@pytest.mark.parametrize("kind", [VersionKind.HTTP, VersionKind.COMMAND])
def test_what_cannot_be_held_is_refused(kind: VersionKind) -> None:
    with pytest.raises(VersionError, match="--no-network covers nothing else"):
        build(Version(name="x", kind=kind), Rules(timeout_s=1, network=()))


def test_where_the_environment_puts_the_model_is_open() -> None:
    environment = {
        "OPENAI_BASE_URL": "https://models.corp.example:8443/v1",
        "OLLAMA_HOST": "gpu.corp.example:11434",
        "https_proxy": "http://user@proxy.corp.example:3128",
        "SHOP_BASE_URL": "https://shop.corp.example",
        "ANTHROPIC_BASE_URL": "http://[broken",
    }
    assert set(model_hosts(["named.example"], environment)) - set(PROVIDERS) == {
        "models.corp.example",
        "gpu.corp.example",
        "proxy.corp.example",
        "named.example",
    }
