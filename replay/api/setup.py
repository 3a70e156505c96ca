"""`replay init`: write settings, a golden set, a workflow and instructions for agents; never over a file."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from replaydiff.replay.api.adapters import FILE as ADAPTER
from replaydiff.replay.api.diagnosis import Diagnosis, diagnose
from replaydiff.replay.api.proposal import SetupProposal
from replaydiff.replay.errors import ReplayError
from replaydiff.replay.files import check_link
from replaydiff.replay.settings.toml import toml_text, tool_table
from replaydiff.replay.terminal.text import single_line

TEMPLATES = Path(__file__).parent / "templates"
GITIGNORE = (".replay/", "replay-report*")
SKILL = Path(".claude", "skills", "replay-check", "SKILL.md")


@dataclass(frozen=True, slots=True)
class SetupFile:
    """A file of a new project, and whether it was written."""

    path: Path
    state: Literal["wrote", "kept", "extended"]


def write_setup(folder: Path, proposal: SetupProposal) -> list[SetupFile]:
    """Write the files of a new project; a file that is there already stays as it is.

    Args:
        folder: of the agent's repository.
        proposal: the content of replay.toml and the workflow.

    Raises:
        ReplayError: .gitignore cannot be read as text, or a link leads a file out of the repository.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings_file, golden, ignored = (
        folder / name for name in ("replay.toml", "cases/golden.jsonl", ".gitignore")
    )
    inside = _inside(folder)
    workflow = workflow_file(folder)
    for target in (settings_file, golden, workflow, ignored, folder / ADAPTER):
        check_link(target)
    settings = _write(settings_file, _template("replay.toml").replace("@AGENT@\n", _agent(proposal)))
    # Settings that were there already name what they call.
    is_adapted = proposal.adapter is not None and settings.state == "wrote"
    return [
        settings,
        _write(golden, ""),
        _write(workflow, _workflow(folder, inside, proposal)),
        *([_write(folder / ADAPTER, proposal.adapter or "")] if is_adapted else []),
        _ignore(ignored),
    ]


def workflow_file(folder: Path) -> Path:
    """Return where the workflow of a project is: GitHub reads them at the top of a repository alone.

    Args:
        folder: of the agent, which may be one of several in its repository.
    """
    inside = _inside(folder)
    top = folder.resolve().parents[len(inside.parts) - 1] if inside.parts else folder
    return top / ".github" / "workflows" / f"{'-'.join(('replay', *inside.parts))}.yml"


def _inside(folder: Path) -> PurePosixPath:
    """Return the path of a folder in its repository; `.` at its top, without one, and for a strange path."""
    path = _git(folder, "rev-parse", "--show-prefix").rstrip("/")
    return PurePosixPath(path if re.fullmatch(r"[\w./@ -]+", path) else ".")


def write_agent_files(folder: Path) -> list[SetupFile]:
    """Write what makes a coding agent check its changes: a section of AGENTS.md, and a skill.

    Args:
        folder: of the agent's repository. An AGENTS.md that is there gets the section at its end, once.

    Raises:
        ReplayError: AGENTS.md cannot be read as text, or a link leads a file out of the repository.
    """
    folder.mkdir(parents=True, exist_ok=True)
    section = _template("agents.md")
    marker = section.partition("\n")[0]
    target, skill = folder / "AGENTS.md", folder / SKILL
    for file in (target, skill):
        check_link(file)
    # The section is one addition, recognised by its marker: what a person changed in it stays.
    lines = (
        ()
        if marker in _present(target, "convert it to UTF-8, then run `replay init --agents` again")
        else (section,)
    )
    return [_extend(target, lines, gap="\n"), _write(skill, _template("skill.md"))]


def check_setup(folder: Path, *, probe: bool) -> Diagnosis:
    """Check a project's settings as `replay doctor` does.

    Args:
        folder: of replay.toml.
        probe: start the agent once. Not done where there is a store already, since one of its traces would be
            replayed and the agent's model called for it, nor where entrypoint or tools are missing.
    """
    from replaydiff.replay.settings import load

    settings = load(folder)
    agent = settings.agent
    is_named = bool(agent.entrypoint or agent.adapter) and agent.tools is not None
    can_start = is_named and not settings.store_path.exists()
    version = str(folder.resolve()) if probe and can_start else None
    return diagnose(lambda: settings, lambda: settings.store_path, probe=version)


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _agent(proposal: SetupProposal) -> str:
    """Return the `[agent]` and `[tools.NAME]` tables."""
    lines = [
        "[agent]",
        "# The function to call with the user's text, sync or async; or an object with solve, run or invoke.",
        *_entrypoint(proposal),
        "# Where tool calls are answered from the recording: a dispatcher (name, args), the tool functions,",
        "# a table of them, or a framework. Required: a tool that is not listed runs, behind the boundary.",
    ]
    if proposal.tools is None:
        lines.append(
            "# Not recognised in your code. Replays are refused until it is set; `tools = []` if it has none."
        )
        lines.append('# tools = ["app.agent:_exec"]')
    else:
        points = ", ".join(map(toml_text, proposal.tools))
        lines.append(f"tools = [{points}]{_comment(proposal.tools_location)}")
    if proposal.path != ".":
        lines.append(f"path = {toml_text(proposal.path)}")
    lines += [
        "# Arguments that are ignored when calls are compared.",
        '# ignore_args = ["request_id"]',
        "",
        "# read: another trace that recorded the same call may answer, with proof (docs/tape.md).",
        "# write: only the item's own recording, and reads after it are answered from the state after it.",
    ]
    comments = {note.effect.name: note.comments for note in proposal.recorded}
    for name, effect in proposal.effects.items():
        lines.append(tool_table(name))
        lines += [f"# {single_line(comment)}" for comment in comments.get(name, ())]
        lines.append(f'effect = "{effect}"' if effect else '# effect = "write"               # please decide')
        if name in proposal.live:
            lines.append('# answer = "live"                # it only opens files of the project: see docs')
    if not proposal.effects:
        lines += ["# [tools.cancel_order]", '# effect = "write"']
    return "\n".join([*lines, "", *_world(proposal), "", ""])


def _world(proposal: SetupProposal) -> Iterator[str]:
    """Yield the `[world]` table, in which nothing is allowed until a person decides it."""
    yield "# Agents reach their models, and change nothing outside their folder. Anything else is blocked"
    yield "# and named. Allow here what must be real. Tools are answered by recordings and need none of it."
    yield "# [world]"
    for key, references, example in (
        ("network", proposal.network, "db.internal:5432"),
        ("writable", proposal.writable, "/var/lib/shop"),
    ):
        if references:
            yield f"# {key} = ["
            yield from (f"#   {toml_text(named.value)},{_comment(named.location)}" for named in references)
            yield "# ]"
        else:
            yield f"# {key} = [{toml_text(example)}]"


def _entrypoint(proposal: SetupProposal) -> Iterator[str]:
    if proposal.entrypoints:
        best, *others = proposal.entrypoints
        yield f"entrypoint = {toml_text(best.value)}{_comment(best.location)}"
        if best.factory:
            yield "factory = true                # it returns the agent"
        yield from (
            f"# entrypoint = {toml_text(candidate.value)}{_comment(candidate.location)}"
            for candidate in others
        )
    elif proposal.adapter is not None:
        yield f'adapter = "./{ADAPTER}"   # {single_line(proposal.adapter_location or "")}'
    else:
        yield '# entrypoint = "app.agent:run_agent"   # in JavaScript: "./src/agent.ts#runAgent"'
    for service in proposal.services:
        endpoint = single_line(service.location)
        yield f"# The endpoint in {endpoint}; its tools must ask the tape (docs/versions.md):"
        yield f"# url = {toml_text('http://localhost:8000' + service.path)}"
        if service.request:
            yield f"# request = '{service.request}'"
        if service.response:
            yield f"# response = {toml_text(service.response)}"


def _comment(location: str | None) -> str:
    """Return a place as a comment at the end of a line."""
    return f"   # {single_line(location)}" if location else ""


def _workflow(folder: Path, inside: PurePosixPath, proposal: SetupProposal) -> str:
    packages = "".join(f"          {command}\n" for command in [*_packages(folder)] or ["true # none"])
    names = list(dict.fromkeys(proposal.environment or ("ANTHROPIC_API_KEY",)))
    defaults = f"    defaults:\n      run: {{working-directory: {json.dumps(str(inside))}}}\n"
    variables = "".join(f"          {name}: ${{{{ secrets.{name} || vars.{name} }}}}\n" for name in names)
    return (
        _template("workflow.yml")
        .replace("@INSTALL@", json.dumps(install_source() or ""))
        .replace("@NAME@", " ".join(("replay", *inside.parts)))
        .replace("@DEFAULTS@", defaults if inside.parts else "")
        .replace("@REPORT@", json.dumps(str(inside / "replay-report.xml")))
        .replace("@RUNTIMES@", "".join(_runtimes(folder, inside)))
        .replace("@PACKAGES@", packages)
        .replace("@ENVIRONMENT@", f"        env:\n{variables}")
    )


_PYTHONS = ("3.12", "3.13", "3.14", "3.11", "3.10")
"""What the agent may run in where its repository names no version, the first choice first."""
_RUNTIME = """      - uses: {action}
        if: steps.cases.outputs.found
        with: {{{version}}}
"""


def _runtimes(folder: Path, inside: PurePosixPath) -> Iterator[str]:
    """Yield the steps that set up what the agent runs in."""
    is_node = (folder / "package.json").is_file()
    if not is_node or _is_python(folder):
        named = _text(folder / ".python-version").strip()
        version = named if re.fullmatch(r"3\.\d+(\.\d+)?", named) else _python(folder)
        action = "actions/setup-python@a26af69be951a213d495a4c3e4e4022e16d87065 # v5.6.0"
        yield _RUNTIME.format(action=action, version=f'python-version: "{version}"')
    if is_node:
        file = next((name for name in (".nvmrc", ".node-version") if (folder / name).is_file()), None)
        version = f"node-version-file: {json.dumps(str(inside / file))}" if file else "node-version: lts/*"
        action = "actions/setup-node@49933ea5288caeca8642d1e84afbd3f7d6820020 # v4.4.0"
        yield _RUNTIME.format(action=action, version=version)


_INSTALLERS = {
    "uv.lock": ("pipx run uv sync --frozen",),
    "poetry.lock": ("pipx install --quiet poetry", "poetry install --no-interaction --no-root"),
    "pdm.lock": ("pipx install --quiet pdm", "pdm sync --no-self"),
    "Pipfile.lock": ("pipx install --quiet pipenv", "pipenv sync"),
    "requirements.txt": ("pip install -r requirements.txt",),
    "environment.yml": ('"$CONDA/bin/conda" env create --quiet --prefix .venv --file environment.yml',),
    "pyproject.toml": ("pip install .",),
}
"""File → what installs the packages that it names, where `replay` finds them; the first counts."""


def _python(folder: Path) -> str:
    """Return a version of Python that the agent's project allows."""
    try:
        project = tomllib.loads(_text(folder / "pyproject.toml")).get("project", {})
        allowed = SpecifierSet(str(project.get("requires-python", "")))
    except (tomllib.TOMLDecodeError, InvalidSpecifier, AttributeError, RecursionError):
        return _PYTHONS[0]
    return next((version for version in _PYTHONS if version in allowed), _PYTHONS[0])


def _is_python(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _INSTALLERS)


def _packages(folder: Path) -> Iterable[str]:
    """Yield the commands that install the agent's own packages."""
    file = next((name for name in _INSTALLERS if (folder / name).is_file()), None)
    # One without a project holds settings of tools.
    if file != "pyproject.toml" or "[project]" in _text(folder / file):
        yield from _INSTALLERS.get(file or "", ())
    if (folder / "pnpm-lock.yaml").is_file():
        yield "corepack enable && pnpm install --frozen-lockfile"
    elif (folder / "yarn.lock").is_file():
        yield "corepack enable && yarn install --immutable"
    elif (folder / "package.json").is_file():
        yield "npm ci" if (folder / "package-lock.json").is_file() else "npm install --no-package-lock"


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def install_source() -> str | None:
    """Return what pip can install this release from on another machine; None where that is unknown.

    A wheel from an index is named by its version, a git URL by its commit. A local folder is of no use there,
    so the address of its `origin` takes its place.
    """
    try:
        distribution = metadata.distribution("replaydiff")
        described = json.loads(distribution.read_text("direct_url.json") or "null")
    except (metadata.PackageNotFoundError, ValueError):
        return None
    if described is None:
        return f"replaydiff=={distribution.version}"
    url = str(described.get("url", ""))
    if "vcs_info" in described:
        return f"git+{url}@{described['vcs_info'].get('commit_id', 'HEAD')}"
    return _origin(Path(url.removeprefix("file://"))) if url.startswith("file://") else url


def _origin(clone: Path) -> str | None:
    """Return the https address of the repository that a folder was cloned from."""
    url = _git(clone, "remote", "get-url", "origin")
    # One with a user or password in it is a secret.
    if not url.startswith("https://") or "@" in url:
        return None
    commit = _git(clone, "rev-parse", "HEAD")
    return f"git+{url}@{commit}" if commit else f"git+{url}"


def _git(clone: Path, *words: str) -> str:
    try:
        result = subprocess.run(
            ["git", "-C", str(clone), *words], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def _write(target: Path, text: str) -> SetupFile:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return SetupFile(target, "kept")
    return SetupFile(target, "wrote")


def _ignore(target: Path) -> SetupFile:
    """Add our lines to .gitignore, leaving every other line as it is."""
    present = _present(target, f"add these lines by hand: {' '.join(GITIGNORE)}").splitlines()
    return _extend(target, [f"{line}\n" for line in GITIGNORE if line not in present])


def _present(target: Path, hint: str) -> str:
    """Return the text of a file, empty where there is none."""
    try:
        return target.read_text(encoding="utf-8") if target.exists() else ""
    except UnicodeDecodeError:
        raise ReplayError(f"{target} is not UTF-8 text", hint=hint) from None


def _extend(target: Path, additions: Sequence[str], gap: str = "") -> SetupFile:
    """Add texts to the end of a file, each from a new line, after `gap` where the file is not empty."""
    if not additions:
        return SetupFile(target, "kept")
    present = target.read_bytes() if target.exists() else b""
    end = "\n" if present and not present.endswith(b"\n") else ""
    with target.open("a", encoding="utf-8") as file:
        file.write(end + (gap if present else "") + "".join(additions))
    return SetupFile(target, "extended" if present else "wrote")
