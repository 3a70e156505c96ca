"""A run with several candidates, in every format: the ranking comes first, and nothing in it becomes markup."""

from __future__ import annotations

import json

import pytest

from replaydiff.diff.compute import compute
from replaydiff.diff.result import DiffResult
from replaydiff.replay.model import Lane, Rule, Status, Usage
from replaydiff.replay.store.connection import open_store
from replaydiff.reports import registry
from tests.diff.build import RUN_ID, item, settings, store, trial, version

HOSTILE = "model=<img src=x onerror=alert(1)>|`[a](http://b)`\n@all"
NAMES = {
    Lane.OLD: version("prod"),
    Lane.NEW: version(HOSTILE),
    Lane("new", 2): version("same"),
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> DiffResult:
    items = [item(f"i{number:02}") for number in range(20)]
    done = []
    for number, of in enumerate(items):
        for lane in NAMES:
            lost = lane == Lane.NEW and number < 8
            done.append(
                trial(
                    of,
                    lane,
                    passed=not lost,
                    cost_usd=0.02 if lane == Lane.NEW else 0.01,
                    latency_ms=800.0 + number,
                    usage=Usage(input_tokens=1000, output_tokens=100),
                    **({"rules": [Rule.MISS], "status": Status.DIVERGED} if lost else {}),
                )
            )
    path = store(tmp_path_factory.mktemp("several"), items, done, lanes=NAMES)
    with open_store(path, read_only=True) as con:
        return compute(con, RUN_ID, settings(path.parent), candidate=Lane.NEW)


@pytest.mark.parametrize("width", [72, 80, 140])
def test_the_terminal_shows_the_ranking_before_all_figures(result: DiffResult, width: int) -> None:
    text = registry.render(result, "terminal", width=width)
    assert all(len(line) <= width for line in text.splitlines())
    ranking, _, rest = text.partition(f"\nrun {RUN_ID}")
    assert ranking.index("\nnew2 ") < ranking.index("\nnew ")
    assert "The figures below are for new, shown as new." in " ".join(ranking.split())
    assert "new against new2: tool_calls −0.40" in " ".join(ranking.split())
    flat = " ".join(rest.split())
    assert "not answered, new: 8 × cancel_order (more often than recorded)" in flat
    assert "cost of a trial $0.010 → $0.020 +$0.010" in flat
    assert "tokens in 1,000 → 1,000 0" in flat


def test_markdown_and_the_page_show_it_too_and_no_name_becomes_markup(result: DiffResult) -> None:
    markdown, page = registry.render(result, "markdown"), registry.render(result, "html")
    assert markdown.index("| new2 |") < markdown.index("\n| metric |")
    assert page.index("Candidates, the best first") < page.index("Items by verdict")
    assert "<img" not in page
    assert "Not answered, new: 8 × cancel" in markdown
    for line in markdown.splitlines():
        if line.startswith("| ") and "model=" in line:
            assert "``model=<img src=x onerror=alert(1)>\\|" in line


def test_json_is_whole_and_junit_is_of_the_candidate_that_is_shown(result: DiffResult) -> None:
    document = json.loads(registry.render(result, "json"))
    assert [one["lane"] for one in document["ranking"]] == ["new2", "new"]
    assert [one["shown"] for one in document["ranking"]] == [False, True]
    assert registry.render(result, "junit").count("<testcase ") == 20
