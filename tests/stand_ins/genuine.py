"""Run a command against a genuine server on loopback: `genuine.py phoenix|mlflow PROGRAM COMMAND…`.

The server keeps its data in a folder that is deleted afterwards. Its address is REPLAYDIFF_TEST_PHOENIX or
REPLAYDIFF_TEST_MLFLOW.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

_STARTS_WITHIN_S = 400.0
"""On a machine that is busy with other work both import for minutes."""


class _Server(NamedTuple):
    arguments: Callable[[Path, int], list[str]]
    """Of its program, from its folder and port."""
    environment: Callable[[Path, int], dict[str, str]]
    health: str
    variable: str


_SERVERS = {
    "phoenix": _Server(
        lambda _folder, _port: ["serve"],
        lambda folder, port: {
            "PHOENIX_WORKING_DIR": str(folder),
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(port),
            "PHOENIX_GRPC_PORT": str(_free_port()),
            "PHOENIX_TELEMETRY_ENABLED": "false",
        },
        "/healthz",
        "REPLAYDIFF_TEST_PHOENIX",
    ),
    "mlflow": _Server(
        lambda folder, port: [
            "server",
            *("--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
            *("--backend-store-uri", f"sqlite:///{folder}/mlflow.db"),
            *("--artifacts-destination", str(folder)),
        ],
        lambda _folder, _port: {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"},
        "/health",
        "REPLAYDIFF_TEST_MLFLOW",
    ),
}


def main(name: str, program: str, command: list[str]) -> int:
    """Start the server, run the command, stop the server; return the command's exit code."""
    port, chosen = _free_port(), _SERVERS[name]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        log = folder / "server.log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                [program, *chosen.arguments(folder, port)],
                env=os.environ | chosen.environment(folder, port),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            if not _answers(url + chosen.health, server):
                raise SystemExit(f"{name} did not start:\n{log.read_text(errors='replace')[-2000:]}")
            return subprocess.call(command, env=os.environ | {chosen.variable: url})
        finally:
            # Its workers are of its session.
            os.killpg(server.pid, signal.SIGKILL)
            server.wait(30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(url: str, server: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urlopen(url, timeout=5):
                return True
        except (URLError, OSError):
            time.sleep(0.5)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
