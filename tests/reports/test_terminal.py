"""The report in a terminal: widths, colours, encodings."""

from __future__ import annotations

import io
import re
import sys

import pytest

from reports import base, terminal
from reports.numbers import change, interval, score
from tests.reports import results

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("name", results.ALL)
@pytest.mark.parametrize("width", [20, 72, 80, 100, 140])
def test_no_line_is_wider_than_asked_for(name: str, width: int) -> None:
    lines = base.render(results.ALL[name](), "terminal", width=width).splitlines()
    assert max(map(len, lines)) <= max(width, terminal.LEAST_WIDTH)
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("width", [20, 72, 80, 140])
def test_figures_stay_whole(width: int) -> None:
    result = results.hold()
    text = base.render(result, "terminal", width=width)
    for metric in result.metrics.values():
        for figure in (score(metric.old), change(metric.delta), interval(metric.ci)):
            assert re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d.])", text), figure
    assert "1.24M / 88k" in text
    assert "1.18\u00a0s / 3.42\u00a0s" in text


def test_colour_changes_nothing_but_colour() -> None:
    plain = base.render(results.hold(), "terminal", width=80)
    colored = base.render(results.hold(), "terminal", width=80, color=True)
    assert "\x1b" not in plain
    assert "\x1b[1;31mHOLD" in colored
    assert [line.rstrip() for line in ANSI.sub("", colored).splitlines()] == plain.splitlines()


def test_a_trace_cannot_colour_or_move() -> None:
    colored = base.render(results.hostile(), "terminal", width=80, color=True)
    assert "\x1b" not in ANSI.sub("", colored)
    assert "\\x1b[31mred" in base.render(results.hostile(), "terminal", width=400)


def test_regressed_items_come_first_and_the_rest_is_counted() -> None:
    text = base.render(results.many(), "terminal", width=100)
    listed = re.findall(r"^  (regressed|mixed|improved|inconclusive)  trace-", text, re.MULTILINE)
    assert listed == ["regressed"] * 10 + ["mixed"] * 5 + ["improved"] * 5 + ["inconclusive"] * 3
    assert "… and 20 more regressed" in text
    assert "… and 27 more inconclusive" in text


def test_warnings_stand_before_every_figure_beside_the_answer() -> None:
    text = base.render(results.cannot_tell(), "terminal", width=100)
    assert text.index("! the replay cannot be trusted") < text.index("fidelity") < text.index("old → new")


def test_the_next_command_is_at_the_top_and_at_the_end() -> None:
    lines = base.render(results.hold(), "terminal", width=100).strip().splitlines()
    command = f"replay show trace-0001 --run {results.RUN}"
    assert command in lines[1]
    assert lines[-1].endswith(command)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_stream_that_cannot_write_our_signs_gets_others(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    monkeypatch.setattr(sys, "stdout", stream)
    terminal.show(results.hold(), width=80)
    stream.flush()
    text = raw.getvalue().decode(encoding)
    assert ("0.92 → 0.85" in text) == (encoding == "utf-8")
    assert ("0.92 -> 0.85" in text) == (encoding != "utf-8")
    assert "?" not in text
