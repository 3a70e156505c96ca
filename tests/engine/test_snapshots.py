"""Snapshots of folders: what they hold, what they leave alone, and when they are refused."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from replaydiff.replay.engine import snapshots
from replaydiff.replay.engine.snapshots import is_there, take
from replaydiff.replay.errors import NoSpaceError, VersionError
from tests.engine.project import Project, git


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "shop")
    project.commit("v1")
    return project


def taken(project: Project) -> Path:
    return take(project.folder, project.folder / ".replay").folder


def files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if (path.is_file() or path.is_symlink()) and path.name != ".git"
    }


def test_a_clean_repository_is_the_checkout_of_its_commit(project: Project) -> None:
    snapshot = take(project.folder, project.folder / ".replay")
    head = git(project.folder, "rev-parse", "HEAD").strip()
    assert (snapshot.commit, snapshot.dirty_hash, snapshot.folder.name) == (head, None, head[:12])


def test_changes_new_files_and_deletions_are_in_it_and_the_index_is_not_touched(project: Project) -> None:
    (project.folder / "staged.txt").write_text("staged")
    git(project.folder, "add", "staged.txt")
    project.write("changed")
    (project.folder / "prompt \n*.md").write_text("new")
    (project.folder / "link").symlink_to("prompt \n*.md")
    (project.folder / "run.sh").write_text("#!/bin/sh\n")
    (project.folder / "run.sh").chmod(0o755)
    (project.folder / "empty").mkdir()
    (project.folder / "replay.toml").unlink()
    before = git(project.folder, "status", "--porcelain", "-z")
    folder = taken(project)
    assert git(project.folder, "status", "--porcelain", "-z") == before
    assert files(folder) == files(project.folder) - {
        f for f in files(project.folder) if f.startswith((".git/", ".replay/"))
    }
    assert "changed {model}" in (folder / "app" / "agent.py").read_text()
    assert os.access(folder / "run.sh", os.X_OK)
    assert (folder / "empty").is_dir()
    assert (folder / "link").read_text() == "new"
    assert taken(project) == folder
    project.write("changed again")
    assert taken(project) != folder
    assert "changed {model}" in (folder / "app" / "agent.py").read_text()


def test_a_change_of_the_same_size_right_after_a_commit_is_seen(project: Project) -> None:
    for version in ("v2", "v3", "v4"):
        project.commit(version)
        project.write(version[::-1])
        assert version[::-1] in (taken(project) / "app" / "agent.py").read_text()


def test_what_git_ignores_is_copied_or_linked(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "LINK_FROM", 1000)
    root = project.folder
    (root / ".gitignore").write_text(
        ".replay/\n__pycache__/\n.env\ndata/\nmodels/\n.venv/\nnode_modules/\n*.log\n"
    )
    git(root, "commit", "--quiet", "--all", "--message", "ignore")
    for name, content in {
        ".env": "KEY=1",
        "data/app.db": "rows",
        "models/weights.bin": "x" * 2000,
        ".venv/pyvenv.cfg": "home = /usr/bin",
        "node_modules/left-pad/index.js": "",
        "app/__pycache__/agent.cpython-311.pyc": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    (root / "packages" / "shared").mkdir(parents=True)
    (root / "packages" / "shared" / "index.js").write_text("first")
    (root / "node_modules" / "shared").symlink_to("../packages/shared")
    folder = taken(project)
    assert not (folder / "app" / "__pycache__").exists()
    assert not (folder / "data" / "app.db").is_symlink()
    assert (folder / "models" / "weights.bin").resolve() == root / "models" / "weights.bin"
    assert (folder / ".venv" / "pyvenv.cfg").resolve() == root / ".venv" / "pyvenv.cfg"
    (root / ".env").write_text("KEY=2")
    (root / "packages" / "shared" / "index.js").write_text("second")
    assert (folder / ".env").read_text() == "KEY=1"
    assert (folder / "node_modules" / "shared" / "index.js").read_text() == "first"
    assert take(root, root / ".replay").folder != folder
    (folder / "data" / "app.db").write_text("an agent writes")
    assert (root / "data" / "app.db").read_text() == "rows"


def test_a_folder_outside_git_is_copied(tmp_path: Path) -> None:
    folder, data = tmp_path / "shop", tmp_path / "shop" / ".replay"
    (folder / "app" / "__pycache__").mkdir(parents=True)
    (folder / "app" / "agent.py").write_text("first")
    (folder / "app" / "__pycache__" / "agent.pyc").write_text("")
    (folder / "outside").symlink_to("../elsewhere")
    (tmp_path / "elsewhere").write_text("text")
    first = take(folder, data, [folder / "golden.jsonl"])
    assert files(first.folder) == {"app/agent.py", "outside"}
    assert (first.folder / "outside").read_text() == "text"
    (folder / "golden.jsonl").write_text("a case")
    assert take(folder, data, [folder / "golden.jsonl"]) == first
    (folder / "app" / "agent.py").write_text("second")
    assert take(folder, data, [folder / "golden.jsonl"]).dirty_hash != first.dirty_hash
    assert (first.folder / "app" / "agent.py").read_text() == "first"
    assert [path.name for path in (data / "worktrees").iterdir() if path.name.startswith("snapshot-")] == []


def test_a_repository_without_commits_has_a_snapshot(tmp_path: Path) -> None:
    project = Project(tmp_path / "shop")
    project.write("first")
    snapshot = take(project.folder, project.folder / ".replay")
    assert (snapshot.commit, snapshot.dirty_hash is None) == (None, False)
    assert (snapshot.folder / "app" / "agent.py").is_file()


def test_no_hook_and_no_filter_of_the_repository_runs(project: Project, tmp_path: Path) -> None:
    marker, root = tmp_path / "ran", project.folder
    for hook in ("post-checkout", "post-index-change", "reference-transaction", "post-commit"):
        file = root / ".git" / "hooks" / hook
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\necho {hook} >> {marker}\n")
        file.chmod(0o755)
    git(root, "config", "filter.evil.clean", f"sh -c 'echo clean >> {marker}; cat'")
    git(root, "config", "filter.evil.smudge", f"sh -c 'echo smudge >> {marker}; cat'")
    git(root, "config", "core.fsmonitor", f"sh -c 'echo monitor >> {marker}'")
    (root / ".gitattributes").write_text("*.py filter=evil\n")
    project.write("changed")
    marker.unlink(missing_ok=True)
    assert "changed" in (taken(project) / "app" / "agent.py").read_text()
    assert not marker.exists()


def test_a_submodule_is_taken_as_it_is(project: Project, tmp_path: Path) -> None:
    inner = Project(tmp_path / "inner")
    inner.commit("first")
    git(
        project.folder,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "--quiet",
        str(inner.folder),
        "inner",
    )
    git(project.folder, "commit", "--quiet", "--message", "inner")
    clean = take(project.folder, project.folder / ".replay")
    assert clean.dirty_hash is None
    assert "first" in (clean.folder / "inner" / "app" / "agent.py").read_text()
    (project.folder / "inner" / "app" / "agent.py").write_text("edited")
    edited = take(project.folder, project.folder / ".replay")
    assert (edited.folder / "inner" / "app" / "agent.py").read_text() == "edited"
    assert edited.dirty_hash is not None
    assert is_there(str(edited.folder), project.folder / ".replay")


def test_a_snapshot_that_was_changed_is_not_used_again(project: Project) -> None:
    project.write("changed")
    folder = taken(project)
    assert is_there(str(folder / "app"), project.folder / ".replay")
    (folder / "app" / "agent.py").write_text("edited")
    assert not is_there(str(folder), project.folder / ".replay")
    assert taken(project) == folder
    assert "changed" in (folder / "app" / "agent.py").read_text()


def test_too_much_is_refused_with_the_largest_file(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with (project.folder / "dump.sql").open("wb") as file:
        file.truncate(5 << 30)
    with pytest.raises(VersionError, match=r"dump\.sql alone 5\.4 GB.*have git ignore what is no code"):
        taken(project)
    (project.folder / "dump.sql").unlink()
    monkeypatch.setattr(snapshots, "MOST_FILES", 2)
    plain = project.folder.parent / "plain"
    plain.mkdir()
    for name in "abc":
        (plain / name).touch()
    with pytest.raises(VersionError, match="is no git repository that ignores what is no code"):
        take(plain, plain / ".replay")
    assert list((project.folder / ".replay" / "worktrees").glob("snapshot-*")) == []


def test_what_cannot_be_read_is_named(project: Project) -> None:
    (project.folder / "nested").mkdir()
    git(project.folder / "nested", "init", "--quiet")
    with pytest.raises(VersionError, match="nested"):
        taken(project)


def test_a_full_disk_can_be_tried_again(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise VersionError("git update-index failed in x: unable to write file: No space left on device")

    monkeypatch.setattr(snapshots, "add_worktree", full)
    project.write("changed")
    (project.folder / "empty").mkdir()
    with pytest.raises(NoSpaceError, match="make room") as refused:
        taken(project)
    assert refused.value.exit_code == 75


def test_the_objects_of_a_snapshot_are_kept_as_long_as_it_is_there(project: Project) -> None:
    project.write("changed")
    folder = taken(project)
    subprocess.run(["git", "gc", "--quiet", "--prune=now"], cwd=project.folder, check=True)
    assert is_there(str(folder), project.folder / ".replay")


def test_an_environment_that_ignores_itself_is_linked_and_stays_as_it_is(project: Project) -> None:
    environment = project.folder / ".venv"
    (environment / "bin").mkdir(parents=True)
    for name in ("pyvenv.cfg", "bin/activate", "bin/python"):
        (environment / name).write_text(name)
    (environment / ".gitignore").write_text("*")
    before = {path: path.read_text() for path in environment.rglob("*") if path.is_file()}
    snapshot = taken(project)
    assert (snapshot / ".venv" / "bin").resolve() == environment / "bin"
    assert {path: path.read_text() for path in environment.rglob("*") if path.is_file()} == before
