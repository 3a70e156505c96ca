"""A Ray cluster of several nodes on this machine, reachable on 127.0.0.1 alone.

Whoever reaches a Ray cluster can run code on it. `ray start --node-ip-address 127.0.0.1` takes another address of the
machine in the place of that one, and then listens on all of them; `main` starts Ray with that replacement taken out, and
`LocalCluster` refuses a cluster that listens elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Take 127.0.0.1 for this node's address, as Ray does on Windows and macOS.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # By default workers give way to every other process, and starve on a busy machine.
    "RAY_worker_niceness": "0",
    "RAY_AUTH_MODE": "disabled",
}
"""For the nodes, and for a driver that connects to them."""


class LocalCluster:
    """Nodes with one CPU each. A context; at its end all processes are gone."""

    def __init__(self, nodes: int, cpus: int = 1) -> None:
        self._count, self._cpus = nodes, cpus
        self._nodes: list[subprocess.Popen[str]] = []
        # Sockets are in it, whose paths may have 107 characters.
        self._folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
        self.cache = Path(self._folder) / "cache"
        """Where its nodes keep what they build."""
        self.address = f"127.0.0.1:{_free_port()}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a driver."""
        return {**ENVIRONMENT, "RAY_ADDRESS": self.address}

    def __enter__(self) -> LocalCluster:
        try:
            for _ in range(self._count):
                self.add_node()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in range(len(self._nodes)):
            self.kill_node(node)
        shutil.rmtree(self._folder, ignore_errors=True)

    def add_node(self) -> None:
        """Start one more node; the first is the head."""
        words = ["--block", "--node-ip-address", "127.0.0.1", "--num-cpus", str(self._cpus)]
        words += ["--object-store-memory", "100000000", "--disable-usage-stats"]
        if self._nodes:
            words += ["--address", self.address]
        else:
            words += ["--head", "--port", self.address.rpartition(":")[2], "--include-dashboard=false"]
            words += ["--temp-dir", self._folder]
        node = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.local_cluster", "start", *words],
            cwd=Path(__file__).parents[2], start_new_session=True,
            env={**os.environ, **ENVIRONMENT, "XDG_CACHE_HOME": str(self.cache)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._nodes.append(node)
        self._wait_until_started(node)
        strangers = [address for address in _listening(self._processes()) if not address.startswith("127.")]
        assert not strangers, f"Ray listens on {strangers}"

    def kill_node(self, number: int) -> None:
        """End a node and all its processes at once, as a power failure does."""
        node = self._nodes[number]
        for pid in [*_descendants(node.pid), node.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        node.wait()
        if node.stdout is not None:
            node.stdout.close()

    def _processes(self) -> list[int]:
        return [pid for node in self._nodes for pid in (node.pid, *_descendants(node.pid))]

    def _wait_until_started(self, node: subprocess.Popen[str]) -> None:
        assert node.stdout is not None
        output = []
        for line in node.stdout:
            output.append(line)
            if "Ray runtime started" in line:
                # It writes little more, which the pipe holds.
                return
        raise AssertionError(f"a node did not start: {''.join(output)}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _descendants(pid: int) -> list[int]:
    found = []
    try:
        for task in os.scandir(f"/proc/{pid}/task"):
            for child in Path(task.path, "children").read_text().split():
                found += [int(child), *_descendants(int(child))]
    except OSError:
        pass
    return found


def _listening(pids: list[int]) -> list[str]:
    """The addresses on which these processes listen."""
    inodes = set()
    for pid in pids:
        try:
            for entry in os.scandir(f"/proc/{pid}/fd"):
                if found := re.fullmatch(r"socket:\[(\d+)\]", str(Path(entry.path).readlink())):
                    inodes.add(found[1])
        except OSError:
            continue
    addresses = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, _, port = fields[1].partition(":")
                addresses.append(f"{_text(address)}:{int(port, 16)}")
    return addresses


def _text(address: str) -> str:
    raw = bytes.fromhex(address)
    words = b"".join(raw[start : start + 4][::-1] for start in range(0, len(raw), 4))
    family = socket.AF_INET if len(words) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, words).removeprefix("::ffff:")


def main() -> None:
    """Run `ray` with the words of the command line."""
    from ray._private import ray_constants, services

    services.get_node_ip_address = lambda address=None: "127.0.0.1"
    ray_constants.ENABLE_RAY_CLUSTER = True
    from ray.scripts.scripts import main as ray

    sys.argv[0] = "ray"
    ray()


if __name__ == "__main__":
    main()
