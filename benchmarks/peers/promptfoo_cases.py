"""The cases of `performance.py` through promptfoo: python promptfoo_cases.py PROMPTFOO CASES CONCURRENCY.

PROMPTFOO is the command. What is measured is the whole of it, as its evaluation has no other entry.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TEXT = "Hello, I would like to know what became of the order I made last week, it is urgent: "
AGENT = """
class Agent {
  id() { return "agent"; }
  async callApi(prompt) {
    const order = prompt.split(" ").pop();
    return { output: JSON.stringify([{ name: "get_order_status", args: { order_id: order } }]) };
  }
}
module.exports = Agent;
"""


def calls(order):
    return json.dumps([{"name": "get_order_status", "args": {"order_id": order}}], separators=(",", ":"))


def used():
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), spent.ru_utime + spent.ru_stime


def main(promptfoo: str, cases: int, concurrency: str) -> None:
    tests = [
        {
            "vars": {"text": TEXT + f"{number:06d}"},
            "assert": [{"type": "equals", "value": calls(f"{number:06d}")}],
        }
        for number in range(cases)
    ]
    config = {"prompts": ["{{text}}"], "providers": ["file://agent.js"], "tests": tests}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "agent.js").write_text(AGENT)
        (folder / "promptfooconfig.json").write_text(json.dumps(config))
        quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1"}
        env = {**os.environ, **quiet, "PROMPTFOO_CONFIG_DIR": str(folder / "home")}
        version = subprocess.run(
            [promptfoo, "--version"], env=env, capture_output=True, text=True, check=True
        )
        command = [promptfoo, "eval", "-c", "promptfooconfig.json", "-j", concurrency, "-o", "found.json"]
        command += ["--no-cache", "--no-table", "--no-progress-bar"]
        wall, cpu = used()
        subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)
        ended, spent = used()
        found = json.loads((folder / "found.json").read_text())
    assert found["results"]["stats"]["successes"] == cases
    number = version.stdout.split()[-1]
    print(json.dumps({"wall_s": ended - wall, "cpu_s": spent - cpu, "version": number}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
