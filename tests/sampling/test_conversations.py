"""Traces of one session are drawn, and replayed, as one conversation."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from replaydiff.replay.conversations import Apart, TurnFacts, chains, input_messages, join
from replaydiff.replay.engine.items import SampleSource
from replaydiff.replay.model import Message, ToolCall, Trace
from replaydiff.replay.model.trace import SUMMARY, exchange
from replaydiff.replay.sampling import draw
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.conversations import read_conversations
from replaydiff.replay.store.traces import write_traces
from replaydiff.replay.turns import user_turns

WHEN = datetime(2026, 10, 1, 9)
LOOK = ToolCall(name="get_order", args={"id": 7}, call_id="c1", result="open")
CANCEL = ToolCall(name="cancel_order", args={"id": 7}, call_id="c1", result="cancelled")
"""Its id is that of the other call, as ids of clients that count anew in each turn are."""


def turn(number: int, text: str, answer: str | None, *calls: ToolCall, session: str = "s") -> Trace:
    return Trace(
        trace_id=f"{session}-{number}",
        source="jsonl",
        session_id=session,
        started_at=WHEN + timedelta(minutes=number),
        ended_at=WHEN + timedelta(minutes=number, seconds=30),
        input=text,
        final_response=answer,
        tool_calls=calls,
    )


def talk(session: str = "s") -> list[Trace]:
    return [
        turn(0, "hello", "hello, what can I do?", session=session),
        turn(1, "where is order 7?", "It is open.", LOOK, session=session),
        turn(2, "cancel it", "Done.", replace(LOOK, call_id="c2"), CANCEL, session=session),
        turn(3, "thanks", "You are welcome.", session=session),
    ]


def spoken(trace: Trace) -> tuple[Message, ...]:
    return (
        Message(role="user", text=trace.input),
        Message(role="assistant", text=trace.final_response or ""),
    )


def with_history(traces: Sequence[Trace], last: int = 99) -> list[Trace]:
    """Give each trace the texts of the turns before it, or of the last ones, and its own request."""
    carried = []
    for number, trace in enumerate(traces):
        before = [message for earlier in traces[:number][-last:] for message in spoken(earlier)]
        carried.append(replace(trace, messages=(*before, Message(role="user", text=trace.input))))
    return carried


def facts(traces: Sequence[Trace]) -> list[TurnFacts]:
    return [
        TurnFacts(
            trace.trace_id,
            trace.started_at,
            trace.ended_at,
            trace.user_id,
            exchange(trace.input, trace.final_response or ""),
            trace.follows,
            trace.trace_id,
        )
        for trace in traces
    ]


def linked(traces: Sequence[Trace], of_source: int = 1000) -> list[str] | Apart:
    found = chains(facts(traces), of_source)
    return found if isinstance(found, Apart) else ["".join(name[-1] for name in chain) for chain in found]


@pytest.mark.parametrize(
    "traces", [talk(), with_history(talk()), with_history(talk(), last=1)], ids=["none", "whole", "window"]
)
def test_a_trace_per_turn_joins_to_all_turns_and_calls_once(traces: list[Trace]) -> None:
    assert linked(traces) == ["0123"]
    joined = join(traces)
    assert [message.text for message in joined.messages if message.role == "user"] == [
        "hello",
        "where is order 7?",
        "cancel it",
        "thanks",
    ]
    assert [call.name for call in joined.tool_calls] == ["get_order", "get_order", "cancel_order"]
    turns = user_turns(input_messages(joined), joined.tool_calls, joined.metadata)
    assert [(turn.number, turn.calls) for turn in turns] == [(1, 0), (2, 1), (3, 2), (4, 0)]
    assert (joined.trace_id, joined.final_response) == ("s-0", "You are welcome.")


def test_what_was_said_before_the_first_trace_is_history() -> None:
    before = (Message(role="user", text="hi"), Message(role="assistant", text="hi there"))
    traces = [replace(trace, messages=(*before, *trace.messages)) for trace in with_history(talk())]
    assert linked(traces) == ["0123"]
    joined = join(traces)
    turns = user_turns(input_messages(joined), joined.tool_calls, joined.metadata)
    assert [turn.number for turn in turns] == [2, 3, 4, 5]


def test_a_compacted_history_follows_and_a_lost_turn_does_not() -> None:
    traces = with_history(talk())
    summary = Message(role="user", text="This session is being continued from a previous conversation that …")
    compacted = replace(traces[2], messages=(summary, *traces[2].messages[-1:]))
    assert compacted.follows == SUMMARY
    assert linked([*traces[:2], compacted, traces[3]]) == ["0123"]
    assert linked([traces[0], traces[2], traces[3]]) == ["0", "23"]


def test_an_answer_that_was_asked_for_again_is_a_conversation_of_its_own() -> None:
    traces = with_history(talk())
    again = replace(traces[1], trace_id="s-9", started_at=traces[1].started_at + timedelta(seconds=20))
    assert linked([traces[0], traces[1], again, *traces[2:]]) == ["0923", "1"]


def test_two_conversations_under_one_id_are_told_apart_by_their_histories() -> None:
    first, second = (
        with_history(talk("a")),
        with_history([turn(n, f"{n}?", f"{n}!", session="b") for n in range(4)]),
    )
    mixed = sorted([*first, *second], key=lambda trace: trace.started_at)
    assert linked(mixed) == ["0123", "0123"]


def test_what_only_time_would_join_is_left_apart_with_the_reason() -> None:
    traces = talk()
    assert linked([replace(trace, user_id=trace.trace_id) for trace in traces]) is Apart.USERS
    assert linked([traces[0], replace(traces[1], started_at=traces[0].started_at)]) is Apart.OVERLAP
    assert linked([replace(trace, input="where is order 7?", final_response=None) for trace in traces]) is (
        Apart.REPEATED
    )
    many = [turn(number, f"question {number}", "answer") for number in range(60)]
    assert linked(many, of_source=100) is Apart.TENANT
    assert isinstance(linked(many, of_source=200), list)


def test_conversations_are_drawn_by_what_all_their_turns_show(tmp_path: Path) -> None:
    traces = [trace for number in range(6) for trace in with_history(talk(f"s{number}"))]
    traces += [turn(0, "alone", "yes", session="single")]
    traces += [replace(trace, release="2") for trace in talk("r")[:1]] + talk("r")[1:]
    traces += [replace(talk("open")[0]), replace(talk("open")[1], incomplete=True)]
    random.Random(1).shuffle(traces)
    with open_store(tmp_path / "store.duckdb") as con:
        write_traces(con, traces)
        conversations = read_conversations(con)
        assert conversations.is_usual
        assert (len(conversations.turns), conversations.sessions) == (8, 9)
        drawn = draw(con, name="all", size=20, seed=0, turns=conversations.turns)
        assert drawn.sample.population == 8
        assert drawn.warnings == ["left out: 1 that had not ended when recorded"]
        assert {item.stratum for item in drawn.items} == {"get_order>get_order>cancel_order", "-"}
        released = draw(con, name="2", size=20, seed=0, where="release = '2'", turns=conversations.turns)
        assert [item.turns for item in released.items] == [("r-1", "r-2", "r-3")]
        [item] = SampleSource("2", released.items).read(con, ["r-0"])
    assert (item.id, item.session_id, item.input) == ("r-0", "r", "thanks")
    assert [call.index for call in item.tape] == [0, 1, 2]
