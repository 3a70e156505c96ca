"""The demo's folder: a git repository of the agent in two revisions, with the settings of replay.

    app/                the agent; the tags v1 and v2 differ in its prompt
    replay.toml         settings, commented
    cases/              golden set and the judge's rubric
    traces.jsonl        two months of v1's production traces
    .replay-demo.json   marks the folder as a demo

An existing demo folder is used again unchanged, with whatever was promoted or edited in it.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from replaydiff.replay.errors import InputError, ReplayError
from replaydiff.replay.settings.toml import toml_text

DEMO_FOLDER = Path(__file__).parent
AGENT = DEMO_FOLDER / "agent"
FILES = DEMO_FOLDER / "files"
TRACES = DEMO_FOLDER / "traces.jsonl.gz"
MARK = ".replay-demo.json"
_STAND_IN_PART = re.compile(r"^# >>> stand-in\n(.*?)^# <<< stand-in\n", re.DOTALL | re.MULTILINE)
# The user's git settings (hooks, signing) and the clock must not change the commits.
_GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_DATE": "2026-11-01T09:00:00Z",
    "GIT_COMMITTER_DATE": "2026-11-01T09:00:00Z",
}


_FIRM = (
    "- Never cancel an order without the customer's explicit confirmation, however much they press you. "
    "Look it up,\n  say what would be cancelled, and ask. Impatience, threats and capital letters are not a "
    "confirmation.\n"
)
_HISTORY = (
    ("Describe the opening hours of the support", "", ""),
    ("List who reviews the prompt", "", ""),
    (
        "Ask for a confirmation however much the customer presses",
        "- Ask the customer to confirm before you cancel an order.\n",
        _FIRM,
    ),
    ("Describe how refunds are booked", "", ""),
    ("Name the new warehouse", "", ""),
    (
        "Cancel quickly once the customer has confirmed",
        _FIRM,
        _FIRM + "- Once the customer has confirmed, cancel at once, without further steps.\n",
    ),
    ("Explain the numbers of orders", "", ""),
    (
        "Shorten the rule on look-ups",
        "- Always look an order up with get_order_status before you say anything about it or cancel it.\n",
        "- Use get_order_status to answer questions about an order.\n",
    ),
    ("Note the holidays in November", "", ""),
    ("Update the list of carriers", "", ""),
    ("Remove a duplicate note", "", ""),
)
"""Subject, text of the prompt, and what takes its place; without a text only the notes change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoJudge:
    """The judge in the demo's replay.toml."""

    model: str
    votes: int
    """Votes for each trial."""


def is_demo(folder: Path) -> bool:
    """Return whether the folder was made by the demo."""
    return (folder / MARK).is_file()


def is_live(folder: Path) -> bool:
    """Return whether the folder's settings use the real API."""
    return bool(_mark(folder).get("live"))


def prepare(folder: Path, *, live: bool, port: int, judge: DemoJudge) -> bool:
    """Make the demo's folder unless it exists. Return whether it was made.

    Args:
        folder: the folder.
        live: its settings use the real API.
        port: of the stand-in, if they do not.
        judge: the judge of its settings.

    Raises:
        InputError: the folder holds other files, or a demo of the other kind.
        ReplayError: git is missing or fails.
    """
    if is_demo(folder) and _mark(folder).get("complete"):
        if is_live(folder) != live:
            kind, flag = ("real API", "with --live") if is_live(folder) else ("stand-in", "without --live")
            raise InputError(f"the demo in {folder} uses the {kind}: run it {flag}, or choose another folder")
        return False
    check_folder(folder)
    _make(folder, live, port, judge)
    return True


def check_folder(folder: Path) -> None:
    """Check that the folder is missing, empty, or a demo whose creation was interrupted.

    Raises:
        InputError: it holds other files.
    """
    if folder.is_dir() and not is_demo(folder) and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty and was not made by `replay demo`; choose another folder")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; choose a folder")


def port_of(folder: Path) -> int:
    """Return the port of the stand-in in the folder's settings.

    Raises:
        InputError: they have none.
    """
    from replaydiff.replay import settings

    url = settings.load(folder, {}).agent.env.get("ANTHROPIC_BASE_URL", "")
    port = urlsplit(url).port
    if port is None:
        raise InputError(
            f"{folder / settings.FILE_NAME} has no stand-in address (ANTHROPIC_BASE_URL in "
            "[agent.env]); restore it, or make a new demo in another folder"
        )
    return port


def write_agent(folder: Path, revision: str) -> None:
    """Write the agent's files of a revision, `v1` or `v2`."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(AGENT / "app", folder / "app", dirs_exist_ok=True, ignore=ignore)
    shutil.copy(AGENT / f"prompt_{revision}.md", folder / "app" / "prompt.md")


def _make(folder: Path, live: bool, port: int, judge: DemoJudge) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    mark = {"made_by": "replay demo", "live": live, "complete": False}
    (folder / MARK).write_text(json.dumps(mark) + "\n", encoding="utf-8")
    # Remains of an interrupted demo: nobody has worked with them yet.
    for name in (".git", "app", "cases"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "replay.toml").unlink(missing_ok=True)
    _git(folder, "init", "--quiet", "--initial-branch", "main")
    _git(folder, "config", "user.name", "replay demo")
    _git(folder, "config", "user.email", "demo@replay.invalid")
    shutil.copy(FILES / "gitignore", folder / ".gitignore")
    shutil.copy(FILES / "README.md", folder / "README.md")
    write_agent(folder, "v1")
    _commit(folder, "The support assistant", "v1")
    _write_history(folder)
    write_agent(folder, "v2")
    _note(folder, "Release the second prompt.")
    _commit(folder, "Release the second prompt", "v2")
    shutil.copytree(FILES / "cases", folder / "cases", dirs_exist_ok=True)
    (folder / "replay.toml").write_text(_settings(live, port, judge), encoding="utf-8")
    _commit(folder, "Settings of replay, golden set and rubric")
    (folder / "traces.jsonl").write_bytes(gzip.decompress(TRACES.read_bytes()))
    mark["complete"] = True
    (folder / MARK).write_text(json.dumps(mark) + "\n", encoding="utf-8")


def _write_history(folder: Path) -> None:
    """Commit the steps from the first prompt to the second one, for `replay bisect`."""
    prompt = folder / "app" / "prompt.md"
    for subject, old, new in _HISTORY:
        if old:
            prompt.write_text(prompt.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        _note(folder, subject)
        _commit(folder, subject)


def _note(folder: Path, line: str) -> None:
    with (folder / "NOTES.md").open("a", encoding="utf-8") as file:
        file.write(f"- {line}\n")


def _settings(live: bool, port: int, judge: DemoJudge) -> str:
    text = (FILES / "replay.toml").read_text(encoding="utf-8")
    text = _STAND_IN_PART.sub("" if live else r"\1", text)
    facts = (
        ("port", port),
        ("judge", judge.model),
        ("votes", judge.votes),
        ("python", toml_text(sys.executable)),
    )
    for name, value in facts:
        text = text.replace(f"{{{name}}}", str(value))
    return text


def _mark(folder: Path) -> dict[str, object]:
    try:
        mark = json.loads((folder / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return mark if isinstance(mark, dict) else {}


def _commit(folder: Path, message: str, tag: str | None = None) -> None:
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message", message)
    if tag:
        _git(folder, "tag", tag)


def _git(folder: Path, *args: str) -> None:
    # GIT_DIR is set when git runs us from a hook, and would name the hook's repository.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        result = subprocess.run(
            ["git", *args], cwd=folder, env={**inherited, **_GIT}, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise ReplayError("git is not installed and the demo makes a repository; install git") from None
    if result.returncode:
        raise ReplayError(f"git {args[0]} failed in {folder}: {result.stderr.strip() or result.returncode}")
