"""Whether a tool returns text or an object is decided, and a trial that fails on the difference says so."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from replaydiff.replay.agents.attempt import Attempt
from replaydiff.replay.agents.base import ANY_TOOL, Rules
from replaydiff.replay.model import Item, Json, Status, ToolCall
from replaydiff.replay.result_form import ResultForms, result_as, scalar_of
from replaydiff.replay.settings import ToolSection
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import result_forms, write_traces
from tests.agents.running import item, recorded, run_one
from tests.store.build import trace

TEXT, OBJECT = '{"status": "shipped"}', {"status": "shipped"}
READING = """
def get_order(order_id):
    raise SystemError("the real tool ran")

def get_text(order_id) -> str:
    raise SystemError("the real tool ran")

def run_agent(user_message):
    return get_order("1")["status"]

def run_text(user_message):
    return type(get_text("1")).__name__
"""


def attempt(
    result: Json,
    *,
    setting: Literal["text", "json"] | None = None,
    recordings: Mapping[str, str] | None = None,
    returns: Mapping[str, str] | None = None,
) -> Attempt:
    rules = Rules(
        timeout_s=1,
        on_miss="stop",
        ignore_args=(),
        tools={"get_order": ToolSection(result=setting)},
        results=recordings or {},
    )
    found = Attempt(
        Item(id="i", input="?", tape=(ToolCall(name="get_order", result=result),)), rules, returns
    )
    return found


def served(one: Attempt) -> Any:
    answer: Any = one.answer({"name": "get_order", "args": {}})
    return answer["result"]


@pytest.mark.parametrize(
    ("setting", "recordings", "returns", "expected"),
    [
        (None, {}, {}, TEXT),
        ("json", {}, {}, OBJECT),
        ("json", {"get_order": "text"}, {"get_order": "text"}, OBJECT),
        (None, {"get_order": "json"}, {}, OBJECT),
        (None, {"get_order": "json"}, {"get_order": "text"}, TEXT),
        (None, {"get_order": "json"}, {ANY_TOOL: "text"}, TEXT),
        ("text", {"get_order": "json"}, {}, TEXT),
    ],
)
def test_the_setting_decides_then_the_annotation_then_the_recordings(
    setting: Literal["text", "json"] | None,
    recordings: dict[str, str],
    returns: dict[str, str],
    expected: Json,
) -> None:
    assert served(attempt(TEXT, setting=setting, recordings=recordings, returns=returns)) == expected


@pytest.mark.parametrize(
    ("recorded_result", "value"),
    [
        ("3", 3),
        ("9.5", 9.5),
        ("false", False),
        ("null", None),
        ('"quoted"', "quoted"),
        (" [1]", [1]),
        ("007", "007"),
        ("NaN", "NaN"),
        ("text", "text"),
        ("{broken", "{broken"),
        ("", ""),
        (3, 3),
        (None, None),
        (True, True),
    ],
)
def test_json_of_any_value_is_decoded_and_other_text_is_not(recorded_result: Json, value: Json) -> None:
    decoded = result_as(recorded_result, "json")
    assert (decoded, type(decoded)) == (value, type(value))


@given(st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False))
def test_a_scalar_that_an_sdk_wrote_is_read_back(value: Json) -> None:
    assume(not isinstance(value, float) or math.isfinite(value))
    read = scalar_of(json.dumps(value))
    assert (read, type(read)) == (value, type(value))
    assert result_as(read, "text") == (None if value is None else json.dumps(value))


@given(st.text())
def test_a_text_is_read_as_a_scalar_only_if_an_sdk_would_have_written_it_so(text: str) -> None:
    read = scalar_of(text)
    assert read == text or json.dumps(read) == text


@pytest.mark.parametrize("text", ["1.50", "007", "+1", "1e3", "-0.0x", " 3", str(2**53), "True", "NaN", "-"])
def test_a_text_that_no_sdk_writes_for_a_value_stays_text(text: str) -> None:
    assert scalar_of(text) == text


def test_an_object_is_answered_as_the_text_that_the_setting_asks_for() -> None:
    assert served(attempt({"stadt": "Köln"}, setting="text")) == '{"stadt": "Köln"}'


@pytest.mark.parametrize(
    ("result", "reason", "form"),
    [
        (TEXT, "TypeError: string indices must be integers, not 'str'", "json"),
        (TEXT, "AttributeError: 'str' object has no attribute 'get'", "json"),
        ("3", "TypeError: '>' not supported between instances of 'str' and 'int'", "json"),
        ("9.5", "TypeError: unsupported operand type(s) for -: 'str' and 'float'", "json"),
        ("[]", "TypeError: list indices must be integers or slices, not str", "json"),
        (3, 'TypeError: can only concatenate str (not "int") to str', "text"),
        (False, "AttributeError: 'bool' object has no attribute 'lower'", "text"),
        (OBJECT, "TypeError: the JSON object must be str, bytes or bytearray, not dict", "text"),
    ],
)
def test_a_trial_that_fails_on_the_form_of_a_result_names_the_setting(
    result: Json, reason: str, form: str
) -> None:
    one = attempt(result)
    served(one)
    message = {"failed": {"status": "agent_error", "reason": reason, "retry_after_s": None}, "ms": 1.0}
    outcome = one.ended(message, None)
    assert outcome.status is Status.AGENT_ERROR
    assert outcome.reason is not None
    assert outcome.reason.startswith(reason)
    assert f'set result = "{form}" in [tools.get_order]' in outcome.reason


def test_a_failure_of_another_kind_keeps_its_reason() -> None:
    one = attempt(TEXT)
    served(one)
    message = {
        "failed": {"status": "agent_error", "reason": "KeyError: 'x'", "retry_after_s": None},
        "ms": 1.0,
    }
    assert one.ended(message, None).reason == "KeyError: 'x'"


def test_a_setting_reaches_the_agent_before_an_annotation(tmp_path: Path) -> None:
    (tmp_path / "reading.py").write_text(READING)
    tape = recorded("get_order", TEXT, order_id="1")
    decided = {"get_order": ToolSection(result="json")}
    outcome = run_one(
        "reading:run_agent",
        item("?", tape),
        folder=tmp_path,
        tools=("reading:get_order",),
        tools_settings=decided,
    )
    assert (outcome.status, outcome.final_response) == (Status.OK, "shipped")
    undecided = run_one("reading:run_agent", item("?", tape), folder=tmp_path, tools=("reading:get_order",))
    assert undecided.reason is not None
    assert 'set result = "json" in [tools.get_order]' in undecided.reason
    tape = recorded("get_text", TEXT, order_id="1")
    decided = {"get_text": ToolSection(result="json")}
    outcome = run_one(
        "reading:run_text",
        item("?", tape),
        folder=tmp_path,
        tools=("reading:get_text",),
        tools_settings=decided,
    )
    assert outcome.final_response == "dict"


def test_the_store_shows_what_the_recordings_of_a_tool_are(tmp_path: Path) -> None:
    results: dict[str, list[Json]] = {
        "mixed": [TEXT, OBJECT, "gone"],
        "objects": [TEXT, OBJECT, [1]],
        "only": [TEXT, "[1, 2]"],
        "plain": ["a", "b"],
        "texts": [TEXT, "not found"],
    }
    with open_store(tmp_path / "s.duckdb") as con:
        calls = [ToolCall(name=name, result=value) for name, values in results.items() for value in values]
        write_traces(con, [trace("t1", tool_calls=tuple(calls))])
        tools = result_forms(con)
    assert tools == [
        ResultForms("mixed", 1, 1, 1),
        ResultForms("objects", 2, 1, 0),
        ResultForms("only", 0, 2, 0),
        ResultForms("texts", 0, 1, 1),
    ]
    assert [tool.form for tool in tools] == [None, "json", None, None]
