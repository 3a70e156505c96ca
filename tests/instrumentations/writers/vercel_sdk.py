"""The AI SDK, in Node.js: the program beside this one, run where its packages are."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from common import SCENARIOS, arguments, prompt

url, path, mode = arguments()
# Node.js looks for packages around the program that imports them.
program = Path(shutil.copy(Path(__file__).with_suffix(".mjs"), sys.prefix))
prompts = "".join(json.dumps({"name": name, "text": prompt(name)}) + "\n" for name in SCENARIOS)
subprocess.run(["node", program, url, path, mode], input=prompts, text=True, check=True)
