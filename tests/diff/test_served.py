"""What answered a lane's tool calls, and how many trials reached their end, in the document and the reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replaydiff.diff.compute import compute
from replaydiff.diff.document import to_json
from replaydiff.diff.served import ServedCounts
from replaydiff.replay.model import Lane, MissReason, Rule, ServedCall, Status, ToolCall, Trial, VersionKind
from replaydiff.reports.registry import render
from tests.diff.build import RUN_ID, filled, item, settings, trial, version
from tests.stand_ins.schemas import validator

LOOK = ToolCall(name="look", args={"id": "1"}, result="tea")


def answered(rule: Rule, miss: MissReason | None = None) -> ServedCall:
    return ServedCall(call=LOOK, rule=rule, miss=miss)


CALLS = (
    *[answered(Rule.TAPE)] * 3,
    *[answered(Rule.CORPUS, MissReason.NEVER_RECORDED)] * 2,
    answered(Rule.LIVE),
    answered(Rule.SIMULATED),
    answered(Rule.MISS, MissReason.STALE),
    answered(Rule.MISS, MissReason.NEVER_RECORDED),
    answered(Rule.MISS, MissReason.USED_UP),
)


def trials_of(name: str) -> list[Trial]:
    stopped = trial(name, Lane.NEW, calls=(), status=Status.DIVERGED, reason="stale")
    fields = {field: getattr(stopped, field) for field in stopped.__dataclass_fields__}
    return [trial(name, Lane.OLD), Trial(**{**fields, "served": CALLS})]


def test_every_format_shows_what_answered_the_calls(tmp_path: Path) -> None:
    names = ["t1", "t2"]
    done = [made for name in names for made in trials_of(name)]
    facts = {"proofs": {"look": [412, 0], "other": [3, 3]}}
    with filled(
        tmp_path, [item(name) for name in names], done, settings={"facts": facts, "max_false": 0.01}
    ) as con:
        result = compute(con, RUN_ID, settings(tmp_path))
    document = json.loads(json.dumps(to_json(result)))
    validator("diff").validate(document)
    served = document["lanes"]["new"]["served"]
    assert served.pop("corpus_max_false") == pytest.approx(1 - 0.05 ** (1 / 412))
    assert served == {
        "tape": 6, "corpus": 4, "live": 2, "simulated": 2, "miss": 6, "stale": 2, "never_recorded": 2,
        "corpus_related": 0,
    }  # fmt: skip
    assert document["lanes"]["old"]["served"]["tape"] == 4
    assert (document["lanes"]["old"]["reached_end"], document["lanes"]["new"]["reached_end"]) == (1.0, 0.0)
    assert {"tool": "look", "kind": "another state", "calls": 2} in document["lanes"]["new"]["misses"]
    parts = [
        "6 tape",
        "4 other traces (at most 0.7 % false)",
        "2 live",
        "2 simulated",
        "2 stale",
        "2 never recorded",
    ]
    for format_ in ("terminal", "markdown", "html"):
        text = str(render(result, format_, width=160)).replace("\u00a0", " ")
        assert [part for part in [*parts, "reached the end"] if part not in text] == []


def test_answers_without_proof_have_no_bound(tmp_path: Path) -> None:
    done = [made for name in ("t1", "t2") for made in trials_of(name)]
    with filled(tmp_path, [item(name) for name in ("t1", "t2")], done) as con:
        result = compute(con, RUN_ID, settings(tmp_path))
    served = result.lanes[Lane.NEW].served
    assert served is not None
    assert (served.corpus, served.corpus_related, served.corpus_max_false) == (4, 4, None)


def test_a_recorded_lane_was_answered_by_nothing(tmp_path: Path) -> None:
    lanes = {Lane.OLD: version(kind=VersionKind.OBSERVED), Lane.NEW: version("candidate")}
    done = [made for name in ("t1", "t2") for made in trials_of(name)]
    with filled(tmp_path, [item(name) for name in ("t1", "t2")], done, lanes=lanes) as con:
        result = compute(con, RUN_ID, settings(tmp_path))
    assert result.lanes[Lane.OLD].served is None


def test_nothing_counted_is_nothing() -> None:
    counts = ServedCounts()
    counts.add(())
    assert not counts.rules
