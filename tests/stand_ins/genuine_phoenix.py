"""Run a command against a genuine Phoenix on loopback: `genuine_phoenix.py PHOENIX COMMAND…`.

Phoenix keeps its data in a folder that is deleted afterwards. Its address is REPLAYDIFF_TEST_PHOENIX.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from urllib.error import URLError
from urllib.request import urlopen

_STARTS_WITHIN_S = 120.0


def main(phoenix: str, command: list[str]) -> int:
    """Start the server, run the command, stop the server; return the command's exit code."""
    port, grpc_port = _free_port(), _free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "PHOENIX_WORKING_DIR": folder,
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(port),
            "PHOENIX_GRPC_PORT": str(grpc_port),
            "PHOENIX_TELEMETRY_ENABLED": "false",
        }
        server = subprocess.Popen(
            [phoenix, "serve"],
            env=os.environ | settings,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for(url, server)
            return subprocess.call(command, env=os.environ | {"REPLAYDIFF_TEST_PHOENIX": url})
        finally:
            server.terminate()
            server.wait(30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urlopen(f"{url}/healthz", timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.5)
    raise SystemExit("Phoenix did not start")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
