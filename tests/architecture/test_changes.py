"""The five changes of CONTRIBUTING name every file that their example touched, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "datadog": r"(?i)\bdatadog\b",
    "release": r"\.release\b|\brelease=|\"release\"|\brelease:|\brelease +VARCHAR|\brelease,",
    "pair_by": r"\bpair_by\b",
    "new effect": r"\"new effect\"",
    "strands": r"\bstrands\b",
}
"""Example → what its files contain."""
ELSEWHERE = {
    "datadog": {"replay/engine/blocked.py"},
    "release": {
        "replay/commands/compare.py",
        "replay/store/connection.py",
        "importers/chat/model_calls.py",
    },
    "new effect": set(),
    "pair_by": {"diff/judge/existing.py"},
    "strands": {"importers/spans/contents.py", "importers/spans/trace.py", "replay/worker/trials.py"},
}
"""Modules that contain the word for another reason: an address, an example, spans that the framework writes."""
ROOMS = {"release": ("replay", "diff", "cases", "reports", "importers/chat", "importers/spans")}
"""Where an example is looked for; every other in the whole product. Each source fills a field of a trace."""


def _change(example: str) -> str:
    paragraphs = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n\n")
    (paragraph,) = [text for text in paragraphs if text.startswith("**A ") and f"as `{example}`:" in text]
    return paragraph


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_change_names_every_file(example: str) -> None:
    named = set(re.findall(r"`([a-z]\w*/[\w./-]*\.\w+)`", _change(example)))
    assert {name for name in named if not (ROOT / name).is_file()} == set()
    pattern = re.compile(EXAMPLES[example])
    rooms = ROOMS.get(example, ("replay", "importers", "diff", "cases", "reports"))
    touched = {
        path.relative_to(ROOT).as_posix()
        for room in rooms
        for suffix in ("py", "j2", "sql")
        for path in (ROOT / room).rglob(f"*.{suffix}")
        if pattern.search(path.read_text(encoding="utf-8"))
    }
    code = {name for name in named if name.endswith((".py", ".j2", ".sql")) and not name.startswith("tests/")}
    unsaid = {"diff/evidence.py"} if example == "new effect" else set()
    assert code - unsaid == touched - ELSEWHERE[example]
