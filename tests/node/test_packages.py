"""Revisions of a Node agent, each with the packages of its own lock file."""

import base64
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from replaydiff.replay.model import Lane
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.item_trials import iter_trials
from replaydiff.replay.store.runs import latest_run
from tests.commands.conftest import Replay
from tests.commands.conftest import replay as replay
from tests.node import needs_node

AGENT = """\
import { number } from "tiny";
export const runAgent = async (text) => `${text} by tiny ${number}`;
"""
SETTINGS = '[agent]\nentrypoint = "./agent.mjs#runAgent"\ntools = []\n'
TRACE = {
    "trace_id": "t1",
    "started_at": "2026-10-01T00:00:00Z",
    "input": "counted",
    "final_response": "counted by tiny 1",
}


def write_package(archives: Path, project: Path, number: int) -> None:
    """Have a project depend on a version of `tiny`, an archive in a folder, by its lock file."""
    archive = archives / f"tiny-{number}.tgz"
    with tarfile.open(archive, "w:gz") as file:
        manifest = {"name": "tiny", "version": f"{number}.0.0", "type": "module", "main": "index.js"}
        contents = {
            "package.json": json.dumps(manifest),
            "index.js": f"export const number = {number};",
        }
        for name, content in contents.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content.encode()))
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    root = {"name": "shop", "version": "1.0.0", "dependencies": {"tiny": f"file:{archive}"}}
    package = {
        "version": f"{number}.0.0",
        "resolved": f"file:{archive}",
        "integrity": f"sha512-{digest}",
    }
    (project / "package.json").write_text(json.dumps({**root, "scripts": {"postinstall": "exit 1"}}))
    lock = {"lockfileVersion": 3, "requires": True, "packages": {"": root, "node_modules/tiny": package}}
    (project / "package-lock.json").write_text(json.dumps({"name": "shop", "version": "1.0.0", **lock}))


def git(folder: Path, *words: str) -> None:
    author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", *author, *words], cwd=folder, check=True)


@needs_node
@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm on PATH")
@pytest.mark.slow
def test_revisions_run_with_the_packages_of_their_own_lock_files(
    replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "shop"
    project.mkdir()
    (project / "agent.mjs").write_text(AGENT)
    (project / "replay.toml").write_text(SETTINGS)
    (project / ".gitignore").write_text("node_modules\n.replay\n")
    (project / "traces.jsonl").write_text(json.dumps(TRACE))
    git(project, "init", "-q")
    for number in (1, 2):
        write_package(tmp_path, project, number)
        git(project, "add", ".")
        git(project, "commit", "-qm", f"tiny {number}")
        git(project, "tag", f"v{number}")
    subprocess.run(["npm", "ci", "--ignore-scripts", "--offline", "--silent"], cwd=project, check=True)
    monkeypatch.chdir(project)
    assert replay("import", "jsonl", "traces.jsonl").code == 0
    assert replay("sample", "--size", "1", "--name", "one").code == 0
    compare = ("run", "--sample", "one", "--old", "git:v1", "--new", "git:v2", "--trials", "1", "--no-aa")

    refused = replay(*compare)
    assert refused.code == 2
    assert "the package-lock.json of version 'git:v1' differs" in refused.err
    assert "venv = true" in refused.err

    (project / "replay.toml").write_text(f"{SETTINGS}venv = true\n")
    assert replay(*compare).code == 0
    with open_store(project / ".replay" / "replay.duckdb", read_only=True) as con:
        run = latest_run(con)
        assert run is not None
        answers = {trial.lane: trial.final_response for trial in iter_trials(con, run.id)}
    assert answers == {Lane.OLD: "counted by tiny 1", Lane.NEW: "counted by tiny 2"}
    assert (run.lanes[Lane.OLD].lock or "").startswith("package-lock.json sha256:")
