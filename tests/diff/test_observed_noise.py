"""An old version that cannot run any more: its noise comes from recordings that are alike, or is unknown."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import replaydiff as rd
from replaydiff.diff.document import to_json
from replaydiff.diff.observed_noise import Recording, alike_pairs, masked_calls
from replaydiff.diff.statistics.alike import AlikeNoise
from replaydiff.replay.model import Json, ToolCall
from tests.stand_ins.schemas import validator

AGENT = """
def get_order(order_id): raise RuntimeError("the real tool")
def cancel(order_id): raise RuntimeError("the real tool")

def run_agent(text):
    order = text.split()[-1]
    get_order(order_id=order)
    {line}
    return f"Order {{order}} is cancelled."
"""
SETTINGS = """
[agent]
entrypoint = "agent:run_agent"
tools = ["agent:get_order", "agent:cancel"]
[versions.same]
path = "same"
[versions.lazy]
path = "lazy"
"""
WORDS = [
    "apple",
    "birch",
    "cedar",
    "delta",
    "ember",
    "frost",
    "grape",
    "heron",
    "iris",
    "jade",
    "kite",
    "lemon",
    "maple",
    "night",
    "olive",
    "pearl",
]


def call(name: str, result: Json, **args: Json) -> ToolCall:
    return ToolCall(name=name, args=dict(args), result=result)


def noise(pairs: int, differing: int, covered: float = 1.0) -> AlikeNoise:
    return AlikeNoise(pairs=pairs, differing=differing, covered=covered)


def diff(folder: Path, inputs: Sequence[str], new: str, cancels: Sequence[bool] = ()) -> rd.Diff:
    """Compare a version with recordings of an agent that cancelled the order, or forgot to."""
    for name, line in (("same", "cancel(order_id=order)"), ("lazy", "pass")):
        (folder / name).mkdir()
        (folder / name / "agent.py").write_text(AGENT.format(line=line))
    (folder / "replay.toml").write_text(SETTINGS)
    lines = []
    for number, text in enumerate(inputs):
        args = {"order_id": text.split()[-1]}
        calls = [{"name": "get_order", "args": args, "result": "active"}]
        if not cancels or cancels[number]:
            calls.append({"name": "cancel", "args": args, "result": "ok"})
        record = {"trace_id": f"t{number}", "started_at": f"2026-10-{1 + number % 28:02}T10:00:00Z"}
        answer = f"Order {text.split()[-1]} is cancelled."
        lines.append(json.dumps({**record, "input": text, "tool_calls": calls, "final_response": answer}))
    (folder / "traces.jsonl").write_text("\n".join(lines))
    project = rd.open(folder)
    project.import_(folder / "traces.jsonl")
    sample = project.sample(month="2026-10", size=len(inputs))
    return project.run(sample, old="observed", new=new, trials=1).diff()


def test_equal_behaviour_ships_with_the_noise_of_alike_recordings(tmp_path: Path) -> None:
    done = diff(tmp_path, [f"Please cancel order {1000 + n}" for n in range(45)], "same")
    assert done.answer == "SHIP"
    assert "beyond what alike recordings differ (0 of 22 pairs act differently)" in done.reason
    document = json.loads(json.dumps(to_json(done.result)))
    validator("diff").validate(document)
    assert document["metrics"]["tool_calls"]["alike"]["pairs"] == 22
    assert document["metrics"]["tool_calls"]["alike"]["ci"][1] == pytest.approx(0.1544, abs=1e-4)
    assert document["run"]["noise"] == "unknown"
    assert "difference from itself" not in json.dumps(document)


def test_without_alike_recordings_it_cannot_tell(tmp_path: Path) -> None:
    done = diff(tmp_path, [f"cancel {a} for {b}" for a in WORDS[:7] for b in WORDS[:7]], "same")
    assert done.answer == "CAN'T TELL"
    assert (
        "how much the old version differs from itself was not measured and cannot be estimated" in done.reason
    )
    assert "0 pairs of nearly the same request, and 10 are needed" in done.reason


def test_a_changed_version_is_not_excused_by_the_noise(tmp_path: Path) -> None:
    forgets = random.Random(1)
    cancels = [forgets.random() > 0.15 for _ in range(60)]
    done = diff(tmp_path, [f"Please cancel order {1000 + n}" for n in range(60)], "lazy", cancels)
    assert done.answer == "CAN'T TELL"
    assert "effects changed in" in done.reason


def test_ids_of_the_request_are_compared_by_their_place() -> None:
    first = masked_calls("cancel order 7 of bo-12", [call("cancel", {"id": 7, "of": "bo-12"}, order="7")])
    second = masked_calls("cancel order 81 of al-3", [call("cancel", {"id": 81, "of": "al-3"}, order="81")])
    assert first == second
    other_order = masked_calls(
        "cancel order 81 of al-3", [call("cancel", {"id": 81, "of": "al-3"}, order="3")]
    )
    assert other_order != second
    assert masked_calls("order 7", [call("look", "17 of 70", n=17)]) == (call("look", "17 of 70", n=17),)


def test_a_pair_counts_only_until_tools_answered_differently() -> None:
    look, lost = call("look", "active"), call("look", "lost")
    cancel = call("cancel", "ok")
    recordings: list[Recording] = [("a", [look, cancel]), ("b", [lost]), ("c", [look]), ("d", [lost, cancel])]
    assert [(first[0], second[0]) for first, second in alike_pairs(recordings)] == [("a", "c"), ("b", "d")]


@pytest.mark.parametrize(
    ("pairs", "differing", "ends"),
    [(30, 0, (0.0, 0.1157)), (61, 4, (0.0182, 0.1595)), (10, 10, (0.6915, 1.0)), (20, 10, (0.2720, 0.7280))],
)
def test_the_interval_is_exact(pairs: int, differing: int, ends: tuple[float, float]) -> None:
    assert noise(pairs, differing).ci == pytest.approx(ends, abs=1e-4)


def test_items_without_alike_recordings_get_no_allowance() -> None:
    assert noise(100, 20).beyond(0.3, (0.2, 0.4), 0.025)[0] == pytest.approx(0.1)
    assert noise(100, 20, covered=0.5).beyond(0.3, (0.2, 0.4), 0.025)[0] == pytest.approx(0.2)
    assert noise(100, 20, covered=0.0).beyond(0.3, (0.2, 0.4), 0.025) == (0.3, pytest.approx((0.2, 0.4)))


@given(st.integers(1, 200), st.data())
def test_more_noise_allows_more_and_the_bound_is_never_below_the_plain_difference(
    pairs: int, data: Any
) -> None:
    differing = data.draw(st.integers(0, pairs))
    share, (_, high) = noise(pairs, differing).beyond(0.2, (0.1, 0.35), 0.025)
    assert share <= high <= 0.35
    assert high >= 0.35 - noise(pairs, differing).ci[1]
    if differing:
        assert high <= noise(pairs, differing - 1).beyond(0.2, (0.1, 0.35), 0.025)[1][1] + 1e-9
        assert 0 < noise(pairs, differing).ci[0] < differing / pairs
