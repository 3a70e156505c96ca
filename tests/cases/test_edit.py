"""`replay cases edit` and `show`: one case changes, checked before it is saved, and nothing is ever lost."""

from __future__ import annotations

import io
import json
import stat
from datetime import date
from pathlib import Path

import pytest

from tests.commands.conftest import Replay, replay

__all__ = ["replay"]
TODAY = "2026-11-30"
YAML = """\
# The golden set of the shop.

# asked by Ada
- id: a
  input: where is order 7?   # the first one
  expected_tools: [get_order]
  metadata:
    owner: Ada   # since May
- id: c
  input: |
    # not a comment
    x
  expected_tools: [no]
"""
LINES = (
    '{"id": "a", "input": "x", "expected_tools": ["t"], "metadata": {"last_reviewed": "2026-01-01"}}\n'
    '{"input": "y \u2028 z", "id": "c",   "expected_tools": ["t"]}\n'
)


@pytest.fixture(autouse=True)
def _today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaydiff.replay.api.golden.utc_today", lambda: date.fromisoformat(TODAY))


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that is $EDITOR: sed with the expressions that stand in a file, one a call."""
    script = tmp_path / "editor"
    script.write_text(
        f'#!/bin/sh\nline=$(head -n 1 "{tmp_path}/edits")\nsed -i 1d "{tmp_path}/edits"\nsed -i "$line" "$1"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", str(script))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return tmp_path / "edits"


def test_an_edit_of_yaml_keeps_comments_and_counts_as_a_review(
    replay: Replay, tmp_path: Path, editor: Path
) -> None:
    golden = tmp_path / "golden.yaml"
    golden.write_text(YAML)
    editor.write_text("s/order 7/order 8/\n")
    done = replay("cases", "edit", "a", "--cases", str(golden))
    assert (done.code, done.err) == (0, f"saved case a in {golden}, reviewed {TODAY}\n")
    expected = YAML.replace("order 7", "order 8").replace(
        "    owner: Ada", f'    last_reviewed: "{TODAY}"\n    owner: Ada'
    )
    assert golden.read_text() == expected
    assert not list(tmp_path.glob("replay-edit-*"))


def test_lines_keep_their_bytes_and_a_new_tag_is_no_review(
    replay: Replay, tmp_path: Path, editor: Path
) -> None:
    golden = tmp_path / "golden.jsonl"
    golden.write_text(LINES)
    editor.write_text('s/"id": "a",/"id": "a", "tags": ["smoke"],/\n')
    assert replay("cases", "edit", "a", "--cases", str(golden)).code == 0
    first, second = golden.read_text().split("\n")[:2]
    assert second + "\n" == LINES.split("\n")[1] + "\n"
    assert json.loads(first)["tags"] == ["smoke"]
    assert json.loads(first)["metadata"] == {"last_reviewed": "2026-01-01"}


def test_what_is_wrong_is_said_by_line_and_kept(replay: Replay, tmp_path: Path, editor: Path) -> None:
    golden = tmp_path / "golden.jsonl"
    golden.write_text(LINES)
    editor.write_text('s/"t"/7/\n')
    done = replay("cases", "edit", "a", "--cases", str(golden))
    assert done.code == 2
    assert "a.json: line 4: expected_tools must be a list of texts" in done.err
    assert golden.read_text() == LINES
    (kept,) = tmp_path.glob("replay-edit-*/a.json")
    assert f"`replay cases edit a --from {kept}` uses it" in done.err
    kept.write_text(kept.read_text().replace("7", '"u"'))
    assert replay("cases", "edit", "a", "--from", str(kept), "--cases", str(golden)).code == 0
    assert json.loads(golden.read_text().split("\n")[0])["metadata"] == {"last_reviewed": TODAY}


def test_nobody_overwrites_what_somebody_else_has_saved(replay: Replay, tmp_path: Path, editor: Path) -> None:
    golden = tmp_path / "golden.jsonl"
    golden.write_text(LINES)
    theirs = LINES.replace('"x"', '"theirs"')
    (tmp_path / "theirs").write_text(theirs)
    editor.write_text(f's/"x"/"mine"/; w {tmp_path}/seen\n')
    script = tmp_path / "editor"
    script.write_text(script.read_text() + f'cp "{tmp_path}/theirs" "{golden}"\n')
    done = replay("cases", "edit", "a", "--cases", str(golden))
    assert done.code == 2
    assert "was changed meanwhile by somebody else; nothing was changed; what you wrote is in" in done.err
    assert golden.read_text() == theirs
    assert '"mine"' in next(tmp_path.glob("replay-edit-*/a.json")).read_text()


@pytest.mark.parametrize(
    ("edit", "said"),
    [("s/id: a/id: c/", "is a case 'c' already; choose another id"), ("s/input:/inptu:/", "a case needs `input`")],
)  # fmt: skip
def test_a_case_that_would_break_the_set_is_not_saved(
    replay: Replay, tmp_path: Path, editor: Path, edit: str, said: str
) -> None:
    golden = tmp_path / "golden.yaml"
    golden.write_text(YAML)
    editor.write_text(f"{edit}\n")
    done = replay("cases", "edit", "a", "--cases", str(golden))
    assert (done.code, golden.read_text()) == (2, YAML)
    assert said in done.err


def test_a_case_is_shown_as_it_would_be_written(replay: Replay, tmp_path: Path) -> None:
    golden = tmp_path / "golden.yaml"
    golden.write_text(YAML)
    assert "where is order 7?" in replay("cases", "show", "a", "--cases", str(golden)).out
    assert json.loads(replay("cases", "show", "c", "--json", "--cases", str(golden)).out)[
        "expected_tools"
    ] == ["no"]
    assert (
        'expected_tools:\n  - "no"\n'
        in replay("cases", "show", "c", "--format", "yaml", "--cases", str(golden)).out
    )
    assert "did you mean 'a'?" in replay("cases", "show", "aa", "--cases", str(golden)).err
