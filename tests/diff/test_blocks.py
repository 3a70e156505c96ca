"""Items of equal outcome are computed once, and nothing that is reported depends on it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replaydiff.diff.blocks import PatternKeys, UngradedLanes
from replaydiff.diff.compute import compute
from replaydiff.diff.document import json_parts, to_json
from replaydiff.diff.result import DiffResult, Verdict
from replaydiff.replay.model import CORRECTION, Assertion, Grade, Item, Lane, Rule, Status, Trace, Trial
from replaydiff.replay.model.json import json_text
from replaydiff.replay.settings import MatchSection
from replaydiff.replay.store.traces import write_traces
from tests.diff.build import CALLS, RUN_ID, WHEN, case, filled, item, judged, settings, trial, version
from tests.stand_ins.schemas import validator

ITEMS = 48
LANES = (Lane.OLD, Lane.NEW, Lane.OLD2)


def items(corrected: Sequence[int] = ()) -> Iterator[Item]:
    """Items of two orders with texts of their own, one in six a case."""
    for number in range(ITEMS):
        own = tuple(replace(call, args={"order_id": f"A-{number // 24}"}) for call in CALLS)
        if number % 6 == 5:
            yield case(f"c{number}")
        else:
            known = {CORRECTION: "by hand"} if number in corrected else {}
            yield item(f"t{number}", tape=own, session_id="s" if number < 4 else None, metadata=known)


def trials(of: Item, number: int) -> Iterator[Trial]:
    """Two trials a lane: as recorded, or in one of seven other ways that items of one kind share."""
    for lane in LANES:
        for index in range(2):
            calls, fields = of.tape, dict[str, Any](final_response=f"Order {number} was cancelled.")
            if lane == Lane.NEW:
                kind = number % 8
                if kind == 1:
                    calls = calls[1:]
                elif kind == 2 and index:
                    calls = (*calls, calls[0])
                elif kind == 3:
                    status = Status.TIMEOUT if number < 24 else Status.CRASHED
                    fields = {"status": status, "reason": "it ended"}
                elif kind == 4:
                    fields["final_response"] *= 3
                elif kind == 7:
                    fields["final_response"] = fields["final_response"].upper()
                elif kind == 5:
                    calls = (replace(calls[0], args={"order_id": "of another item"}), *calls[1:])
                elif kind == 6 and index:
                    fields = {"status": Status.DIVERGED, "reason": "a call that was never recorded"}
            missed = fields.get("status") is Status.DIVERGED
            rules = [Rule.TAPE] * (len(calls) - missed) + [Rule.MISS] * missed
            yield trial(of, lane, index, calls=calls, rules=rules, cost_usd=0.01 * (number + 1), **fields)


def grades(done: list[Trial]) -> list[Grade]:
    return [
        judged(one.item_id, one.lane, one.index, float(number % 5 > 0))
        for number, one in enumerate(done)
        if number % 7 == 0 and one.status is Status.OK
    ]


def recorded(known: Sequence[Item]) -> Iterator[Trace]:
    """The traces of sampled items; every other item of each kind was liked by its user."""
    for number, one in enumerate(known):
        if one.trace_id is not None:
            liked = float(number % 16 < 8)
            yield Trace(
                trace_id=one.trace_id,
                source="test",
                started_at=WHEN,
                input=one.input,
                scores={"liked": liked},
            )


def result(
    folder: Path, *, is_judged: bool = False, corrected: Sequence[int] = (), **sections: Any
) -> DiffResult:
    known = list(items(corrected))
    done = [one for number, of in enumerate(known) for one in trials(of, number)]
    folder.mkdir()
    given = grades(done) if is_judged else []
    with filled(folder, known, done, grades=given, lanes={lane: version() for lane in LANES}) as con:
        write_traces(con, recorded(known))
        return compute(con, RUN_ID, settings(folder.parent, **sections))


@pytest.mark.parametrize(
    "sections",
    [
        {},
        {"match": MatchSection()},
        {"match": MatchSection(mode="subset"), "corrected": (0, 8, 9)},
        {"match": MatchSection(trust="scores.liked >= 1")},
        {"match": MatchSection(trust=True, tools={"cancel_order": "ignore"})},
        {"assert_": (Assertion(must_not_call="refund"), Assertion(max_chars=40))},
        {"is_judged": True},
    ],
    ids=["trusted", "agreement", "mixed", "trusted by a condition", "tool rules", "assertions", "judged"],
)
@pytest.mark.slow
def test_a_shared_outcome_is_reported_as_if_each_item_was_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sections: dict[str, Any]
) -> None:
    shared = result(tmp_path / "shared", **sections)
    with monkeypatch.context() as patch:
        patch.setattr(PatternKeys, "of", lambda *_: None)
        single = result(tmp_path / "single", **sections)
    assert not any(isinstance(one.lanes, UngradedLanes) for one in single.items)
    assert json.dumps(to_json(shared)) == json.dumps(to_json(single))
    assert shared.items == single.items
    assert [one.item_ids for one in shared.causes] == [one.item_ids for one in single.causes]


def test_items_share_what_their_trials_did_and_not_what_they_are(tmp_path: Path) -> None:
    ungraded = [one for one in result(tmp_path / "store").items if isinstance(one.lanes, UngradedLanes)]
    assert len(ungraded) >= ITEMS / 3
    for one in ungraded:
        assert set(one.lanes) == set(LANES)
        for lane, done in one.lanes.items():
            assert [graded.trial.lane for graded in done] == [lane, lane]
            assert {graded.trial.item_id for graded in done} == {one.item.id}
            assert {grade.item_id for graded in done for grade in graded.grades.values()} <= {one.item.id}
    with pytest.raises(KeyError):
        ungraded[0].lanes[Lane("new", 2)]


def test_the_document_in_parts_is_the_document(tmp_path: Path) -> None:
    found = result(tmp_path / "store")
    many = replace(found, items=found.items * 3, reason='a line break\n "cases": [], in a text')
    for one in (many, replace(found, items=())):
        assert "".join(json_parts(one, json_text)) == json_text(to_json(one))


def test_a_bounded_document_counts_unchanged_cases_beyond_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 200
    monkeypatch.setattr("replaydiff.diff.document.MOST_CASES", most)
    found = result(tmp_path / "store")
    changed = [one for one in found.items if one.verdict is not Verdict.UNCHANGED]
    unchanged = [one for one in found.items if one.verdict is Verdict.UNCHANGED]
    assert changed
    for number, listed in ((0, len(changed)), (400, most)):
        quiet = [unchanged[place % len(unchanged)] for place in range(number)]
        many = replace(found, items=(*changed, *quiet))
        document = json.loads("".join(json_parts(many, json_text, is_bounded=True)))
        assert document.pop("cases_left_out", 0) == len(many.items) - listed
        whole = json.loads("".join(json_parts(many, json_text)))
        assert document["cases"] == whole["cases"][:listed]
        assert document == {**whole, "cases": document["cases"]}
    # Whatever changed is listed, however much it is.
    many = replace(found, items=(*changed * (most // len(changed) + 1), *unchanged))
    document = json.loads("".join(json_parts(many, json_text, is_bounded=True)))
    assert len(document["cases"]) == len(many.items) - len(unchanged) > most
    assert document["cases_left_out"] == len(unchanged)
    validator("diff").validate({**document, "cases": document["cases"][:3]})
