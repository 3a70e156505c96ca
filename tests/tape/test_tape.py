"""What the tape answers, and how a miss explains itself."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.replay.model import Rule, ToolCall
from replaydiff.replay.tape import Tape, TapeRules


def call(
    name: str, result: Any = None, /, *, error: str | None = None, answered: bool = True, **args: Any
) -> ToolCall:
    return ToolCall(name=name, args=args, result=result, error=error, answered=answered)


def result_of(tape: Tape, name: str, **args: Any) -> Any:
    answer = tape.answer(name, args)
    assert answer.rule is Rule.TAPE, answer.note
    assert answer.recorded is not None
    return answer.recorded.result


def miss(tape: Tape, name: str, **args: Any) -> str:
    answer = tape.answer(name, args)
    assert (answer.rule, answer.recorded) == (Rule.MISS, None)
    assert answer.note is not None
    return answer.note


def test_the_same_call_gets_its_own_recording_whatever_the_order() -> None:
    tape = Tape([call("status", "shipped", id="1"), call("status", "lost", id="2")])
    assert result_of(tape, "status", id="2") == "lost"
    assert result_of(tape, "status", id="1") == "shipped"


def test_a_repeated_write_gets_the_next_recording_and_then_none() -> None:
    tape = Tape([call("poll", "pending"), call("get_status", "x", id="1"), call("poll", "done")])
    assert result_of(tape, "poll") == "pending"
    assert result_of(tape, "poll") == "done"
    assert miss(tape, "poll") == "poll(): already used; it was recorded 2 times and answered as often"


def test_a_recording_never_answers_another_call() -> None:
    tape = Tape([call("status", "shipped", id="1")])
    assert "never recorded" in miss(tape, "status", id="2")
    assert "never recorded" in miss(tape, "state", id="1")
    assert result_of(tape, "status", id="1") == "shipped"


def test_arguments_are_compared_as_json_values() -> None:
    tape = Tape([call("f", "ok", a=1, b={"x": [1.5, None], "y": "1"})])
    assert "never recorded" in miss(tape, "f", a="1", b={"x": [1.5, None], "y": "1"})
    assert "never recorded" in miss(tape, "f", a=True, b={"x": [1.5, None], "y": "1"})
    assert "never recorded" in miss(tape, "f", a=1, b={"x": [None, 1.5], "y": "1"})
    assert result_of(tape, "f", b={"y": "1", "x": [1.5, None]}, a=1.0) == "ok"


def test_an_error_is_an_answer() -> None:
    answer = Tape([call("f", error="no such order")]).answer("f", {})
    assert answer.rule is Rule.TAPE
    assert answer.recorded is not None
    assert answer.recorded.error == "no such order"


def test_a_recording_without_an_answer_cannot_answer() -> None:
    tape = Tape([call("get_f", answered=False), call("get_f", "second try")])
    assert result_of(tape, "get_f") == "second try"
    first = Tape([call("f", answered=False), call("f", "second try")])
    assert miss(first, "f") == "f(): recorded without an answer, so nothing can be replayed for it"
    alone = Tape([call("f", answered=False)])
    assert miss(alone, "f") == "f(): recorded without an answer, so nothing can be replayed for it"


def test_ignored_arguments_count_neither_here_nor_there() -> None:
    rules = TapeRules(ignore_args=["at"], ignore_by_tool={"g": ["page"]})
    tape = Tape([call("f", "a", id=1, at="9:00"), call("g", "b", id=1, page=1)], rules)
    assert result_of(tape, "f", id=1) == "a"
    assert result_of(tape, "g", id=1, page=2, at="9:01") == "b"
    counted = Tape([call("f", "a", id=1, page=1)], rules)
    assert miss(counted, "f", id=1, page=2, at="x") == (
        'f(id=1, page=2, at="x"): never recorded; the nearest recorded call is f(id=1, page=1) '
        "(page was 1, not 2)"
    )


@pytest.mark.parametrize(
    ("name", "args", "note"),
    [
        (
            "lookup",
            {"id": "1"},
            'lookup(id="1"): never recorded; the recording has no call of lookup, only of get_status, cancel',
        ),
        (
            "get_state",
            {},
            "get_state(): never recorded; the recording has no call of get_state; it has get_status",
        ),
        (
            "get_status",
            {"id": "A-2", "full": True},
            'get_status(id="A-2", full=true): never recorded; the nearest recorded calls are '
            'get_status(id="A-1", full=true) (id was "A-1", not "A-2"), '
            'get_status(id="B-7", full=true) (id was "B-7", not "A-2")',
        ),
        (
            "get_status",
            {"id": "A-1", "lang": "de"},
            'get_status(id="A-1", lang="de"): never recorded; the nearest recorded calls are '
            'get_status(id="A-1", full=true) (lang was not given; full=true was given), '
            'get_status(id="B-7", full=true) (id was "B-7", not "A-1"; lang was not given; '
            "full=true was given)",
        ),
        (
            "cancel",
            {"id": None},
            "cancel(id=null): never recorded; the nearest recorded call is cancel() (id was not given)",
        ),
    ],
)
def test_a_miss_names_the_nearest_recordings(name: str, args: dict[str, Any], note: str) -> None:
    recording = [
        call("get_status", "x", id="B-7", full=True),
        call("get_status", "x", id="A-1", full=True),
        call("get_status", "x", id="A-1", full=True),
        call("cancel", "x"),
    ]
    assert miss(Tape(recording), name, **args) == note


def test_a_miss_on_an_empty_tape() -> None:
    assert miss(Tape([]), "f", a=1) == "f(a=1): never recorded; the recording has no tool calls"


def test_long_values_are_shortened() -> None:
    note = miss(Tape([call("f", "x", text="a" * 5000)]), "f", text="b" * 5000)
    assert len(note) < 500


names = st.sampled_from(["a", "b"])
arguments = st.dictionaries(
    st.sampled_from(["x", "y"]),
    st.one_of(st.integers(0, 2), st.floats(0, 2), st.booleans(), st.text(max_size=1)),
)


@given(st.lists(st.tuples(names, arguments)))
def test_a_replay_that_repeats_its_recording_is_answered_throughout(recording: Any) -> None:
    recorded = [ToolCall(name=name, args=args, index=i, result=i) for i, (name, args) in enumerate(recording)]
    tape = Tape(recorded)
    assert [tape.answer(one.name, one.args).recorded for one in recorded] == recorded
