"""Runs behind the boundary, which is the default: the model is reached, and nothing else."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from replaydiff.replay.agents import boundary
from tests.boundary.canaries import Canaries, canaries
from tests.boundary.running import AVAILABLE
from tests.boundary.table import ATTEMPTS
from tests.commands.conftest import Replay
from tests.engine.project import Project
from tests.stand_ins.loopback import serving
from tests.stand_ins.models import Models, models

needs_a_boundary = pytest.mark.skipif(not AVAILABLE, reason="this system builds no boundary")

INTRUSIVE = """
import json, os, subprocess, sys, urllib.request

def run_agent(text):
    attempts = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "attempts.py")
    subprocess.run([sys.executable, "-I", attempts], capture_output=True, check=True)
    body = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(
        os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(),
        {"content-type": "application/json", "x-api-key": os.environ["ANTHROPIC_API_KEY"]},
    )
    with urllib.request.urlopen(request) as answer:
        return f"the model gave a {json.load(answer)['type']}"
"""
NO_TOOLS = '[agent]\nentrypoint = "app.agent:run_agent"\ntools = []\n'
QUIET = "def run_agent(text):\n    return 'fine'\n"


@pytest.fixture(name="canaries")
def canaries_of_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[Canaries]:
    with canaries() as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Models]:
    with models() as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-a-key")
        yield running


@pytest.fixture
def project(replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = Project(tmp_path / "shop")
    project.write("v1", INTRUSIVE)
    (project.folder / "attempts.py").write_text(ATTEMPTS.read_text())
    project.sample(2)
    project.settings(NO_TOOLS)
    monkeypatch.chdir(project.folder)
    return project


@pytest.mark.parametrize("kind", AVAILABLE)
def test_a_run_reaches_its_model_and_nothing_else(
    replay: Replay, project: Project, canaries: Canaries, stand_in: Models, kind: str
) -> None:
    project.settings(f'{NO_TOOLS}[world]\nboundary = "{kind}"\n')
    done = replay("run", "--new", ".")
    assert done.code == 0, done.err
    assert {trial.final_response for trial in project.trials()} == {"the model gave a message"}
    assert canaries.effects() == []
    assert len(stand_in.asked) == 2
    assert f"boundary: {kind}; agents reach their models" in done.out + done.err


@needs_a_boundary
def test_the_boundary_is_the_default_and_can_be_left_out(replay: Replay, project: Project) -> None:
    project.write("v1", QUIET)
    done = replay("run", "--new", ".")
    assert (done.code, f"boundary: {AVAILABLE[0]}" in done.out + done.err) == (0, True)
    assert f"boundary     {AVAILABLE[0]}: agents reach their models" in replay("doctor").out
    done = replay("run", "--new", ".", "--no-boundary")
    assert (done.code, "warning: no boundary keeps the agents" in done.out + done.err) == (0, True)


PROGRAM = r"""
import json, os, subprocess, sys, urllib.request
asked = json.load(sys.stdin)
subprocess.run([sys.executable, "-I", "attempts.py"], capture_output=True, check=True)
call = json.dumps({"name": "get_order_status", "args": {"order_id": asked["input"]}}).encode()
with urllib.request.urlopen(urllib.request.Request(os.environ["REPLAY_TOOLS_URL"], call)) as answer:
    print(json.dumps({"final_response": f"status: {json.load(answer)['result']}"}))
"""


@pytest.mark.parametrize("kind", AVAILABLE)
def test_a_program_reaches_its_tape_and_nothing_else(
    replay: Replay, project: Project, canaries: Canaries, kind: str
) -> None:
    (project.folder / "ask.py").write_text(PROGRAM)
    project.settings(f'[agent]\ntools = "endpoint"\n[world]\nboundary = "{kind}"\n')
    done = replay("run", "--new", f"cmd:{sys.executable} ask.py")
    assert done.code == 0, done.err
    assert all(str(trial.final_response).startswith("status: ") for trial in project.trials())
    assert canaries.effects() == []


LINKED = """
import os, subprocess, sys

ATTEMPT = '''
import contextlib, os, socket, sys
for folder in (".", sys.argv[1]):
    with contextlib.suppress(OSError):
        socket.socket(socket.AF_UNIX).connect(f"{folder}/link.sock")
    with contextlib.suppress(OSError):
        socket.socketpair()[0].connect(f"{folder}/link.sock")
    with contextlib.suppress(OSError):
        os.write(os.open(f"{folder}/link.fifo", os.O_WRONLY | os.O_NONBLOCK), b"x")
    with contextlib.suppress(OSError), open(f"{folder}/link.file", "r+") as file:
        print(file.read())
        file.write(", and more")
'''

def run_agent(text):
    return subprocess.check_output([sys.executable, "-I", "-c", ATTEMPT, "FOLDER"], text=True)
"""


@pytest.mark.parametrize("kind", AVAILABLE)
def test_hard_links_in_the_agents_folder_lead_nowhere_else(
    replay: Replay, project: Project, tmp_path: Path, kind: str
) -> None:
    """They were made before the run, of a socket, a FIFO and a file outside of the folder."""
    project.write("v1", LINKED.replace("FOLDER", str(project.folder)))
    project.settings(f'{NO_TOOLS}[world]\nboundary = "{kind}"\n')
    (tmp_path / "file").write_text("as it was")
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
        server.listen()
        server.setblocking(False)
        for name in ("file", "fifo", "sock"):
            (project.folder / f"link.{name}").hardlink_to(tmp_path / name)
        done = replay("run", "--new", ".")
        assert done.code == 0, done.err
        assert all(str(trial.final_response).startswith("as it was") for trial in project.trials())
        with pytest.raises(BlockingIOError):
            server.accept()
    assert os.read(reader, 1) == b""
    os.close(reader)
    assert (tmp_path / "file").read_text() == "as it was"


def test_a_kernel_that_refuses_is_named(
    replay: Replay, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("v1", QUIET)
    refusals = {"namespaces": "namespaces: No space left on device", "landlock": "Landlock is too old"}
    monkeypatch.setattr(boundary, "refusal_of", refusals.__getitem__)
    done = replay("run", "--new", ".")
    assert (done.code, project.runs()) == (2, [])
    found = replay("doctor")
    assert found.code == 2
    for text in (*refusals.values(), "--no-boundary", "sysctl"):
        assert text in done.err
        assert text in found.out
    assert replay("run", "--new", ".", "--no-boundary").code == 0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ('network = ["db.internal"]', "'db.internal' is no host and port"),
        ('network = ["db.internal:http"]', 'write it like "db.internal:5432"'),
        ('network = [":5432"]', "is no host and port"),
        ('network = ["*:443"]', "is no host and port"),
        ('writable = ["nowhere"]', "[world] writable names"),
        ('boundary = "docker"', "'docker' is none of 'auto'"),
    ],
)
@needs_a_boundary
def test_what_is_wrong_in_the_settings_is_one_sentence(
    replay: Replay, project: Project, settings: str, sentence: str
) -> None:
    project.settings(f"{NO_TOOLS}[world]\n{settings}\n")
    done = replay("run", "--new", ".")
    assert (done.code, project.runs() if done.code != 2 else []) == (2, [])
    assert sentence in done.err
    assert "Traceback" not in done.err


@needs_a_boundary
def test_a_socks_proxy_cannot_be_chained(
    replay: Replay, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("v1", QUIET)
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.example:1080")
    done = replay("run", "--new", ".")
    assert done.code == 2
    assert "ALL_PROXY names a SOCKS proxy" in done.err


def test_a_version_at_a_url_is_said_to_be_outside(replay: Replay, project: Project) -> None:
    with serving(lambda request: (200, {"final_response": "fine"})) as service:
        done = replay("run", "--new", service.url)
    assert "runs outside of the boundary, where its effects are real" in done.out + done.err
