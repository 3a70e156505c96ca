"""Generated pages are what `make docs` would write now, and every link in the docs leads somewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from replaydiff.importers.base import BUILTIN

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_generated_pages_are_fresh() -> None:
    # In a process of its own: click keeps the help option of whoever asked a command first.
    code = "import json, runpy, sys; pages = runpy.run_path(sys.argv[1])['pages'](); "
    code += "print(json.dumps({str(path): text for path, text in pages.items()}))"
    script = str(ROOT / "docs" / "generate.py")
    done = subprocess.run([sys.executable, "-c", code, script], capture_output=True, text=True, check=True)
    for path, text in json.loads(done.stdout).items():
        assert Path(path).read_text() == text, "run `make docs`"


def test_the_readme_counts_the_formats_of_traces() -> None:
    assert f"| {len(BUILTIN)} formats |" in (ROOT / "README.md").read_text(encoding="utf-8")


PRIVATE = re.compile(
    r"\b(whoever|anew|is told|are told|be said|goes on|go on with|held against|stands (in|for|on|beside)|"
    r"nobody answers|asks nothing of)\b"
)
"""Words that say nothing to who did not write the project; the field has its own: see CONTRIBUTING."""
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_are_written_in_plain_words(page: Path) -> None:
    prose = FENCED.sub("", page.read_text(encoding="utf-8"))
    assert [found[0] for found in PRIVATE.finditer(prose)] == []
