"""What a program behind a boundary reaches on the network: its models, `[world] network`, and how."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import http.server
import shutil
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.replay.destination import Destination, parse_destination
from replaydiff.replay.gateway.forwarder import Forwarder, Route
from replaydiff.replay.gateway.providers import model_destinations
from tests.boundary.running import AVAILABLE, Ended, run

NAMESPACES = pytest.mark.skipif("namespaces" not in AVAILABLE, reason="this system has no namespaces")


@dataclass
class Service:
    """A TCP server that notes what it gets and answers every line in capitals."""

    port: int = 0
    got: list[bytes] = field(default_factory=list)


@contextmanager
def service() -> Iterator[Service]:
    state = Service()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                state.got.append(line)
                self.wfile.write(line.upper())

    with _serving(Handler) as port:
        state.port = port
        yield state


@dataclass
class Proxy:
    """A proxy of a company, which leads every name to one port of this machine."""

    port: int = 0
    asked: list[str] = field(default_factory=list)


@contextmanager
def company_proxy(target: int, password: str | None = None) -> Iterator[Proxy]:
    state = Proxy()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            first = self.rfile.readline().decode()
            fields = dict(
                line.split(": ", 1) for line in iter(lambda: self.rfile.readline().decode().strip(), "")
            )
            state.asked.append(first.strip())
            expected = None if password is None else "Basic " + base64.b64encode(password.encode()).decode()
            if fields.get("Proxy-Authorization") != expected:
                self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                return
            if not first.startswith("CONNECT"):
                self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nplain")
                return
            with socket.create_connection(("127.0.0.1", target)) as upstream:
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                for line in self.rfile:
                    upstream.sendall(line)
                    self.wfile.write(upstream.recv(4096))

    with _serving(Handler) as port:
        state.port = port
        yield state


@contextmanager
def _serving(handler: type[socketserver.BaseRequestHandler]) -> Iterator[int]:
    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


TUNNEL = """
import os, socket, sys
host, port = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
client = socket.create_connection((host, int(port)), 5)
client.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
answer = client.recv(4096)
print(answer.split(b"\\r\\n")[0].decode())
if b" 200 " in answer:
    client.sendall(b"\\x16\\x03 hello\\n")
    print(client.recv(4096))
"""
PINNED = """
import hashlib, http.client, os, ssl, sys
host, port = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
client = http.client.HTTPSConnection(host, int(port), context=ssl.create_default_context(cafile=sys.argv[2]))
client.set_tunnel("127.0.0.1", int(sys.argv[1]))
client.connect()
assert hashlib.sha256(client.sock.getpeercert(True)).hexdigest() == sys.argv[3], "another certificate"
client.request("GET", "/orders")
print(client.getresponse().read())
"""
DIRECT = """
import socket, sys
client = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
client.sendall(b"hello\\n")
print(client.recv(4096))
"""


def python(
    kind: str, code: str, *words: str, folder: Path, network: tuple[str, ...] = (), **env: str
) -> Ended:
    return run(kind, [sys.executable, "-I", "-c", code, *words], folder, network=network, environment=env)


@pytest.mark.parametrize("kind", AVAILABLE)
def test_a_tunnel_passes_bytes_unread_and_only_to_what_is_allowed(kind: str, tmp_path: Path) -> None:
    with service() as echo, service() as stranger:
        allowed = f"127.0.0.1:{echo.port}"
        ended = python(kind, TUNNEL, allowed, folder=tmp_path, network=(allowed,))
        assert ended.out.splitlines() == ["HTTP/1.1 200 Connection established", r"b'\x16\x03 HELLO\n'"], (
            ended
        )
        refused = f"127.0.0.1:{stranger.port}"
        ended = python(kind, TUNNEL, refused, folder=tmp_path, network=(allowed,))
        assert ended.out.startswith(f"HTTP/1.1 403 replay's boundary refuses {refused}")
        assert ended.refused == (refused,)
        assert stranger.got == []


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
def test_a_client_that_pins_a_certificate_sees_that_of_its_server(tmp_path: Path) -> None:
    authority, key = tmp_path / "authority.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=authority"
    command += f" -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {authority}"
    subprocess.run(command.split(), check=True, capture_output=True)
    pin = hashlib.sha256(ssl.PEM_cert_to_DER_cert(authority.read_text())).hexdigest()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"private")

        def log_message(self, *args: object) -> None: ...

        def setup(self) -> None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(authority, key)
            self.request = context.wrap_socket(self.request, server_side=True)
            super().setup()

        def finish(self) -> None:
            super().finish()
            self.request.close()

    with _serving(Handler) as port:
        for kind in AVAILABLE:
            network = (f"127.0.0.1:{port}",)
            ended = python(kind, PINNED, str(port), str(authority), pin, folder=tmp_path, network=network)
            assert ended.out == "b'private'\n", ended.err


@pytest.mark.parametrize("kind", AVAILABLE)
def test_a_service_of_this_machine_is_reached_at_its_own_port(kind: str, tmp_path: Path) -> None:
    with service() as echo:
        ended = python(
            kind, DIRECT, "127.0.0.1", str(echo.port), folder=tmp_path, network=(f"localhost:{echo.port}",)
        )
        assert ended.out == "b'HELLO\\n'\n", ended.err


@pytest.mark.parametrize("kind", AVAILABLE)
def test_the_base_url_of_a_model_is_reached_and_one_of_another_name_is_not(kind: str, tmp_path: Path) -> None:
    with service() as model, service() as shop:
        urls = {
            "OPENAI_BASE_URL": f"http://127.0.0.1:{model.port}/v1",
            "SHOP_BASE_URL": f"http://127.0.0.1:{shop.port}",
        }
        assert "HELLO" in python(kind, DIRECT, "127.0.0.1", str(model.port), folder=tmp_path, **urls).out
        assert python(kind, DIRECT, "127.0.0.1", str(shop.port), folder=tmp_path, **urls).code != 0
        assert shop.got == []


@NAMESPACES
@pytest.mark.parametrize("host", ["db.internal", "10.77.0.5"])
def test_a_client_without_proxies_reaches_a_destination_by_name_and_address(
    tmp_path: Path, host: str
) -> None:
    with service() as echo, company_proxy(echo.port, "me:pass word") as proxy:
        ended = python(
            "namespaces", DIRECT, host, "5432", folder=tmp_path, network=(f"{host}:5432",),
            HTTPS_PROXY=f"http://me:pass%20word@127.0.0.1:{proxy.port}",
        )  # fmt: skip
        assert ended.out == "b'HELLO\\n'\n", ended.err
        assert proxy.asked == [f"CONNECT {host}:5432 HTTP/1.1"]


@pytest.mark.parametrize("kind", AVAILABLE)
def test_the_proxy_of_the_environment_is_asked_in_turn(kind: str, tmp_path: Path) -> None:
    with service() as echo, company_proxy(echo.port, "me:secret") as proxy:
        url = f"http://me:secret@127.0.0.1:{proxy.port}"
        ended = python(kind, TUNNEL, "api.openai.com:443", folder=tmp_path, HTTPS_PROXY=url)
        assert "HELLO" in ended.out, ended
        assert proxy.asked == ["CONNECT api.openai.com:443 HTTP/1.1"]
        ended = python(
            kind, TUNNEL, "api.openai.com:443", folder=tmp_path, HTTPS_PROXY=url.replace("secret", "no")
        )
        assert "502 replay: the proxy 127.0.0.1" in ended.out
        assert "407 Proxy Authentication Required" in ended.out
    ended = python(kind, TUNNEL, "api.openai.com:443", folder=tmp_path, HTTPS_PROXY=url)
    assert "of this machine's environment" in ended.out
    assert "cannot be reached" in ended.out


PLAIN = """
import os, urllib.request
print(urllib.request.urlopen("http://models.internal:8080/v1/x?y=1").read())
"""


@pytest.mark.parametrize("kind", AVAILABLE)
def test_a_plain_request_is_passed_on(kind: str, tmp_path: Path) -> None:
    with company_proxy(0) as proxy:
        ended = python(
            kind, PLAIN, folder=tmp_path, network=("models.internal:8080",),
            HTTP_PROXY=f"http://127.0.0.1:{proxy.port}",
        )  # fmt: skip
        assert ended.out == "b'plain'\n", ended.err
        assert proxy.asked == ["GET http://models.internal:8080/v1/x?y=1 HTTP/1.1"]


def through_a_company_proxy(request: bytes) -> tuple[bytes, bytes]:
    """Return what the proxy of a company gets of a client's bytes, and what the client gets."""

    async def answered() -> tuple[bytes, bytes]:
        got = bytearray()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(4096):
                got.extend(data)
                if b"\r\n\r\n" in got and b"END" in got:
                    with suppress(TimeoutError):  # what may follow
                        got.extend(await asyncio.wait_for(reader.read(4096), 0.05))
                    writer.write(b"HTTP/1.1 200 OK\r\n\r\nfine")
                    writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as parent:
            url = f"http://127.0.0.1:{parent.sockets[0].getsockname()[1]}"
            route = Route({"HTTP_PROXY": url, "HTTPS_PROXY": url})
            forwarder = Forwarder([parse_destination("api.shop.example:80")], route, lambda where: None)
            async with await asyncio.start_server(forwarder.serve, "127.0.0.1", 0) as proxy:
                reader, writer = await asyncio.open_connection(*proxy.sockets[0].getsockname())
                writer.write(request)
                answer = await reader.read()
                writer.close()
        return bytes(got), answer

    return asyncio.run(answered())


POST = b"POST http://api.shop.example/END HTTP/1.1\r\nHost: other.example\r\nContent-Length: 2\r\n\r\n{}"
SECOND = b"GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n"


def test_no_second_request_is_passed_on_and_the_host_is_written_anew() -> None:
    got, answer = through_a_company_proxy(POST + SECOND)
    assert got.endswith(b"Connection: close\r\n\r\n{}")
    assert b"other.example" not in got
    assert b"Host: api.shop.example\r\n" in got
    assert answer.endswith(b"fine")


@pytest.mark.parametrize(("path", "passed_on"), [(b"", b"/"), (b"?a=1", b"/?a=1"), (b"//x", b"//x")])
def test_a_target_without_a_path_gets_one(path: bytes, passed_on: bytes) -> None:
    got, answer = through_a_company_proxy(POST.replace(b"/END", path).replace(b": 2", b": 5") + b"END")
    assert got.startswith(b"POST http://api.shop.example" + passed_on + b" HTTP/1.1\r\n"), got
    assert answer.endswith(b"fine")


@pytest.mark.parametrize(
    "target",
    [
        b"http://other.example\\@api.shop.example/END", b"http://me@api.shop.example/END",
        b"http://other.example#@api.shop.example/END", b"http://api.shop.example:80@other.example/END",
        b"http://api.shop.example\tother.example/END", b"http://*.shop.example/END", b"http://other.example/END",
        b"https://api.shop.example/END", b"//api.shop.example/END", b"http://api.shop.example:/END",
        b"http://api.shop.example%2eother.example/END", b"http:/\\api.shop.example/END",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", [b"GET", b"CONNECT"])
def test_a_target_that_could_be_read_differently_is_refused(method: bytes, target: bytes) -> None:
    if method == b"CONNECT":
        target = target.partition(b"//")[2].removesuffix(b"/END") + b":80"
    if method + target != b"CONNECTapi.shop.example:80":
        got, answer = through_a_company_proxy(method + b" " + target + b" HTTP/1.1\r\nHost: END\r\n\r\n")
        assert (got, answer[:10]) == (b"", b"HTTP/1.1 4"), answer


@pytest.mark.parametrize(
    "field",
    [
        b"Transfer-Encoding: chunked", b"Content-Length: 3", b"Content-Length: +2", b" folded: 1",
        b"A: 1\nContent-Length: 0", b"A: 1\rB: 2", b"Transfer-Encoding : chunked", b"no colon",
    ],
)  # fmt: skip
def test_a_body_whose_length_is_in_doubt_is_refused(field: bytes) -> None:
    got, answer = through_a_company_proxy(POST.replace(b"Content", field + b"\r\nContent", 1) + SECOND)
    assert (got, answer[:10]) == (b"", b"HTTP/1.1 4"), answer


@pytest.mark.parametrize("kind", AVAILABLE)
@pytest.mark.parametrize("program", ["curl", "node"])
def test_other_programs_find_the_proxy(kind: str, program: str, tmp_path: Path) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"no {program} here")
    url = "https://shop.example/orders"
    argv = (
        ["curl", "-sS", "-m", "5", url]
        if program == "curl"
        else ["node", "-e", f"fetch('{url}').catch(e => {{}})"]
    )
    ended = run(kind, argv, tmp_path)
    if program == "node" and not ended.refused:
        pytest.skip("this Node does not read NODE_USE_ENV_PROXY")
    assert ended.refused == ("shop.example:443",)


@pytest.mark.parametrize("kind", AVAILABLE)
def test_a_name_that_cannot_be_looked_up_fails_at_once(kind: str, tmp_path: Path) -> None:
    code = (
        "import socket, time\nbegan = time.monotonic()\n"
        "try: socket.getaddrinfo('shop.example', 443)\nexcept socket.gaierror as error: print('refused')\n"
        "print(time.monotonic() - began < 2)\n"
    )
    assert python(kind, code, folder=tmp_path).out == "refused\nTrue\n"


HOSTS = st.from_regex(r"[a-z]([a-z0-9-]{0,7}[a-z0-9])?(\.[a-z][a-z0-9]{0,5}){0,3}", fullmatch=True)


@given(HOSTS, st.integers(1, 65535))
def test_a_destination_is_read_as_it_is_shown(host: str, port: int) -> None:
    destination = parse_destination(f"{host.upper()}:{port}")
    assert (destination, parse_destination(str(destination))) == (Destination(host, port), destination)
    assert destination.covers(f"{host}.", port)
    assert not destination.covers(f"x{host}", port)
    assert not destination.covers(host, port % 65535 + 1)


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert 0 < parse_destination(text).port < 65536


@pytest.mark.parametrize(
    ("text", "host", "is_covered"),
    [
        ("*.openai.azure.com:443", "mine.openai.azure.com", True),
        ("*.openai.azure.com:443", "a.b.openai.azure.com", False),
        ("*.openai.azure.com:443", "openai.azure.com", False),
        ("api.openai.com:443", "API.OpenAI.com.", True),
        ("api.openai.com:443", "apixopenai.com", False),
        ("localhost:443", "127.0.0.1", True),
        ("127.0.0.1:443", "::1", True),
        ("[::1]:443", "localhost", True),
        ("10.0.0.5:443", "10.0.0.50", False),
    ],
)
def test_a_destination_covers(text: str, host: str, is_covered: bool) -> None:
    assert parse_destination(text).covers(host, 443) is is_covered


def test_base_urls_of_models_are_destinations() -> None:
    destinations = model_destinations(
        {
            "OPENAI_BASE_URL": "http://127.0.0.1:8000/v1",
            "OLLAMA_HOST": "gpu.internal:11434",
            "CRM_BASE_URL": "http://crm",
        }
    )
    added = {*map(str, destinations)} - {*map(str, model_destinations({}))}
    assert added == {"127.0.0.1:8000", "gpu.internal:11434"}
    assert model_destinations({"OPENAI_BASE_URL": "http://[::bad"}) == model_destinations({})
