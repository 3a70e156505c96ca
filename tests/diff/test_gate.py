"""The gate: conditions, what they may name, and the exit codes they end in."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaydiff.diff.compute import compute
from replaydiff.diff.gate import check_form, exit_code
from replaydiff.diff.result import DiffResult
from replaydiff.replay.errors import ExitCode, SettingsError, UnknownNameError
from replaydiff.replay.settings import GateSection, Settings
from tests.diff.build import RUN_ID, filled, item, settings, trials


def gated(
    folder: Path, *gate: str, new: str = "111", touched: int = 2, given: Settings | None = None
) -> DiffResult:
    items = [item(f"t{n}") for n in range(60)]
    done = [
        t for n, one in enumerate(items) for t in trials(one, old="111", new=new if n < touched else "111")
    ]
    with filled(folder, items, done) as con:
        return compute(con, RUN_ID, given or settings(folder), gate=gate or None)


@pytest.mark.parametrize(
    ("new", "expressions", "held", "code"),
    [
        ("111", ["default"], True, ExitCode.OK),
        ("000", ["default"], False, ExitCode.GATE_FAILED),
        ("000", ["regressed<=2"], True, ExitCode.OK),
        ("000", ["regressed<2"], False, ExitCode.GATE_FAILED),
        ("000", ["tool_calls.delta>=-0.05", "tool_calls.ci_low >= -0.2"], True, ExitCode.OK),
        ("000", ["tool_calls.new>=0.9", "regressed==0"], False, ExitCode.GATE_FAILED),
        ("000", ["cost.new>=0"], None, ExitCode.CANNOT_TELL),
        ("000", ["cost.new>=0", "regressed<=0"], False, ExitCode.GATE_FAILED),
        ("EEE", ["errors<=0"], False, ExitCode.GATE_FAILED),
        ("111", ["fidelity.new>=1", "latency_p95.new<=100", "compared==60"], True, ExitCode.OK),
        ("111", ["cost.new<1"], None, ExitCode.CANNOT_TELL),
    ],
)
def test_gates(tmp_path: Path, new: str, expressions: list[str], held: bool | None, code: ExitCode) -> None:
    gate = gated(tmp_path, *expressions, new=new).gate
    assert (gate.requested, gate.is_met) == (True, held)
    assert [condition.expression for condition in gate.conditions] == expressions
    assert exit_code(gate) is code


def test_a_gate_that_cannot_be_decided(tmp_path: Path) -> None:
    gate = gated(tmp_path, "default", new="EEE", touched=6).gate
    assert (gate.is_met, exit_code(gate)) == (None, ExitCode.CANNOT_TELL)


def test_without_a_gate_nothing_is_decided(tmp_path: Path) -> None:
    gate = gated(tmp_path, new="000").gate
    assert (gate.requested, gate.is_met, gate.conditions) == (False, None, ())
    assert exit_code(gate) is ExitCode.OK


def test_a_gate_in_the_settings_is_asked_for(tmp_path: Path) -> None:
    given = Settings(root=tmp_path, gate=GateSection(max_regressed=2), named_sections=frozenset({"gate"}))
    result = gated(tmp_path, new="000", given=given)
    assert result.gate.requested


def test_floating_point_does_not_decide(tmp_path: Path) -> None:
    condition = gated(tmp_path, f"tool_calls.new>={58 / 60:.12f}", new="000").gate.conditions[0]
    assert condition.is_met


@pytest.mark.parametrize("expression", ["regressed", "regressed<=few", "<=2", "regressed=<2", ""])
def test_what_is_no_condition(expression: str) -> None:
    with pytest.raises(SettingsError, match="is not a condition; write `default`, or a figure"):
        check_form([expression])


@pytest.mark.parametrize(
    "expressions",
    [
        ["regressed<=2", "regressed>5"],
        ["judge.delta>=0.1", "judge.delta<0.1"],
        ["regressed>2", "regressed<3"],
        ["score:x.new==1", "score:x.new!=1"],
        ["errors<0"],
    ],
)
def test_conditions_that_no_run_can_hold(expressions: list[str]) -> None:
    with pytest.raises(SettingsError, match="no run can hold that; correct the numbers"):
        check_form(["default", *expressions])


def test_conditions_that_leave_a_value_are_no_contradiction() -> None:
    check_form(
        ["default", "regressed<=2", "regressed>=2", "judge.delta>-0.1", "judge.delta<=-0.05", "cost.new<1"]
    )


def test_a_misspelt_figure_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no figure 'regresed'; did you mean 'regressed'\?"):
        gated(tmp_path, "regresed<=2")
