"""The table of the attack corpus that docs/security.md shows.

python -m tests.containment.table      # writes it anew
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tests.containment.descendants import STARTS, Start
from tests.containment.shapes import SHAPES, Shape

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
GROUPS = {
    "function": "kinds of functions",
    "holder": "who holds a named function",
    "decorator": "decorated functions",
    "method": "methods and their overrides",
    "table": "tables, tool objects and classes, tools added later",
    "made": "tools that a function makes again during a trial",
    "replaced": "another function put in a tool's place during a trial",
    "fork": "processes: fork",
    "spawn": "processes: spawn",
    "forkserver": "processes: forkserver",
    "subprocess": "processes: subprocess, exec, shell",
}


def table() -> str:
    """Return the table: for each group, how many shapes are answered and refused, and which are refused."""
    corpus: Sequence[Shape | Start] = [*SHAPES, *STARTS]
    rows = [
        "| how the tool is held or called | shapes | answered | refused | real calls |",
        "|---|---|---|---|---|",
    ]
    total = [0, 0]
    for group, title in GROUPS.items():
        refused = [one.name for one in corpus if one.group == group and one.refused]
        count = sum(one.group == group for one in corpus)
        total = [total[0] + count, total[1] + len(refused)]
        listed = f"{len(refused)}: {', '.join(refused)}" if refused else "0"
        rows.append(f"| {title} | {count} | {count - len(refused)} | {listed} | 0 |")
    rows.append(f"| **all** | {total[0]} | {total[0] - total[1]} | {total[1]} | 0 |")
    return "\n".join(rows)


def uncovered() -> str:
    """Return the table of what is not covered, each with the real calls that tests count."""
    rows = [f"| {one.name} | {one.runs} |" for one in SHAPES if one.group == "uncovered"]
    return "\n".join(["| not covered | real calls |", "|---|--:|", *rows])


def with_table(page: str) -> str:
    """Return the page with the current tables between their marks."""
    for mark, text in (("attack corpus", table()), ("not covered", uncovered())):
        begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
        block = f"{begin}\n{text}\n{end}"
        page = re.sub(f"{begin}.*?{end}", lambda _, block=block: block, page, flags=re.DOTALL)  # type: ignore[misc]
    return page


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
