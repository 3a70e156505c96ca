"""Assertions: what must hold of every trial, from the settings and from cases."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.diff.compute import compute
from replaydiff.diff.graders import assertions, json_shape
from replaydiff.diff.graders.registry import free_grades, require
from replaydiff.diff.result import Answer
from replaydiff.replay.errors import SettingsError
from replaydiff.replay.golden.case import CaseError, case_of, case_to_json
from replaydiff.replay.model import Assertion, GradeState, Rule, Status
from replaydiff.replay.settings import MatchSection, Settings, load
from tests.diff.build import RUN_ID, filled, item, settings, trial, trials

SCHEMA = {"type": "object", "required": ["total"], "properties": {"total": {"type": "integer", "minimum": 1}}}


def graded(given: Sequence[Assertion], **fields: Any) -> Any:
    return free_grades(item("t"), trial("t", "new", **fields), Settings(assert_=tuple(given))).get(
        "assertions"
    )


@pytest.mark.parametrize(
    ("assertion", "answer", "reason"),
    [
        ({"contains": "refund"}, "a refund", None),
        ({"contains": "refund"}, "Refund", "the answer does not contain 'refund'"),
        ({"not_contains": "sorry"}, "sorry", "the answer contains 'sorry'"),
        ({"matches": r"^\d{4}$"}, "1234", None),
        ({"matches": r"^\d{4}$"}, "12345", r"the answer does not match '^\\d{4}$'"),
        ({"json_schema": SCHEMA}, '{"total": 2}', None),
        ({"json_schema": SCHEMA}, "two", "the answer is not JSON"),
        ({"json_schema": SCHEMA}, "{}", "the answer does not meet the schema: $.total is missing"),
        (
            {"json_schema": SCHEMA},
            '{"total": 0}',
            "the answer does not meet the schema: $.total breaks minimum 1",
        ),
        ({"max_chars": 3}, "four", "the answer has 4 characters, more than 3"),
        ({"must_call": "cancel_order"}, "", None),
        ({"must_call": "refund"}, "", "never called refund"),
        ({"must_not_call": "cancel_order"}, "", "called cancel_order"),
        ({"max_calls": 1}, "", "made 2 calls, more than 1"),
        ({"max_calls": 2}, "", None),
    ],
)
def test_each_kind_holds_or_says_why_not(assertion: dict[str, Any], answer: str, reason: str | None) -> None:
    grade = graded([Assertion(**assertion)], final_response=answer)
    assert (grade.passed, grade.reason) == (reason is None, reason)


def test_all_must_hold_and_the_share_that_does_has_content() -> None:
    grade = graded([Assertion(contains="a"), Assertion(contains="b")], final_response="a")
    assert (grade.score, grade.detail) == (0.0, {"partial": 0.5, "failed": ['contains "b"']})
    assert graded([]) is None


def test_a_stopped_trial_fails_on_calls_that_were_made_and_abstains_else() -> None:
    stopped: dict[str, Any] = {"status": Status.DIVERGED, "rules": [Rule.TAPE, Rule.MISS], "reason": "miss"}
    assert graded([Assertion(contains="x")], **stopped).state is GradeState.ABSTAINED
    assert graded([Assertion(must_call="x")], **stopped).state is GradeState.ABSTAINED
    assert graded([Assertion(must_not_call="cancel_order")], **stopped).passed is False
    assert graded([Assertion(max_calls=1)], **stopped).passed is False


def test_a_pattern_of_a_hostile_kind_ends_in_time() -> None:
    begun = time.process_time()
    assert graded([Assertion(matches="^(a+)+$")], final_response="a" * 100_000 + "!").passed is False
    assert time.process_time() - begun < 5  # Backtracking would take longer than the universe is old.


@pytest.mark.parametrize("given", [{"matches": "(?=x)"}, {"matches": "("}, {"json_schema": {"$ref": "#"}}])
def test_what_cannot_be_checked_is_refused_before_a_run_and_is_no_score_in_one(given: dict[str, Any]) -> None:
    one = Assertion(**given)
    with pytest.raises(SettingsError, match=r"^\[\[assert\]\] "):
        require(Settings(assert_=(one,)))
    assert graded([one]).state is GradeState.ERROR


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[assert]]\n", "exactly one of contains"),
        ('[[assert]]\ncontains = "a"\nmatches = "b"\n', "exactly one of contains"),
        ('[[assert]]\ncontain = "a"\n', "did you mean 'contains'"),
        ("[assert]\nmax_chars = 3\n", "must be a list of tables, [[assert]]"),
        ("[[assert]]\nmax_chars = -1\n", "max_chars must be a whole number from 0 on"),
        ('[[assert]]\ncontains = ""\n', "must not be empty"),
    ],
)
def test_settings_that_say_no_assertion_are_refused_with_their_place(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "replay.toml").write_text(text)
    with pytest.raises(SettingsError) as refused:
        load(tmp_path, {})
    assert message in str(refused.value)
    assert "replay.toml" in str(refused.value)


def test_settings_and_cases_are_read_and_written(tmp_path: Path) -> None:
    (tmp_path / "replay.toml").write_text('[[assert]]\ncontains = "a"\n[[assert]]\nmax_calls = 3\n')
    assert load(tmp_path, {}).assert_ == (Assertion(contains="a"), Assertion(max_calls=3))
    record = {
        "id": "c",
        "input": "?",
        "assert": [{"json_schema": {"properties": {"a": {}}}}, {"max_chars": 9}],
    }
    case = case_of(record)
    assert case_to_json(case)["assert"] == record["assert"]
    own = assertions.of_item(item("t", expectation=case.expectation), load(tmp_path, {}))
    assert len(own) == 4
    for wrong in ("x", [{"contains": 1}], [{"other": "x"}], [{}], [3]):
        with pytest.raises(CaseError, match="assert"):
            case_of({"id": "c", "input": "?", "assert": wrong})


def test_assertions_decide_and_their_failures_are_causes(tmp_path: Path) -> None:
    items = [item(f"t{n:02}") for n in range(40)]
    done = [made for one in items for made in trials(one, old="111", old2="111")]
    done += [
        trial(one, "new", n, final_response="we cannot" if place < 20 else "done")
        for place, one in enumerate(items)
        for n in range(3)
    ]
    given = settings(tmp_path, match=MatchSection(), assert_=(Assertion(contains="done"),))
    with filled(tmp_path, items, done) as con:
        result = compute(con, RUN_ID, given)
    assert result.answer is Answer.HOLD
    assert result.metrics["assertions"].gated
    assert 'fails assertions: contains "done"' in [
        text for cause in result.causes for text in (cause.text, *cause.also)
    ]


values: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "ab", 1.5, 2.0]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
plain = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            ["object", "array", "string", "number", "integer", "boolean", "null", ["null", "string"]]
        ),
        "minimum": st.integers(-2, 2),
        "maxLength": st.integers(0, 2),
        "minItems": st.integers(0, 2),
        "required": st.lists(st.sampled_from("ab"), unique=True),
        "pattern": st.sampled_from(["a", "^b"]),
        "enum": st.lists(st.sampled_from(["a", 1, None]), min_size=1, unique=True),
    },
)
schemas: Any = st.recursive(
    plain | st.booleans(),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "items": inner,
            "additionalProperties": inner,
            "not": inner,
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
        },
    ),
    max_leaves=4,
)


@given(schemas, values)
def test_the_schema_check_agrees_with_jsonschema(schema: Any, value: Any) -> None:
    assert json_shape.unusable(schema, lambda _: None) is None
    found = json_shape.first_error(
        schema, value, lambda pattern, text: pattern.strip("^") in text[: 1 if pattern[0] == "^" else None]
    )
    expected = jsonschema.Draft202012Validator(schema).is_valid(json.loads(json.dumps(value)))
    assert (found is None) == expected
