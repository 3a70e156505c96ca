"""Mastra's agents, in Node.js: the program beside this one, run where its packages are."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from common import SCENARIOS, arguments, prompt

url, path, mode = arguments()
program = Path(shutil.copy(Path(__file__).with_suffix(".mjs"), sys.prefix))
prompts = "".join(json.dumps({"name": name, "text": prompt(name)}) + "\n" for name in SCENARIOS)
node = Path(sys.prefix) / "node_modules" / ".bin" / "node"
subprocess.run([node, program, url, path, mode], input=prompts, text=True, check=True)
