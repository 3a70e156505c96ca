"""What a conversation costs by its turns: import, sample, replay in three ways, diff and show.

    python benchmarks/long_conversations.py [TURNS…]

A Claude Code session of so many turns (50, 100, 200, 400, 800), 5 KB of text and a tool call each, is imported
into a store of its own. Two agents replay it: `memory` takes the session's id and the new message and keeps
the conversation itself; `whole` takes all messages at each turn, as agents that call a model do. The simulated
user is asked at the recorded turns alone, since both agents follow the recording. Prints seconds of wall time
for each command, and the size of the store. A command starts an interpreter, about 0.5 s.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TURNS = (50, 100, 200, 400, 800)
TEXT_BYTES = 2500
AGENT = '''
"""Follows the recording: reads the file of its turn, and answers as was recorded."""
TURNS = {}

def read_file(file_path: str) -> str:
    raise RuntimeError("a tool ran for real")

def answer(number):
    text = read_file(file_path=f"/p/{number}.py")
    return f"Answer {number}: {text}"

def reply(session_id, message):
    TURNS[session_id] = TURNS.get(session_id, -1) + 1
    return answer(TURNS[session_id])

def whole(messages):
    return answer(sum(message["role"] == "user" for message in messages) - 1)
'''
SETTINGS = """
[tools.read_file]
effect = "read"
[versions.memory]
entrypoint = "agent:reply"
tools = ["agent:read_file"]
path = "."
[versions.whole]
entrypoint = "agent:whole"
tools = ["agent:read_file"]
path = "."
"""


def session(turns: int) -> str:
    """Return the lines of a session."""
    words = random.Random(turns)
    lines: list[str] = []

    def line(kind: str, content: object, **message: object) -> None:
        number = len(lines)
        record = {
            "type": kind,
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "sessionId": "s",
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_790_000_000 + number)),
            "message": {"role": kind, "content": content, **message},
        }
        lines.append(json.dumps(record) + "\n")

    for turn in range(turns):
        filler = [words.randbytes(TEXT_BYTES // 2).hex() for _ in range(2)]
        call = {"type": "tool_use", "id": f"k{turn}", "name": "read_file"}
        line("user", f"Question {turn}: {filler[0]}")
        line("assistant", [{**call, "input": {"file_path": f"/p/{turn}.py"}}], id=f"a{turn}", model="m")
        line("user", [{"type": "tool_result", "tool_use_id": f"k{turn}", "content": filler[1]}])
        line("assistant", [{"type": "text", "text": f"Answer {turn}: {filler[1]}"}], id=f"b{turn}", model="m")
    return "".join(lines)


def measure(turns: int) -> list[str]:
    """Return the row of the table for a conversation of so many turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "agent.py").write_text(AGENT)
        (folder / "replay.toml").write_text(SETTINGS)
        (folder / "s.jsonl").write_text(session(turns))

        def seconds(*arguments: str) -> str:
            began = time.perf_counter()
            completed = subprocess.run(
                [sys.executable, "-m", "replaydiff", *arguments],
                cwd=folder,
                env={**os.environ, "ANTHROPIC_API_KEY": "never asked"},
                capture_output=True,
                text=True,
                check=False,
            )
            if completed.returncode not in (0, 1):
                raise SystemExit(f"replay {' '.join(arguments)}: {completed.stderr or completed.stdout}")
            return f"{time.perf_counter() - began:.1f}"

        def replayed(agent: str, way: str) -> str:
            extra = ["--set", "user.model=claude-haiku-4-5"] if way == "simulated" else []
            run = ["run", "--sample", "all", "--trials", "1", "--no-boundary", "--set", f"user.turns={way}"]
            return seconds(*run, "--old", "observed", "--new", agent, *extra)

        return [
            str(turns),
            seconds("import", "claude-code", "s.jsonl"),
            seconds("sample", "--name", "all"),
            *(replayed("memory", way) for way in ("recorded", "simulated")),
            *(replayed("whole", way) for way in ("recorded", "history", "simulated")),
            seconds("diff"),
            seconds("show", "s"),
            f"{(folder / '.replay' / 'replay.duckdb').stat().st_size / 1e6:.1f}",
        ]


def main() -> None:
    """Print a row for each number of turns."""
    names = ("turns", "import", "sample", "memory, recorded", "memory, simulated", "whole, recorded")
    names = (*names, "whole, history", "whole, simulated", "diff", "show", "store MB")
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}", flush=True)
    for turns in map(int, sys.argv[1:] or TURNS):
        print(f"| {' | '.join(measure(turns))} |", flush=True)


if __name__ == "__main__":
    main()
