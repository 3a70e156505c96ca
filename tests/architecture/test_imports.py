"""Every module imports alone, without warnings, and the arrows between the packages point one way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.stand_ins.full import full

ROOT = Path(__file__).parents[2]
PACKAGES = ("replay", "importers", "diff", "cases", "reports")
NOT_OURS = ("replay/worker/", "replay/demo/agent")


def _modules() -> list[str]:
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    names = (file.relative_to(ROOT) for file in files)
    return sorted(
        ".".join(("replaydiff", *name.with_suffix("").parts)).removesuffix(".__init__")
        for name in names
        if not name.as_posix().startswith(NOT_OURS) and name.name != "__main__.py"
    )


CHECK = """
import importlib, sys

known = set()

def ours():
    return [name for name in sys.modules if name.split(".")[0] == "replaydiff"]

def first(name):
    '''Import it with nothing of ours loaded but what imports alone, and needs nothing else of ours.'''
    for loaded in ours():
        if loaded not in known:
            del sys.modules[loaded]
    importlib.import_module(name)
    return [found for found in ours() if found not in known]

for name in sys.argv[1:]:
    if name in known:
        continue
    # What it needs comes before it, the latest to begin first; then it needs nothing that is not known.
    needed = first(name)
    for inner in reversed(needed):
        if first(inner) == [inner]:
            known.add(inner)
    known.update(first(name))
"""


@full
def test_every_module_imports_first_in_a_fresh_interpreter() -> None:
    # One interpreter, and what is known to import alone is not loaded anew: a process a module takes minutes.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHECK, *_modules()], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_worker_imports_nothing_of_ours_and_only_the_standard_library() -> None:
    import ast

    # Python 3.14 has annotationlib; the worker imports it there alone.
    standard = sys.stdlib_module_names | {"annotationlib"}
    for file in (ROOT / "replay" / "worker").glob("*.py"):
        siblings = {other.stem for other in file.parent.glob("*.py")}
        tree = ast.parse(file.read_text())
        for_types = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for part in node.body
            for inner in ast.walk(part)
        }
        for node in ast.walk(tree):
            if node in for_types:
                continue
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                # Relative ones are of its own folder.
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom) and not node.level
                else []
            )
            for name in names:
                root = name.split(".")[0]
                assert root in standard or root in siblings, f"{file.name} imports {name}"
