"""Measure what it takes to get from the clone of an agent's repository to a first answer.

    make agents                                       # environments, then all ten
    python -m benchmarks.first_answer [NAME …]        # prints a row for each

Each repository has two versions: the second one's prompt has the model cancel without looking the order up. The first
one's traffic with a model behind HTTP is logged while its real tools run. Then the repository is cloned, and the commands
of the quick start are typed in the clone: nothing is edited unless a row says so. Every tool that changes something also
writes a line to a file outside, which must not grow in any trial.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from benchmarks.first_answer.agents import AGENTS, AT_ONCE, LOOK_UP, Agent
from benchmarks.first_answer.model import serve

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENTS = Path(os.environ.get("REPLAYDIFF_FRAMEWORKS", ROOT / ".venv-frameworks"))
COMMANDS = (
    "init --yes",
    "import auto logs",
    "sample --month --name monthly",
    "run --old git:v1 --new . --calls 60",
    "diff",
)
"""What is typed after `git clone`."""
STATEMENTS = (
    "import replaydiff as rd",
    'project = rd.open(".", db="{store}.duckdb")',
    'project.import_("logs")',
    'project.sample(month="2026-10", name="monthly")',
    'diff = project.run(old="git:v1", new=".", calls=60).diff()',
    "print(diff.answer, [cause.text for cause in diff.causes][:1])",
)
"""The same steps after `init`, in a script and in the cells of a notebook, each with a store of its own."""
MESSAGES = 24
DRIVER = """
import asyncio, inspect, json, sys
{call}
for text in json.loads(sys.argv[1]):
    done = answer(text)
    if inspect.isawaitable(done):
        asyncio.run(done)
"""
NODE_DRIVER = """
{call}
for (const text of JSON.parse(process.argv[2])) await answer(text);
"""


def git(folder: Path, *words: str) -> None:
    """Run git in a folder."""
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def publish(agent: Agent, origin: Path) -> None:
    """Make the repository with its two versions."""
    for version, prompt in (("v1", LOOK_UP), ("v2", AT_ONCE)):
        for name, text in {**agent.files, ".gitignore": ".venv\nnode_modules\nlogs\ntasks.db\n"}.items():
            file = origin / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.lstrip("\n").replace(LOOK_UP, prompt))
        if version == "v1":
            git(origin, "init", "-q")
        git(origin, "add", "-A")
        git(origin, "commit", "-qm", version)
        git(origin, "tag", version)


def checkout(agent: Agent, origin: Path, folder: Path, version: str) -> None:
    """Clone a version, with the agent's packages installed."""
    git(origin.parent, "clone", "-q", "-b", version, str(origin), str(folder))
    if agent.environment.startswith("node-"):
        shutil.copytree(
            ENVIRONMENTS / agent.environment / "node_modules", folder / "node_modules", symlinks=True
        )
    else:
        (folder / ".venv").symlink_to(ENVIRONMENTS / agent.environment)


def record(agent: Agent, folder: Path) -> None:
    """Send messages to the first version; its model logs the calls, and its tools run."""
    first, second = agent.messages
    texts = json.dumps([(first, second)[number % 2].format(101 + number) for number in range(MESSAGES)])
    if agent.environment.startswith("node-"):
        (folder / "drive.ts").write_text(NODE_DRIVER.format(call=agent.call))
        command = [str(folder / "node_modules" / ".bin" / "tsx"), "drive.ts", texts]
    else:
        command = [str(folder / ".venv" / "bin" / "python"), "-c", DRIVER.format(call=agent.call), texts]
    subprocess.run(command, cwd=folder, check=True)


def in_script(clone: Path) -> str:
    """Return what the statements print when Python runs them."""
    script = "\n".join(STATEMENTS).format(store="script")
    completed = subprocess.run([sys.executable, "-c", script], cwd=clone, capture_output=True, text=True)
    (clone.parent / "script.txt").write_text(completed.stdout + completed.stderr)
    return completed.stdout.strip()


def in_notebook(clone: Path) -> str:
    """Return what the last of a notebook's cells prints, each of which has a statement."""
    cells = [new_code_cell(statement.format(store="notebook")) for statement in STATEMENTS]
    notebook = new_notebook(cells=cells)
    resources = {"metadata": {"path": str(clone)}}
    NotebookClient(
        notebook, timeout=1200, kernel_name="python3", resources=resources, allow_errors=True
    ).execute()
    (clone.parent / "notebook.json").write_text(json.dumps(notebook))
    printed = (output.get("text", "") for output in cells[-1].outputs if output.get("name") == "stdout")
    return "".join(printed).strip()


def measure(agent: Agent, work: Path) -> str:
    """Return the row of an agent."""
    origin, logs, canary = work / "origin", work / "logs", work / "outside" / "canary"
    for folder in (origin, logs, canary.parent):
        folder.mkdir(parents=True)
    canary.touch()
    server = serve(logs / "calls.jsonl")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    os.environ |= {
        "CANARY": str(canary),
        "ANTHROPIC_BASE_URL": url,
        "OPENAI_BASE_URL": f"{url}/v1",
        "REPLAY_TRUST": "1",
    }
    os.environ |= {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "DJANGO_SETTINGS_MODULE": "web.settings"}
    publish(agent, origin)
    checkout(agent, origin, work / "production", "v1")
    record(agent, work / "production")
    del os.environ["DJANGO_SETTINGS_MODULE"]
    real = canary.read_text()
    clone = work / "clone"
    checkout(agent, origin, clone, "main")
    (clone / "logs").mkdir()
    shutil.copy(logs / "calls.jsonl", clone / "logs")
    started = time.monotonic()
    out = work / "out.txt"
    for command in COMMANDS:
        with out.open("a") as file:
            file.write(f"$ replay {command}\n")
            file.flush()
            words = [str(Path(sys.executable).parent / "replay"), *command.split()]
            completed = subprocess.run(words, cwd=clone, stdout=file, stderr=subprocess.STDOUT)
        if completed.returncode not in (0, 3):
            return f"| {agent.title} | stopped at `replay {command}`, {work} | | | | | | | |"
    minutes = (time.monotonic() - started) / 60
    shown = subprocess.run([words[0], "diff", "--json"], cwd=clone, stdout=subprocess.PIPE, check=False)
    diff = json.loads(shown.stdout)
    settings = (clone / "replay.toml").read_text().splitlines()
    named = [
        line.partition("   #")[0].strip()
        for line in settings
        if line.startswith(("entrypoint", "adapter", "tools", "factory"))
    ]
    causes = [cause["text"] for cause in diff["causes"]]
    expected = f"{diff['answer']} {causes[:1]}"
    same = [
        "the same" if said == expected else f"{said}, {work}"
        for said in (in_script(clone), in_notebook(clone))
    ]
    ended = sum(sum(lane["statuses"].values()) for lane in diff["lanes"].values())
    ran = canary.read_text().removeprefix(real).count("\n")
    server.shutdown()
    return (
        f"| {agent.title} | {len(COMMANDS)} | 0 | `{'`, `'.join(named)}` | {diff['answer']}: {causes[0] if causes else diff['reason']} "
        f"| {' | '.join(same)} | {ended} | {ran} | {minutes:.1f} |"
    )


def main() -> None:
    """Measure the named agents, or all; exit with 1 where one stopped, or a row is not as it should be."""
    print(
        "| agent | commands | edits | proposed by `replay init` | first answer | script | notebook | trials | real tools | minutes |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    rows = []
    for name in sys.argv[1:] or AGENTS:
        work = Path(tempfile.mkdtemp(prefix=f"first-answer-{name}-"))
        rows.append(measure(AGENTS[name], work))
        print(rows[-1], flush=True)
    # A folder is named where something went wrong.
    sys.exit(any("/first-answer-" in row for row in rows))


if __name__ == "__main__":
    main()
