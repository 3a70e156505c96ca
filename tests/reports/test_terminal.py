"""The report in a terminal: widths, colours, encodings."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace

import pytest

from replaydiff.diff.result import DiffResult, Kind, Verdict
from replaydiff.reports import registry, terminal
from replaydiff.reports.format import change, interval, score
from tests.reports import results
from tests.stand_ins.full import full

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("name", results.ALL)
@pytest.mark.parametrize("width", [20, 80, *(pytest.param(width, marks=full) for width in (72, 100, 140))])
@pytest.mark.slow
def test_no_line_is_wider_than_asked_for(name: str, width: int) -> None:
    lines = registry.render(results.ALL[name](), "terminal", width=width).splitlines()
    assert max(map(len, lines)) <= max(width, terminal.LEAST_WIDTH)
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("width", [20, 72, 80, 140])
def test_figures_stay_whole(width: int) -> None:
    result = results.hold()
    text = registry.render(result, "terminal", width=width)
    for metric in result.metrics.values():
        for figure in (score(metric.old), change(metric.delta), interval(metric.ci)):
            assert re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d.])", text), figure
    assert "1.24M / 88k" in text
    assert "1.18\u00a0s / 3.42\u00a0s" in text


def test_colour_changes_nothing_but_colour() -> None:
    plain = registry.render(results.hold(), "terminal", width=80)
    colored = registry.render(results.hold(), "terminal", width=80, color=True)
    assert "\x1b" not in plain
    assert "\x1b[1;31mHOLD" in colored
    assert [line.rstrip() for line in ANSI.sub("", colored).splitlines()] == plain.splitlines()


def test_a_trace_cannot_colour_or_move() -> None:
    colored = registry.render(results.hostile(), "terminal", width=80, color=True)
    assert "\x1b" not in ANSI.sub("", colored)
    assert "\\x1b[31mred" in registry.render(results.hostile(), "terminal", width=400)


def with_causes(causes: list[str]) -> DiffResult:
    """A result with a regressed item for each cause."""
    result = results.result({Verdict.REGRESSED: len(causes)})
    items = tuple(
        replace(
            item,
            metrics={"tool_calls": replace(item.metrics["tool_calls"], reason=f"old 3/3: {why}", cause=why)},
        )
        for item, why in zip(result.items, causes, strict=True)
    )
    return replace(result, items=items)


@pytest.mark.parametrize("format_", ["terminal", "markdown", "html"])
def test_a_metric_of_agreement_is_explained_on_the_first_screen(format_: str) -> None:
    hold = results.hold()
    agreement = replace(
        hold, metrics={name: replace(metric, kind=Kind.AGREEMENT) for name, metric in hold.metrics.items()}
    )
    explained = "agreement with recordings, which nobody reviewed"
    assert explained in str(registry.render(agreement, format_, width=140))
    assert explained not in str(registry.render(hold, format_, width=140))


def test_items_that_changed_in_the_same_way_stand_together_the_largest_group_first() -> None:
    text = registry.render(with_causes(["lonely", *["common"] * 5]), "terminal", width=80)
    assert re.findall(r"^  (?:\d+ )?regressed  .*$", text, re.MULTILINE) == [
        "  5 regressed  tool_calls: common",
        "  regressed  trace-0001",
    ]
    listed = re.findall(r"^    (trace-\d+)  1\.00 → 0\.00  Please cancel my order.*…$", text, re.MULTILINE)
    assert listed == ["trace-0002", "trace-0003", "trace-0004"]
    assert "    … and 2 more\n" in text
    assert "    tool_calls: old 3/3: lonely\n" in text


def test_regressed_items_come_first_and_the_rest_is_counted() -> None:
    text = registry.render(results.many(), "terminal", width=100)
    listed = re.findall(r"^  30 (regressed|mixed|improved|inconclusive)  tool_calls", text, re.MULTILINE)
    assert listed == ["regressed", "mixed", "improved", "inconclusive"]
    assert text.count("… and 27 more") == 4
    text = registry.render(
        with_causes([f"cause {letter}" for letter in "abcdefghijklm"]), "terminal", width=100
    )
    assert len(re.findall(r"^  regressed  trace-", text, re.MULTILINE)) == 8
    assert "… and 5 more regressed: replay report" in text


def test_many_metrics_with_long_names_keep_their_figures_and_say_which_decide() -> None:
    names = [f"score:customer_satisfaction_after_handover_{n}" for n in range(8)]
    metrics = {"tool_calls": results.metric(), **{name: results.metric(gated=False) for name in names}}
    text = registry.render(replace(results.hold(), metrics=metrics), "terminal", width=80)
    assert text.count("[−0.15, −0.02]".replace(" ", "\u00a0")) == 9
    assert text.count("smallest detectable change with") == 1
    assert "  do not decide the answer: score:customer" in text
    assert re.search(r"^satisfaction_ *$", text, re.MULTILINE)


def test_no_figure_is_parted_from_its_unit() -> None:
    many = results.many()
    for width in range(72, 120, 3):
        text = registry.render(many, "terminal", width=width)
        assert "1,080\u00a0unchanged" in text
        assert "1,200\u00a0items" in text


def test_warnings_stand_before_every_figure_beside_the_answer() -> None:
    text = registry.render(results.cannot_tell(), "terminal", width=100)
    assert text.index("! the replay cannot be trusted") < text.index("fidelity") < text.index("old → new")


def test_the_next_command_is_at_the_top_and_at_the_end() -> None:
    lines = registry.render(results.hold(), "terminal", width=100).strip().splitlines()
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
    monkeypatch.setenv("COLUMNS", "80")
    terminal.show(results.hold())
    stream.flush()
    text = raw.getvalue().decode(encoding)
    assert ("0.92 → 0.85" in text) == (encoding == "utf-8")
    assert ("0.92 -> 0.85" in text) == (encoding != "utf-8")
    assert "?" not in text
