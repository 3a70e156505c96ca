"""What an agent does besides its tools is shown: connections to other machines, and processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.model import Status
from tests.agents.running import item, recorded, run_one

AGENT = """
import asyncio, os, platform, socket, subprocess, sys

def tool(name, args): ...

def reach(host):
    try:
        socket.create_connection((host, 9), timeout=0.01)
    except OSError:
        pass

if IMPORTED:
    reach(IMPORTED)

def run(text):
    how, _, host = text.partition(" ")
    if how == "connects":
        reach(host)
    if how == "perl":
        subprocess.run(["perl", "-e", "%ENV = (); exec @ARGV", sys.executable, "-c", "pass"])
    if how == "async":
        asyncio.run(connect(host))
    if how == "popen":
        subprocess.run([sys.executable, "-c", "pass"])
    if how == "system":
        os.system("true")
    if how == "machine":
        platform._Processor.from_subprocess()
    return str(tool("look", {}))

async def connect(host):
    try:
        await asyncio.wait_for(asyncio.open_connection(host, 9), 0.2)
    except OSError:
        pass
    except asyncio.TimeoutError:
        pass
"""
LOOK = recorded("look", "looked")


def outside(folder: Path, text: str, *expected: str, imported: str = "") -> list[tuple[str, str]]:
    (folder / "acting.py").write_text(f"IMPORTED = {imported!r}\n{AGENT}")
    options: dict[str, Any] = {
        "network": [f"{host}:443" for host in expected],
        "folder": folder,
        "tools": ("acting:tool",),
    }
    found = run_one("acting:run", item(text, LOOK), **options)
    assert (found.status, found.final_response) == (Status.OK, "looked")
    return [(what, place.partition(":")[0]) for what, place in found.outside]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("connects 192.0.2.1", "connects to 192.0.2.1"),
        ("connects shop.invalid", "connects to shop.invalid"),
        ("async 192.0.2.1", "connects to 192.0.2.1"),
        ("system", "starts true"),
    ],
)
def test_it_is_shown_with_its_place(tmp_path: Path, text: str, what: str) -> None:
    assert outside(tmp_path, text) == [(what, "acting.py")]


def test_a_process_is_shown_by_its_command(tmp_path: Path) -> None:
    [(what, place)] = outside(tmp_path, "popen")
    assert (what.startswith("starts "), place) == (True, "acting.py")


def test_a_program_that_starts_a_python_past_replay_is_shown(tmp_path: Path) -> None:
    [(what, place)] = outside(tmp_path, "perl")
    assert (what.startswith("starts perl -e %ENV = (); exec @ARGV"), place) == (True, "acting.py")


def test_a_connection_that_is_opened_at_import_is_shown(tmp_path: Path) -> None:
    found = outside(tmp_path, "answers", imported="192.0.2.1")
    assert found == [("connects to 192.0.2.1 when it is imported", "acting.py")]
    assert outside(tmp_path, "answers", "192.0.2.*", imported="192.0.2.1") == []


@pytest.mark.parametrize(
    "text", ["answers", "connects 127.0.0.1", "connects api.model.invalid", "async localhost", "machine"]
)
def test_what_is_expected_is_not_shown(tmp_path: Path, text: str) -> None:
    assert outside(tmp_path, text, "*.model.invalid") == []
