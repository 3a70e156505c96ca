"""Markdown of a pull request: what a trace says stays text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.diff.result import Verdict
from replaydiff.reports import markdown, registry
from tests.reports import results

OURS = re.compile(r"</?(details|summary|b|sub|br)>|<!-- replaydiff -->")


def outside_code(text: str) -> str:
    """The text without its code spans: in them nothing is read."""
    return re.sub(r"(?<![\\`])(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", text)


def assert_harmless(text: str) -> None:
    """No tag, link, image, mention, reference or address that becomes one."""
    rest = OURS.sub("", outside_code(text)).replace("&#8203;", "\u200b")
    assert "<" not in rest
    assert not re.search(r"(?<!\\)\]", rest)
    assert not re.search(r"(?<!\\)!\[|(?<!\\)`", rest)
    assert not re.search(r"[@#][\w\"]", rest)
    assert "://" not in rest
    assert not re.search(r"\b(www\.|GH-\d)", rest, re.IGNORECASE)


def test_hostile_text_stays_text() -> None:
    text = registry.render(results.hostile(), "markdown")
    # Our own interval in the metrics table has brackets and no address behind them.
    assert_harmless(re.sub(r"\| \[[^|]*\] \|", "|", text))
    assert "evil" in text


@given(st.text(alphabet=st.sampled_from("ab1@#!`|[]()<>&*_~$%^:/.\\ w-"), max_size=60))
def test_escaped_text_of_any_kind_is_harmless(text: str) -> None:
    assert_harmless(markdown.escape(text))


@given(st.text(alphabet=st.sampled_from("ab`| \n\\<@"), max_size=30))
def test_a_code_span_holds_any_text(text: str) -> None:
    span = markdown.code(text)
    assert "\n" not in span
    assert span == "" or outside_code(f"x {span} y") == "x  y"


def test_a_bar_inside_a_table_ends_no_cell() -> None:
    assert markdown.code("a|b", in_table=True) == "`a\\|b`"
    assert markdown.code("a|b") == "`a|b`"


@pytest.mark.slow
def test_a_comment_fits_whatever_the_run() -> None:
    result = results.many(3000)
    long = tuple(
        replace(
            item,
            item=replace(item.item, id=item.item.id + "x" * 300, input="[" * 3000),
            metrics={name: replace(metric, reason="|" * 3000) for name, metric in item.metrics.items()},
        )
        for item in result.items
    )
    text = registry.render(replace(result, items=long), "markdown")
    assert len(text) < 65_536
    assert "more" in text
    assert text.count("<details>") == text.count("</details>")
    many = {f"metric {n}" * 20: results.metric() for n in range(2000)}
    assert len(registry.render(replace(result, metrics=many), "markdown")) < 65_536


def test_a_cause_that_several_share_stands_once() -> None:
    text = registry.render(results.many(), "markdown")
    assert text.count("called cancel\\_order without get\\_order\\_status first") == 1
    assert "- **30** · `tool_calls`: called" in text
    assert text.count("  - … and 10 more") == 4


def test_regressions_are_folded_and_listed_first() -> None:
    text = registry.render(results.hold(), "markdown")
    order = [
        text.index(f"<b>{n} {word}</b>") for n, word in ((4, "regressed"), (1, "mixed"), (3, "improved"))
    ]
    assert order == sorted(order)
    assert str(Verdict.UNCHANGED) not in re.findall(r"<b>\d+ (\w+)</b>", text)
