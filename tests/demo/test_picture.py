"""The picture of the terminal in README and docs is what the demo prints.

make pictures    # takes it anew
"""

from __future__ import annotations

import html
import io
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from replaydiff.diff.compute import compute
from replaydiff.replay import settings
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.runs import chosen_run
from replaydiff.reports import terminal
from tests.demo.run import DemoRun
from tests.docs.test_commands_in_docs import HASHED, ROOT

pytestmark = pytest.mark.slow

PICTURE = ROOT / "docs" / "images" / "terminal.svg"
WIDTH = 96
# No font from elsewhere: a picture loads nothing.
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "font-family: Fira Code, monospace;", "font-family: ui-monospace, Menlo, Consolas, monospace;"
)


def printed(folder: Path) -> str:
    """What `replay diff` prints of the demo's run, in colour."""
    found = settings.load(folder, environ={})
    with open_store(folder / ".replay" / "replay.duckdb", read_only=True) as con:
        result = compute(con, chosen_run(con, None).id, found)
    told = tuple(warning.replace(f"{folder}/", "") for warning in result.warnings)
    text = terminal.render(replace(result, warnings=told), width=WIDTH, color=True, brief=True)
    # Names that differ from run to run.
    return HASHED.sub(lambda match: "20261102-091500-5e1f" if "-" in match[0] else "5e1f0c9", text)


def taken(text: str) -> str:
    """The text as a picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ replay diff", style="bold"))
    console.print(Text.from_ansi(text))
    return console.export_svg(
        title="replay diff", theme=SVG_EXPORT_THEME, code_format=FORMAT, unique_id="replay"
    )


def words(svg: str) -> set[str]:
    """The words of a picture that are no trace's: without its causes."""
    texts = [html.unescape(text) for text in re.findall(r"<text class=[^>]*>(.*?)</text>", svg)]
    begin = next(at for at, text in enumerate(texts) if text.startswith("The\u00a0new"))
    end = next(at for at, text in enumerate(texts) if text.startswith("intended:"))
    texts[begin:end] = []
    return set(re.findall(r"[a-z_]{3,}", " ".join(texts)))


def test_the_picture_of_the_terminal_is_what_the_demo_prints(demo_run: DemoRun) -> None:
    now = taken(printed(demo_run.untouched))
    if target := os.environ.get("REPLAYDIFF_PICTURES"):
        (Path(target) / PICTURE.name).write_text(now, encoding="utf-8")
    kept = PICTURE.read_text(encoding="utf-8")
    assert "url(http" not in kept, "a picture loads nothing"
    # Figures differ from run to run, and with them where lines break; what they are called does not.
    assert words(kept) == words(now), "make pictures"
    assert {"regressed", "improved", "without"} <= set(re.findall(r"\w+", kept))
