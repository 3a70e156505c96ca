"""Kernels and containers that allow less: the strongest boundary that is left, or one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from replaydiff.replay.agents.boundary import SCRIPT
from tests.boundary.canaries import Canaries
from tests.boundary.running import AVAILABLE, run
from tests.boundary.table import ATTEMPTS

CONTAINER = """
import ctypes, importlib.util, os, struct, sys
spec = importlib.util.spec_from_file_location("boundary", sys.argv[1])
boundary = importlib.util.module_from_spec(spec)
spec.loader.exec_module(boundary)
system = boundary._System()
numbers = [int(number) for number in sys.argv[2].split(",")]
program = [boundary._instruction(boundary.LOAD, boundary.NUMBER)]
for number in numbers:
    program.append(boundary._instruction(boundary.JUMP_EQUAL, number, skip_if_false=1))
    program.append(boundary._instruction(boundary.RETURN, boundary.ERROR | int(sys.argv[3])))
program.append(boundary._instruction(boundary.RETURN, boundary.ALLOW))
text = ctypes.create_string_buffer(b"".join(program))
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(text)))
system.prctl("privileges", 38, 1)
system.prctl("a filter", 22, 2, filter)
os.execv(sys.argv[4], sys.argv[4:])
"""
IS_X86 = os.uname().machine == "x86_64"
UNSHARE, MOUNT = ("272", "165") if IS_X86 else ("97", "40")
LANDLOCK = "444,445,446"
EPERM, ENOSYS = 1, 38


def container(calls: str, error: int = EPERM) -> list[str]:
    """Return a command that refuses these system calls to what it starts, as a container's profile does."""
    return [sys.executable, "-I", "-c", CONTAINER, str(SCRIPT), calls, str(error)]


def resolved(calls: str, error: int = EPERM) -> str:
    """Return the boundary that a process in such a container chooses, or why it has none."""
    code = (
        "from replaydiff.replay.agents.boundary import resolve\nfrom replaydiff.replay.errors import VersionError\n"
        "try: print(resolve('auto'))\nexcept VersionError as error: print(error, error.hint)"
    )
    argv = [*container(calls, error), sys.executable, "-c", code]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif("landlock" not in AVAILABLE, reason="this kernel has no Landlock")
@pytest.mark.parametrize("calls", [UNSHARE, MOUNT])
def test_a_container_without_namespaces_has_landlock(calls: str) -> None:
    assert resolved(calls) == "landlock"


def test_a_container_without_either_is_one_sentence() -> None:
    sentence = resolved(f"{UNSHARE},{LANDLOCK}", ENOSYS)
    assert sentence.startswith("this system builds no boundary around an agent (namespaces: ")
    assert "Landlock has no rules for TCP (ABI 0" in sentence
    assert "--no-boundary" in sentence


@pytest.mark.skipif("namespaces" not in AVAILABLE, reason="this kernel has no namespaces")
def test_a_container_without_landlock_has_namespaces() -> None:
    assert resolved(LANDLOCK, ENOSYS) == "namespaces"


@pytest.mark.skipif("landlock" not in AVAILABLE, reason="this kernel has no Landlock")
def test_no_attempt_has_an_effect_in_such_a_container(canaries: Canaries, folder: Path) -> None:
    (folder / "attempts.py").write_text(ATTEMPTS.read_text())
    ended = run(
        "landlock", [sys.executable, "-I", "attempts.py"], folder,
        environment=canaries.environment(), before=container(f"{UNSHARE},{MOUNT}"),
    )  # fmt: skip
    assert "finished" in ended.out, ended.err
    assert canaries.effects() == []


def test_the_folder_of_a_process_may_be_gone_when_the_kind_is_chosen(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = f"import os, shutil; os.chdir({str(gone)!r}); shutil.rmtree({str(gone)!r})\n"
    code += "from replaydiff.replay.agents.boundary import resolve; print(resolve('auto') is not None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(bool(AVAILABLE)) or "builds no boundary" in done.stderr


READING = """
import os
cache = os.path.expanduser("~/.cache")
print(open(f"{cache}/model").read(), open(f"{cache}/mounted/weights").read())
open("/tmp/new-in-memory", "w").write("x")
try: open(f"{cache}/mounted/weights", "w")
except OSError as error: print(error.strerror)
"""


@pytest.mark.skipif("namespaces" not in AVAILABLE, reason="this system has no namespaces")
def test_what_is_mounted_below_a_private_folder_can_be_read(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "agent"
    cache = home / ".cache"
    (cache / "mounted").mkdir(parents=True)
    folder.mkdir()
    (cache / "model").write_text("a model")
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", cache / "mounted"], capture_output=True).returncode:
        pytest.skip("this user cannot mount")
    try:
        (cache / "mounted" / "weights").write_text("its weights")
        argv = [sys.executable, "-I", "-c", READING]
        ended = run("namespaces", argv, folder, environment={"HOME": str(home)})
        assert ended.out == "a model its weights\nRead-only file system\n", ended.err
        assert not Path("/tmp/new-in-memory").exists()
    finally:
        subprocess.run(["umount", "--lazy", cache / "mounted"], check=True)
