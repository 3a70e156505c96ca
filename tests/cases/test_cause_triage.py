"""Causes in triage: one page each, one key for each decision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from replaydiff.cases.triage import causes
from replaydiff.diff.cause_decisions import decisions_path, read_decisions
from replaydiff.diff.compute import compute
from replaydiff.diff.result import CauseState, DiffResult
from replaydiff.replay.settings import MatchSection, Settings
from tests.diff.build import CALLS, RUN_ID, filled, item, settings, trial, trials


@pytest.fixture
def given(tmp_path: Path) -> tuple[DiffResult, Settings]:
    """A run with two causes: 12 items skip the look-up, 12 others call it twice."""
    items = [item(f"t{n:02}") for n in range(50)]
    done = [made for one in items for made in trials(one, old="111", old2="111")]
    for place, one in enumerate(items):
        calls = CALLS[1:] if place < 12 else [CALLS[0], *CALLS] if place < 24 else CALLS
        done += [trial(one, "new", index, calls=calls) for index in range(3)]
    own = settings(tmp_path, match=MatchSection())
    with filled(tmp_path, items, done) as con:
        return compute(con, RUN_ID, own), own


def typed(monkeypatch: pytest.MonkeyPatch, keys: str) -> None:
    left: Iterator[str] = iter(keys)
    monkeypatch.setattr(causes, "read_key", lambda: next(left))


def test_a_page_shows_the_counts_and_an_example_of_both_versions(given: tuple[DiffResult, Settings]) -> None:
    result, _ = given
    page = causes.cause_page(result, result.causes[0], "1 of 2", 100)
    assert "new 36 of 150 trials, old 0, old2 0" in page
    assert "example t" in page
    assert "[a]ccept: intended" in page


def test_each_key_decides_one_cause(
    given: tuple[DiffResult, Settings], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result, own = given
    typed(
        monkeypatch, "x?axanry"
    )  # An unknown key decides nothing, nor does one after `a` that is no answer.
    decided = causes.review_causes(result, own, "Ada")
    assert [(one.state, one.promote) for one in decided] == [
        (CauseState.ACCEPTED, False),
        (CauseState.REJECTED, True),
    ]
    kept = read_decisions(decisions_path(own))
    assert [kept[cause.id] for cause in result.causes] == [CauseState.ACCEPTED, CauseState.REJECTED]
    shown = capsys.readouterr().out
    assert "2 of 2: cause" in shown
    assert "reject: it is a regression" in shown
    assert "add its 3 examples to the golden set, expecting what was recorded" in " ".join(shown.split())


@pytest.mark.parametrize("keys", ["ss", "q", "\x04"])
def test_skipping_and_leaving_decide_nothing(
    given: tuple[DiffResult, Settings], monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    result, own = given
    typed(monkeypatch, keys)
    assert causes.review_causes(result, own, "Ada") == []
    assert not decisions_path(own).exists()


def test_decided_causes_are_not_shown_again(
    given: tuple[DiffResult, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    result, own = given
    typed(monkeypatch, "")
    accepted = tuple(replace(cause, state=CauseState.ACCEPTED) for cause in result.causes)
    assert causes.review_causes(replace(result, causes=accepted), own, "Ada") == []


def test_examples_become_cases_as_the_decision_says(given: tuple[DiffResult, Settings]) -> None:
    result, own = given
    first = result.causes[0]

    def proposed(state: CauseState) -> dict[str, list[str]]:
        found = causes.propose_examples(result, [first], state, golden=own.golden_path, reviewer="Ada")
        assert found.refused == ()
        return {
            proposal.case.id: [call.name for call in proposal.case.expectation.tool_calls or ()]
            for _, proposal in found.proposals
        }

    names = [example.item for example in first.examples]
    recorded, made = [call.name for call in CALLS], [call.name for call in CALLS[1:]]
    assert proposed(CauseState.REJECTED) == dict.fromkeys(names, recorded)
    assert proposed(CauseState.ACCEPTED) == dict.fromkeys(names, made)
    assert proposed(CauseState.OPEN) == {}
