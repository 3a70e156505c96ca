"""Which tools `replay init` proposes to run live: those that open files of the project and nothing else."""

from __future__ import annotations

import ast
import textwrap

import pytest

from replaydiff.replay.api.local_tools import local_tools


def found(source: str) -> list[str]:
    return local_tools(ast.parse(textwrap.dedent(source)))


@pytest.mark.parametrize(
    "body",
    [
        'return open("notes.json").read()',
        'return json.loads(Path("notes.json").read_text())',
        'with sqlite3.connect("shop.db") as con:\n        con.execute("DELETE FROM orders WHERE id = ?", [x])',
        "with sqlite3.connect(DATABASE) as con:\n        con.commit()",
        'os.makedirs("data", exist_ok=True)\n    open(os.path.join("data", x), "w").write(x)',
        "return helper(x)",
    ],
)
def test_a_tool_on_files_of_the_project_is_proposed(body: str) -> None:
    source = "import json, os, sqlite3\nfrom pathlib import Path\n"
    source += (
        'DATABASE = Path(__file__).parent / "shop.db"\ndef helper(x):\n    return open(DATABASE).read()\n'
    )
    assert "tool" in found(f"{source}def tool(x):\n    {body}\n")


@pytest.mark.parametrize(
    "body",
    [
        "return x",
        'return open("/etc/passwd").read()',
        'return open("../other/notes.json").read()',
        'return open("a").read() + requests.get("https://shop.example").text',
        'open("a")\n    client.post(x)',
        'open("a")\n    os.system(x)',
        'open("a")\n    import socket\n    socket.create_connection((x, 80))',
        'open("a")\n    eval(x)',
        'open("a")\n    return sends(x)',
        'open("a")\n    return unknown(x)',
    ],
)
def test_a_tool_that_may_reach_something_else_is_not(body: str) -> None:
    source = "import os, requests\nimport httpx\nclient = httpx.Client()\n"
    source += "def sends(x):\n    return requests.post(x)\n"
    assert "tool" not in found(f"{source}def tool(x):\n    {body}\n")
