"""A promoted case answers what its lane's trial was answered, in the state in which it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from replaydiff.cases.tapes import case_tape
from replaydiff.replay.model import Rule, ServedCall, ToolCall
from replaydiff.replay.tape import Tape, TapeRules
from tests.tape.test_model_world import READS, RULES, WRITES, World, record


def call(name: str, result: Any, **args: Any) -> ToolCall:
    return ToolCall(name=name, args=args, result=result)


ACTIVE = call("get_order", "active", id="7001")
CANCEL = call("cancel", "ok", id="7001")
CANCELLED = call("get_order", "cancelled", id="7001")
STOCK = call("check_stock", 3, id="7001")


def served(rule: Rule, made: ToolCall) -> ServedCall:
    return ServedCall(call=made, rule=rule)


def test_a_live_call_is_answered_where_it_was_made() -> None:
    trial = [served(Rule.TAPE, ACTIVE), served(Rule.LIVE, STOCK), served(Rule.TAPE, CANCEL)]
    assert case_tape((ACTIVE, CANCEL), trial, TapeRules()) == (ACTIVE, STOCK, CANCEL)


def test_a_trial_of_its_own_recording_keeps_it() -> None:
    assert case_tape((ACTIVE, CANCEL), [served(Rule.TAPE, CANCEL)], TapeRules()) == (ACTIVE, CANCEL)


def test_a_live_write_that_the_recording_does_not_have_leaves_the_trial_alone() -> None:
    # With the write between them, the recording's own second read would be answered from another state.
    change = call("change_order", "ok", id="7001")
    changed = call("get_order", "changed", id="7001")
    trial = [served(Rule.TAPE, ACTIVE), served(Rule.LIVE, change), served(Rule.LIVE, changed)]
    assert case_tape((ACTIVE, CANCEL, CANCELLED), trial, TapeRules()) == (ACTIVE, change, changed)


def test_what_nothing_answered_is_no_answer() -> None:
    lost = served(Rule.MISS, ToolCall(name="check_stock", args={"id": "8"}, answered=False))
    assert case_tape((ACTIVE,), [served(Rule.TAPE, ACTIVE), lost], TapeRules()) == (ACTIVE,)


@given(
    st.lists(st.sampled_from([*READS, *WRITES]), max_size=5),
    st.lists(st.sampled_from([*READS, *WRITES]), min_size=1, max_size=5),
)
def test_the_case_answers_the_trial_in_any_world(recorded: Sequence[Any], asked: Sequence[Any]) -> None:
    recording, world = record(recorded, terse=False), World(terse=False)
    tape, trial = Tape(recording, RULES), []
    for name, args in asked:
        result = world.call(name, args)
        answer = tape.answer(name, args)
        if answer.recorded is None:
            tape.write(name, args)
        rule = Rule.LIVE if answer.recorded is None else Rule.TAPE
        trial.append(served(rule, ToolCall(name=name, args=args, result=result)))
    case = Tape(case_tape(recording, trial, RULES), RULES)
    for made in trial:
        answer = case.answer(made.call.name, made.call.args)
        assert answer.recorded is not None
        assert answer.recorded.result == made.call.result
