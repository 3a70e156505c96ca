"""What tools do is learnt from recordings, and by their names only where recordings do not contradict."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.effects import EffectChange, ToolEffect, effect_by_name, effects_from, learn_effects
from replaydiff.replay.model import ToolCall
from replaydiff.replay.settings import ToolSection
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import write_traces
from tests.store.build import trace


def learnt(
    tmp_path: Path, *traces: list[tuple[str, Mapping[str, Any], Any]], **tools: ToolSection
) -> dict[str, ToolEffect]:
    """Return the effects that a store with these traces shows; a call is name, arguments, result."""
    built = [
        trace(
            f"trace-{number}",
            tool_calls=tuple(
                ToolCall(index=index, name=name, args=dict(args), result=result)
                for index, (name, args, result) in enumerate(calls)
            ),
        )
        for number, calls in enumerate(traces)
    ]
    with open_store(tmp_path / "store.duckdb") as con:
        write_traces(con, built)
        return learn_effects(con, tools)


TASKS = [("list_tasks", {}, []), ("triage", {"title": "x"}, "ok"), ("list_tasks", {}, ["x"])]


def test_a_tool_after_which_equal_calls_change_writes(tmp_path: Path) -> None:
    effects = learnt(tmp_path, *[TASKS] * 12)
    assert effects["triage"].effect == "write"
    assert effects["triage"].basis == "recordings"
    assert effects["triage"].evidence == (
        "after triage, list_tasks with equal arguments changed in 12 of 12 traces"
    )
    assert (effects["list_tasks"].effect, effects["list_tasks"].basis) == ("read", "name")


def test_other_arguments_and_what_was_called_before_or_after_prove_nothing(tmp_path: Path) -> None:
    effects = learnt(
        tmp_path,
        [("list_tasks", {"of": "a"}, []), ("triage", {}, "ok"), ("list_tasks", {"of": "b"}, ["x"])],
        [("triage", {}, "ok"), ("list_tasks", {}, []), ("list_tasks", {}, []), ("triage", {}, "ok")],
    )
    assert (effects["triage"].effect, effects["triage"].basis) == (None, "unknown")


def test_of_two_tools_that_may_have_written_none_is_blamed(tmp_path: Path) -> None:
    effects = learnt(tmp_path, [TASKS[0], TASKS[1], ("process", {}, 1), TASKS[2]])
    assert (effects["triage"].effect, effects["process"].effect) == (None, None)


def test_a_clock_is_no_witness(tmp_path: Path) -> None:
    clock = [("get_time", {}, 1), ("get_time", {}, 2), ("triage", {}, "ok"), ("get_time", {}, 3)]
    effects = learnt(tmp_path, *[clock] * 3)
    assert effects["triage"].effect is None
    assert not effects["get_time"].steady
    assert effects["triage"].steady


def test_a_set_effect_that_recordings_contradict_has_content_with_the_evidence(tmp_path: Path) -> None:
    effects = learnt(tmp_path, *[TASKS] * 3, triage=ToolSection(effect="read"))
    assert (effects["triage"].effect, effects["triage"].basis) == ("read", "set")
    assert effects["triage"].contradiction == (
        "after triage, list_tasks with equal arguments changed in 3 of 3 traces"
    )
    effects = learnt(tmp_path / "write", *[TASKS] * 3, triage=ToolSection(effect="write"))
    assert effects["triage"].contradiction is None


STEADY = EffectChange("list_tasks", "", 0, 20)
"""Without a call between, the tool returned the same."""


def test_a_read_by_name_is_contradicted_by_half_of_the_traces_and_not_by_few() -> None:
    names = ["get_user", "list_tasks"]
    often = effects_from([STEADY, EffectChange("list_tasks", "get_user", 2, 4)], names, {})
    assert (often["get_user"].effect, often["get_user"].basis) == ("write", "recordings")
    seldom = effects_from([STEADY, EffectChange("list_tasks", "get_user", 1, 40)], names, {})
    assert (seldom["get_user"].effect, seldom["get_user"].basis) == ("read", "name")


def test_a_clock_between_reads_is_unsteady_and_no_read_is_blamed(tmp_path: Path) -> None:
    effects = learnt(
        tmp_path, *[[("get_time", {}, 1), ("get_order", {"id": "7"}, "x"), ("get_time", {}, 2)]] * 3
    )
    assert (effects["get_order"].effect, effects["get_order"].basis) == ("read", "name")
    assert not effects["get_time"].steady


def test_renamed_tools_are_learnt_under_their_present_name(tmp_path: Path) -> None:
    earlier = [TASKS[0], ("sort_out", {}, "ok"), TASKS[2]]
    effects = learnt(tmp_path, earlier, TASKS, triage=ToolSection(renamed_from="sort_out"))
    assert "sort_out" not in effects
    assert effects["triage"].evidence.endswith("2 of 2 traces")


@pytest.mark.parametrize(
    ("name", "effect"),
    [("get_order", "read"), ("searchOrders", "read"), ("orders.list_all", "read"), ("cancel_order", "write"),
     ("sendEmail", "write"), ("mcp__shop__refund", "write"), ("getaway", None), ("triage", None), ("", None), ("_", None),
     ("check_out", None), ("get_next_ticket", None), ("find_or_create_user", None), ("fetch_and_delete", None),
     ("get_order_and_items", "read")],
)  # fmt: skip
def test_effects_are_read_from_the_first_word(name: str, effect: str | None) -> None:
    assert effect_by_name(name) == effect
