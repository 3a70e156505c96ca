"""What survives: a run whose engine, workers or disk fail at random moments, counted.

    .venv/bin/python benchmarks/kills.py [KILLS] [--items 150] [--seed 7]

Each part replays the same items in two lanes with an agent that always does the same, and compares what every trial
came to with a run that nobody disturbed. Printed are how often it was killed, how many trials there are, how
many of them were lost, there twice, or other than undisturbed, and how often the agent was called: trials that
were in flight at a kill of the engine are run again, at most four here; finished ones never.

- *engine*: `kill -9` of `replay run` at random moments, then `replay run --resume`, until KILLS (30) kills.
- *workers*: `kill -9` of random worker processes while the engine runs. Their trials become `crashed`, which is
  the truth of it; all others are as undisturbed.
- *disk*: the store on a file system of a few megabytes (where a user namespace may mount one), which fills up;
  then it is made larger and the run resumed.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

AGENT = """
import os, time

def call(name, args) -> str:
    return "THE REAL TOOL RAN"

def run(text):
    with open(os.environ["CALLS"], "a") as file:
        file.write(text + "\\n")
    time.sleep(float(os.environ.get("SECONDS", "0")))
    return call("look_up", {"order": text}) * int(os.environ.get("TIMES", "1"))
"""
SETTINGS = """
[agent]
entrypoint = "agent:run"
tools = ["agent:call"]
[run]
concurrency = 4
trials = 1
aa = false
[versions.one]
[versions.two]
args = {}
env = { TWO = "2" }
"""
RUN = ("run", "--old", "one", "--new", "two")
SECONDS = "0.05"
"""What a trial takes."""
SMALL, LARGE = "20m", "400m"


class Project:
    """A project with `items` traces and a sample of all of them."""

    def __init__(self, folder: Path, items: int) -> None:
        self.folder, self.calls = folder, folder / "calls.txt"
        folder.mkdir(exist_ok=True)
        (folder / "agent.py").write_text(AGENT)
        (folder / "replay.toml").write_text(SETTINGS)
        lines = [
            json.dumps(
                {
                    "trace_id": f"order-{number}",
                    "started_at": "2026-10-03T12:00:00Z",
                    "input": f"order-{number}",
                    "final_response": "ok",
                    "tool_calls": [
                        {
                            "name": "look_up",
                            "args": {"order": f"order-{number}"},
                            "result": f"{number} is shipped. ",
                        }
                    ],
                }
            )
            for number in range(items)
        ]
        (folder / "traces.jsonl").write_text("\n".join(lines))
        self.replay("import", "jsonl", "traces.jsonl")
        self.replay("sample", "--month", "2026-10", "--size", str(items), "--name", "all")

    def start(self, *args: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "replaydiff", *args],
            cwd=self.folder,
            env={**os.environ, "CALLS": str(self.calls), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def replay(self, *args: str, allowed: tuple[int, ...] = (0,), **environment: str) -> str:
        process = self.start(*args, **environment)
        out, err = process.communicate()
        assert process.returncode in allowed, (
            f"replay {' '.join(args)} ended with {process.returncode}: {err}"
        )
        return out + err

    def trials(self) -> list[tuple[tuple[str, str, int], str, str]]:
        rows = [json.loads(line) for line in self.replay("export", "runs").splitlines() if line[:1] == "{"]
        return [
            ((row["item_id"], row["lane"], row["trial"]), row["status"], row["final_response"])
            for row in rows
        ]

    def times_called(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


def report(what: str, project: Project, wanted: dict[tuple[str, str, int], str], disturbed: str) -> None:
    trials = project.trials()
    keys = Counter(key for key, _, _ in trials)
    statuses = Counter(status for _, status, _ in trials)
    other = sum(status == "ok" and response != wanted.get(key) for key, status, response in trials)
    print(
        f"{what:<8} {disturbed}: {len(trials)} trials of {len(wanted)}, {len(wanted.keys() - keys.keys())} lost, "
        f"{sum(count > 1 for count in keys.values())} there twice, {other} other than undisturbed; "
        f"{', '.join(f'{count} {status}' for status, count in sorted(statuses.items()))}; the agent was called "
        f"{project.times_called()} times",
        flush=True,
    )


def kill_engine(folder: Path, items: int, kills: int, chance: random.Random, wanted: dict) -> None:
    project, done, begun = Project(folder, items), 0, False
    while True:
        called = project.times_called()
        process = project.start(*(("run", "--resume") if begun else RUN), SECONDS=SECONDS)
        # Most kills come while trials are in flight, every fifth at any moment, starting included.
        while done % 5 and process.poll() is None and project.times_called() == called:
            time.sleep(0.01)
        try:
            out, err = process.communicate(timeout=chance.uniform(0.0, 0.6) if done < kills else None)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            done += 1
            begun = begun or project.times_called() > 0
            continue
        assert process.returncode == 0, out + err
        break
    report("engine", project, wanted, f"{done} kills")


def kill_workers(folder: Path, items: int, kills: int, chance: random.Random, wanted: dict) -> None:
    project, done = Project(folder, items), 0
    process = project.start(*RUN, SECONDS=SECONDS)
    while process.poll() is None:
        time.sleep(chance.uniform(0.02, 0.2))
        workers = children(process.pid)
        if workers and done < kills and project.times_called():
            try:
                os.kill(chance.choice(workers), signal.SIGKILL)
                done += 1
            except ProcessLookupError:
                continue
    process.communicate()
    report("workers", project, wanted, f"{done} kills")


def children(pid: int) -> list[int]:
    """Workers below a process: what started as `replaydiff`'s worker file."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int(entry.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            command = entry.joinpath("cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if b"replay/worker" in command.replace(b"\\", b"/") and parent == pid:
            found.append(int(entry.name))
    return found


def fill_disk(items: int, wanted: dict) -> None:
    """Runs in a mount namespace of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", folder], check=True)
        project = Project(Path(folder), items)
        output = project.replay(*RUN, allowed=(75,), TIMES="8000")
        subprocess.run(["mount", "-o", f"remount,size={LARGE}", folder], check=True)
        output += project.replay("run", "--resume", TIMES="8000")
        full = "No space left on device" in output and "Traceback" not in output
        kept = re.findall(r"(\d+) of \d+ trials are there", output)
        report(
            "disk",
            project,
            {key: response * 8000 for key, response in wanted.items()},
            f"{'full, reported in a sentence' if full else 'NOT FULL'}, {kept[0] if kept else 0} trials kept then",
        )
        subprocess.run(["umount", folder], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=30)
    parser.add_argument("--items", type=int, default=150)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--disk", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.disk:
        pairs = json.loads(Path(asked.disk).read_text())
        fill_disk(asked.items, {tuple(key): response for key, response in pairs})
        return
    chance = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        undisturbed = Project(home / "undisturbed", asked.items)
        undisturbed.replay(*RUN)
        wanted = {key: response for key, _, response in undisturbed.trials()}
        kill_engine(home / "engine", asked.items, asked.kills, chance, wanted)
        kill_workers(home / "workers", asked.items, asked.kills, chance, wanted)
        (home / "wanted.json").write_text(
            json.dumps([[list(key), response] for key, response in wanted.items()])
        )
        alone = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, __file__]
        done = subprocess.run(
            [*alone, "--items", str(asked.items), "--disk", str(home / "wanted.json")], check=False
        )
        if done.returncode:
            print("disk     not tried, or failed: this needs Linux and a user namespace that may mount")


if __name__ == "__main__":
    main()
