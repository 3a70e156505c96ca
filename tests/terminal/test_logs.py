"""Nothing of a trace is a command to a terminal, a CI log or a spreadsheet."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.replay.terminal.text import shown_json, single_line, spreadsheet_cell, visible, wrapped
from replaydiff.reports import registry
from tests.reports import results

COMMANDS = [
    "##[error]x",
    "##vso[task.setvariable variable=A]1",
    "##teamcity[x]",
    "::error::x",
    "  ::add-mask::e",
    "a ##[x]",
]
TEXTS = st.text(st.sampled_from("#:[] \n\r\u2028\x85vsoteamcityerrorAB\x1b"), max_size=40)
OBEYED = re.compile(r"##\[|##vso\[|##teamcity\[|^\s*::[a-z][^:]*::", re.IGNORECASE | re.MULTILINE)


@pytest.mark.parametrize("text", COMMANDS)
def test_log_commands_are_no_commands_any_more(text: str) -> None:
    for shown in (visible(text), single_line(text), visible(f"a\n{text}\rb"), *wrapped(text, 80)):
        assert not OBEYED.search(shown)
        assert text.replace("#", "").strip()[-1] in shown


@given(TEXTS)
def test_no_text_is_a_log_command(text: str) -> None:
    for shown in (
        visible(text),
        single_line(text),
        shown_json(json.dumps([text], ensure_ascii=False, indent=1)),
    ):
        assert not OBEYED.search(shown)


@given(st.text())
def test_shown_json_means_the_same(text: str) -> None:
    shown = shown_json(json.dumps({text: [text]}, ensure_ascii=False, indent=1))
    assert json.loads(shown) == {text: [text]}
    assert visible(shown) == shown


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_a_spreadsheet_sees_no_formula(start: str) -> None:
    assert spreadsheet_cell(f"{start}1+1") == f"'{start}1+1"
    assert spreadsheet_cell(f"a{start}") == f"a{start}"


def test_junit_is_well_formed_for_every_code_point() -> None:
    result = results.ALL["hold"]()
    first = result.items[0]
    texts = ["".join(map(chr, range(at, at + 300))) for at in range(0, 0x110000, 300) if at + 300 <= 0x110000]
    items = [
        replace(first, item=replace(first.item, id=text, stratum=text[:190], input=text)) for text in texts
    ]
    document = registry.render(replace(result, items=items), "junit")
    assert len(ElementTree.fromstring(document.encode()).findall(".//testcase")) == len(texts)
