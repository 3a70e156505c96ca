"""Private checkouts: made once, whole or not at all, and nothing of the user's is touched."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from replaydiff.replay.engine.checkout import checkout
from replaydiff.replay.errors import VersionError
from tests.engine.project import Project, git, two_revisions


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return two_revisions(tmp_path / "shop")


def checked_out(project: Project, ref: str = "v1") -> Path:
    commit = git(project.folder, "rev-parse", ref).strip()
    return checkout(project.folder, commit, project.folder / ".replay")


def agent(folder: Path) -> str:
    return (folder / "app" / "agent.py").read_text()


def test_revisions_stand_beside_each_other_and_are_used_again(project: Project) -> None:
    one, two = checked_out(project, "v1"), checked_out(project, "v2")
    assert ("v1 {model}" in agent(one), "v2 {model}" in agent(two)) == (True, True)
    (one / "log.txt").write_text("an agent may write new files")
    assert checked_out(project, "v1") == one
    assert (one / "log.txt").exists()


def test_the_users_files_index_branch_and_hooks_are_left_alone(project: Project) -> None:
    project.write("v3")
    (project.folder / "staged").write_text("x")
    git(project.folder, "add", "staged")
    hook = project.folder / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\ntouch ../hook-ran\ntouch hook-ran\n")
    hook.chmod(0o755)
    (project.folder / ".gitignore").unlink()
    status, branches = git(project.folder, "status", "--porcelain"), git(project.folder, "branch", "--all")
    folder = checked_out(project)
    assert git(project.folder, "status", "--porcelain") == status
    assert git(project.folder, "branch", "--all") == branches
    assert not list(folder.parent.rglob("hook-ran"))


def test_no_filter_and_no_monitor_of_the_repository_runs(project: Project, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    git(project.folder, "config", "filter.own.smudge", f"sh -c 'touch {ran}-smudge; cat'")
    git(project.folder, "config", "filter.own.clean", f"sh -c 'touch {ran}-clean; cat'")
    git(project.folder, "config", "filter.own.required", "true")
    git(project.folder, "config", "core.fsmonitor", f"sh -c 'touch {ran}-monitor'")
    (project.folder / ".git" / "info").mkdir(exist_ok=True)
    (project.folder / ".git" / "info" / "attributes").write_text("*.py filter=own\n")
    folder = checked_out(project)
    assert "v1" in agent(folder)
    (folder / "app" / "agent.py").touch()
    assert checked_out(project) == folder
    assert not list(tmp_path.glob("ran*"))


def test_one_that_was_killed_while_it_was_made_is_made_anew(project: Project) -> None:
    folder = checked_out(project)
    # What git leaves when it is killed in the middle: files missing, its own record locked, and no mark.
    (folder / "app" / "agent.py").unlink()
    (project.folder / ".git" / "worktrees" / folder.name / "locked").write_text("initializing")
    folder.with_name(f"{folder.name}.complete").unlink()
    assert "v1" in agent(checked_out(project))


@pytest.mark.parametrize("damage", ["changed", "another commit", "pruned", "gone"])
def test_one_that_is_no_longer_what_it_was_is_made_anew(project: Project, damage: str) -> None:
    folder = checked_out(project)
    if damage == "changed":
        (folder / "app" / "agent.py").write_text("broken")
    elif damage == "another commit":
        git(folder, "checkout", "--quiet", "--detach", "v2")
    elif damage == "pruned":
        shutil.rmtree(project.folder / ".git" / "worktrees")
    else:
        shutil.rmtree(folder)
    assert "v1" in agent(checked_out(project))


def test_two_at_once_end_with_one_whole_checkout(project: Project) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(agent(checked_out(project)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all("v1" in source for source in found)
    assert git(project.folder, "worktree", "list").count(".replay/worktrees") == 1


def test_submodules_are_at_the_commits_that_the_revision_names(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # git fetches a submodule from a folder only where it is told that it may.
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "file")
    shared = tmp_path / "shared"
    shared.mkdir()
    git(shared, "init", "--quiet", "--initial-branch", "main")
    for word in ("one", "two"):
        (shared / "prompt.txt").write_text(word)
        git(shared, "add", "--all")
        git(shared, "commit", "--quiet", "--message", word)
        if word == "one":
            git(project.folder, "submodule", "--quiet", "add", str(shared), "shared")
            project.commit("with-one")
    git(project.folder / "shared", "pull", "--quiet")
    project.commit("with-two")
    one, two = checked_out(project, "with-one"), checked_out(project, "with-two")
    assert [(folder / "shared" / "prompt.txt").read_text() for folder in (one, two)] == ["one", "two"]
    assert checked_out(project, "with-one") == one
    assert (project.folder / "shared" / "prompt.txt").read_text() == "two"

    shutil.rmtree(one)
    shutil.rmtree(shared)
    shutil.rmtree(project.folder / ".git" / "modules")
    with pytest.raises(VersionError, match=r"the submodules of revision .* cannot be fetched"):
        checked_out(project, "with-one")
