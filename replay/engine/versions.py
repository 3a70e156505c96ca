"""From what a person types to a version with everything resolved.

    prod                        a name of [versions]
    git:v1.4.0                  a revision of the agent's repository, in a private checkout
    .   ../other                a folder as it is, uncommitted changes included
    model=claude-sonnet-5-5     the [agent] as it is, with that model
    observed                    what production recorded of the item; nothing is run
    observed:release = '2.1'    the recorded traces that fit a condition

`[agent]` says what all share, `[versions.NAME]` what differs. Relative paths of replay.toml start at its
folder, typed ones at the current folder. A folder or revision is taken to be a copy of the project: the agent
is looked for in it where `[agent] path` says, and the interpreter stays the project's own.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from replay.engine import git
from replay.engine.worktree import checkout
from replay.errors import UnknownNameError, VersionError
from replay.model import Version, VersionKind
from replay.settings import Settings, VersionEntry

FORMS = "or write git:REF, a folder such as `.`, model=NAME, observed or observed:CONDITION"
_LATER = ("http://", "https://", "cmd:")
_OBSERVED = "observed"


def resolve(spec: str, settings: Settings) -> Version:
    """The version that a person named.

    Raises:
        UnknownNameError: no version or git revision is called that.
        VersionError: it is known, and cannot be run as it is described; says what to write.
    """
    if spec in settings.versions:
        return _python(spec, settings, settings.versions[spec])
    form, colon, rest = spec.partition(":")
    if form == _OBSERVED:
        return _observed(spec, rest if colon else None)
    if spec.startswith(_LATER) or spec == "messages":
        raise VersionError(
            f"{spec!r} cannot be run by this version of replay: it runs Python entrypoints, named in "
            "[versions] or as git:REF, a folder or model=NAME, and observed"
        )
    if form == "git" and colon:
        return _python(spec, settings, VersionEntry(git=rest))
    if spec.startswith("model=") and spec != "model=":
        return _python(spec, settings, VersionEntry(model=spec.removeprefix("model=")))
    folder = Path(spec).expanduser()
    if folder.is_dir():
        return _python(spec, settings, VersionEntry(), copy=folder.absolute())
    if "/" in spec or spec in (".", ".."):
        raise VersionError(f"there is no folder {spec} for a version; name one that is there, {FORMS}")
    raise UnknownNameError("version", spec, settings.versions, FORMS)


def changes(stored: Version, now: Version) -> list[str]:
    """What differs between a version as a run stored it and as it is now, in words; environment aside."""
    words = {
        "kind": "kind",
        "entrypoint": "entrypoint",
        "factory": "factory",
        "tools": "tools",
        "commit": "commit",
        "dirty_hash": "uncommitted changes",
        "path": "folder",
        "python": "interpreter",
        "args": "args",
        "condition": "condition",
    }
    return [word for name, word in words.items() if getattr(stored, name) != getattr(now, name)]


def _observed(spec: str, condition: str | None) -> Version:
    if condition is not None and not condition.strip():
        raise VersionError(f"{spec!r} names no condition; write observed:release = '2.1', or observed alone")
    return Version(name=spec, kind=VersionKind.OBSERVED, condition=condition)


def _python(name: str, settings: Settings, entry: VersionEntry, copy: Path | None = None) -> Version:
    """A version of the Python agent; `copy` is the folder of a copy of the project."""
    agent = settings.agent
    entrypoint = entry.entrypoint or agent.entrypoint
    if entrypoint is None:
        raise VersionError(_no_entrypoint(name, settings))
    tools = agent.tools if entry.tools is None else entry.tools
    if tools is None:
        raise VersionError(
            f"version {name!r} does not say where its tool calls can be answered, so its tools would run for "
            f'real; write tools = ["module:function"] in [agent] of {_file(settings)}, naming the dispatcher '
            "or the tool functions, or tools = [] if it has none or they may run"
        )
    commit, dirty = None, None
    if entry.git is not None:
        commit = git.commit_of(settings.root, entry.git)
        folder = _checked_out(name, settings, commit, entry.path or agent.path)
    else:
        folder = _folder(name, settings, entry, copy)
        commit = git.head(folder)
        if commit is not None:
            dirty = git.dirty_hash(folder, _own_files(settings))
    model = {} if entry.model is None else {"model": entry.model}
    environment = {**agent.env, **entry.env}
    return Version(
        name=name,
        kind=VersionKind.PYTHON,
        entrypoint=entrypoint,
        factory=agent.factory if entry.factory is None else entry.factory,
        tools=tools,
        git=entry.git,
        commit=commit,
        dirty_hash=dirty,
        path=str(folder),
        python=_interpreter(name, settings, entry.python or agent.python),
        args={**agent.args, **entry.args, **model},
        env=environment,
        env_names=tuple(sorted(environment)),
    )


def _folder(name: str, settings: Settings, entry: VersionEntry, copy: Path | None) -> Path:
    if copy is not None:
        inside = copy / settings.agent.path
        return Path(os.path.normpath(inside if inside.is_dir() else copy))
    folder = Path(os.path.normpath(settings.root / Path(entry.path or settings.agent.path).expanduser()))
    if not folder.is_dir():
        raise VersionError(
            f"there is no folder {folder} for version {name!r}; mend `path` in {_file(settings)}"
        )
    return folder


def _checked_out(name: str, settings: Settings, commit: str, path: str) -> Path:
    """The agent's folder in a checkout: where it is in the project, which may be a part of the repository."""
    top = checkout(settings.root, commit, settings.data_folder)
    prefix = git.git(settings.root, "rev-parse", "--show-prefix").removesuffix("\n")
    folder = Path(os.path.normpath(top / prefix / path))
    if not folder.is_dir():
        raise VersionError(
            f"revision {commit[:12]} of version {name!r} has no folder {folder.relative_to(top)}; "
            f"mend `path` in {_file(settings)}, or name a revision that has it"
        )
    return folder


def _interpreter(name: str, settings: Settings, python: str | None) -> str | None:
    """The path of an interpreter, not resolved: the link of a virtual environment is what makes it one."""
    if python is None:
        return None
    given = Path(python).expanduser()
    if given.name == python:
        found = shutil.which(python)
        if found is None:
            raise VersionError(f"the interpreter {python} of version {name!r} is not on PATH; mend `python`")
        return found
    path = Path(os.path.abspath(settings.root / given))  # noqa: PTH100 - Path.resolve would follow the link
    if not path.is_file() or not os.access(path, os.X_OK):
        why = "cannot be executed" if path.is_file() else "does not exist"
        raise VersionError(
            f"the interpreter {path} of version {name!r} {why}; mend `python` in {_file(settings)}, "
            "or make the environment: python3 -m venv"
        )
    return str(path)


def _own_files(settings: Settings) -> list[Path]:
    """What lies in a project without being the agent: changing it makes no other version."""
    files = [settings.golden_path, settings.store_path, settings.data_folder]
    return [Path(os.path.realpath(file)) for file in (*files, settings.file) if file is not None]


def _no_entrypoint(name: str, settings: Settings) -> str:
    if settings.file is None:
        return (
            f"version {name!r} has no entrypoint: there is no replay.toml here or above; "
            "`replay init` writes one, then name the agent's function in [agent] entrypoint"
        )
    return (
        f'version {name!r} has no entrypoint; write entrypoint = "app.agent:run_agent" '
        f"(module:function of your agent) in [agent] of {settings.file}"
    )


def _file(settings: Settings) -> str:
    return str(settings.file or "replay.toml (`replay init` writes one)")
