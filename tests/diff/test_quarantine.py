"""A case in quarantine is replayed and reported, and changes neither figure nor gate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from replaydiff.diff.document import to_json
from replaydiff.diff.result import Verdict
from replaydiff.replay.model import Quarantine
from tests.diff.build import case, item, trials
from tests.diff.test_compute import diffed


def test_a_case_in_quarantine_regresses_beside_the_figures(tmp_path: Path) -> None:
    steady = [case(f"c{n}") for n in range(30)]
    loose = replace(case("loose"), quarantine=Quarantine(owner="Ada", since="2026-11-02", reason="flaky"))
    tagged = replace(case("tagged"), tags=("quarantine",))
    done = [one for held in steady for one in trials(held, old="111", new="111")]
    (tmp_path / "plain").mkdir()
    plain = diffed(tmp_path / "plain", steady, done)
    done += [*trials(loose, old="111", new="000"), *trials(tagged, old="111", new="111")]
    result = diffed(tmp_path, [*steady, loose, tagged], done, gate=("regressed<=0",))
    assert result.gate.is_met
    assert (result.answer, result.reason, result.metrics) == (plain.answer, plain.reason, plain.metrics)
    assert (result.counts.total, result.counts.compared, result.metrics["tool_calls"].regressed) == (
        30,
        30,
        0,
    )
    assert [(one.item.id, one.verdict) for one in result.quarantined] == [
        ("loose", Verdict.REGRESSED), ("tagged", Verdict.UNCHANGED),
    ]  # fmt: skip
    assert result.warnings[-1] == (
        "2 cases are in quarantine and in no figure: loose (regressed; Ada, since 2026-11-02), tagged (unchanged)"
    )
    assert to_json(result)["quarantined"][0] == {
        "id": "loose", "verdict": "regressed", "owner": "Ada", "since": "2026-11-02", "reason": "flaky",
    }  # fmt: skip


def test_a_trace_with_that_tag_counts_like_any_other(tmp_path: Path) -> None:
    traces = [replace(item(f"t{n}"), tags=("quarantine",)) for n in range(3)]
    done = [one for held in traces for one in trials(held, old="111", new="000")]
    result = diffed(tmp_path, traces, done, golden_path=None)
    assert (result.quarantined, result.counts.regressed) == ((), 3)
