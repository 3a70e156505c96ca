"""Another trace answers only with proof: enough sessions that agree, or the same session or user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replaydiff.replay.agents.base import CorpusRecording, Rules
from replaydiff.replay.engine.agents import with_recordings_of
from replaydiff.replay.engine.corpus import StoreCorpus
from replaydiff.replay.model import Item, ToolCall
from replaydiff.replay.proofs import Proof, prove_tools, upper_bound
from replaydiff.replay.settings import ToolSection
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import write_traces
from tests.store.build import trace

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DAY = datetime(2026, 10, 1)
READS = {"get_product": ToolSection(effect="read"), "get_cart": ToolSection(effect="read")}


@pytest.fixture
def con(tmp_path: Path) -> Iterator[DuckDBPyConnection]:
    with open_store(tmp_path / "store.duckdb") as connection:
        yield connection


def product(result: Any = "tea", sku: str = "SKU-100") -> ToolCall:
    return ToolCall(name="get_product", args={"sku": sku}, result=result)


def write(con: DuckDBPyConnection, *traces: Sequence[ToolCall], **fields: Any) -> None:
    """Store traces, one a day, each of a session of its own unless `fields` name one."""
    write_traces(
        con,
        [
            trace(
                f"trace-{number}",
                **{"session_id": f"s{number}", "started_at": DAY + timedelta(days=number), **fields},
                tool_calls=tuple(
                    ToolCall(
                        name=call.name, args=call.args, result=call.result, error=call.error, index=index
                    )
                    for index, call in enumerate(calls)
                ),
            )
            for number, calls in enumerate(traces)
        ],
    )


def found(
    con: DuckDBPyConnection,
    name: str = "get_product",
    *,
    writes: Sequence[ToolCall] = (),
    item: Item | None = None,
    max_false: float = 1.0,
    **args: Any,
) -> CorpusRecording | None:
    rules = with_recordings_of(Rules(timeout_s=1, tools=READS, max_false=max_false), con)
    corpus = StoreCorpus(rules)
    corpus.open(con)
    asked = item or Item(id="i", input="?", trace_id="other", started_at=DAY)
    return corpus.find(asked, name, args, writes)


def test_sessions_that_agree_answer_and_are_counted(con: DuckDBPyConnection) -> None:
    write(con, *[[product()]] * 4)
    answer = found(con, sku="SKU-100")
    assert answer is not None
    assert (answer.recorded.result, answer.trace_id) == ("tea", "trace-0")
    assert answer.note == (
        "4 recordings in 4 sessions agree; of the tool's calls, 0 of 4 would have been answered falsely"
    )


def test_too_few_sessions_or_a_single_other_result_answer_nothing(con: DuckDBPyConnection) -> None:
    write(con, [product()] * 9, [product()], [product("x", "SKU-200")])
    assert found(con, sku="SKU-100") is None, "two sessions"
    write(con, *[[product()]] * 9, [product("milk")])
    assert found(con, sku="SKU-100") is None


def test_a_tool_that_was_false_too_often_answers_nothing(con: DuckDBPyConnection) -> None:
    write(con, *[[product()]] * 20)
    assert found(con, sku="SKU-100", max_false=0.01) is None, "20 calls do not bound it by 1 %"
    assert found(con, sku="SKU-100", max_false=0.14) is not None
    write(con, *[[product(), product(number == 3, "SKU-200")] for number in range(4)])
    assert found(con, sku="SKU-100", max_false=0.14) is None, "1 of 21 was false"


def test_a_call_without_arguments_is_never_answered(con: DuckDBPyConnection) -> None:
    write(con, *[[ToolCall(name="get_cart", result=["whisky"])]] * 9)
    assert found(con, "get_cart") is None
    own = Item(id="i", input="?", trace_id="other", session_id="s1", started_at=DAY)
    assert found(con, "get_cart", item=own) is None


def test_a_state_after_a_write_proves_nothing_and_gets_nothing(con: DuckDBPyConnection) -> None:
    change = ToolCall(name="set_price", args={"sku": "SKU-100"}, result="ok")
    write(con, *[[change, product()]] * 4)
    assert found(con, sku="SKU-100") is None
    write(con, *[[product(), change]] * 4)
    assert found(con, sku="SKU-100") is not None
    assert found(con, sku="SKU-100", writes=[change]) is None
    elsewhere = ToolCall(name="set_price", args={"sku": "SKU-300"}, result="ok")
    assert found(con, sku="SKU-100", writes=[elsewhere]) is not None


@pytest.mark.parametrize("field", ["session_id", "user_id"])
def test_the_same_session_or_user_answers_without_proof(con: DuckDBPyConnection, field: str) -> None:
    write(con, [product()], [product("other", "SKU-200")], **{field: "same"})
    own = Item(id="i", input="?", trace_id="trace-1", session_id="same", started_at=DAY + timedelta(days=1))
    answer = found(con, sku="SKU-100", item=own)
    assert answer is not None
    assert answer.note == f"recorded in another trace of the same {field.removesuffix('_id')}"
    stranger = Item(id="i", input="?", trace_id="other", session_id="else", started_at=DAY)
    assert found(con, sku="SKU-100", item=stranger) is None


def test_what_changes_by_itself_is_not_answered_from_an_older_trace_of_the_user(
    con: DuckDBPyConnection,
) -> None:
    balances = [[product(1)], [product(2)], [product(1, "SKU-200")], [product(2, "SKU-300")]]
    write(con, *balances, user_id="same")
    assert prove_tools(con, ["get_product"], 3) == {"get_product": Proof(related=2, related_false=2)}
    last = Item(id="i", input="?", trace_id="trace-3", started_at=DAY + timedelta(days=3))
    assert found(con, sku="SKU-200", item=last, max_false=0.01) is None
    assert found(con, sku="SKU-200", item=last) is not None, "any share of false answers is allowed"


@pytest.mark.parametrize("between", [True, False])
def test_a_write_between_two_traces_of_a_session_is_another_state(
    con: DuckDBPyConnection, between: bool
) -> None:
    change = ToolCall(name="set_price", args={"sku": "SKU-100" if between else "SKU-900"}, result="ok")
    write(con, [product()], [change], [product("other", "SKU-200")], session_id="same")
    last = Item(id="i", input="?", trace_id="trace-2", session_id="same", started_at=DAY + timedelta(days=2))
    assert (found(con, sku="SKU-100", item=last) is None) == between


def test_each_call_is_left_out_with_its_session(con: DuckDBPyConnection) -> None:
    write(
        con,
        *[[product()]] * 5,
        *[[product(5, "SKU-200")]] * 4,
        [product(7, "SKU-200")],
        [product("only", "SKU-300")],
    )
    assert prove_tools(con, ["get_product"], 3) == {"get_product": Proof(checked=6, false=1)}
    ignoring = prove_tools(con, ["get_product"], 3, {"get_product": ["sku"]})
    assert ignoring == {"get_product": Proof()}, "without its arguments it is a call without any"


def test_hostile_keys_of_arguments_do_not_stop_the_count(con: DuckDBPyConnection) -> None:
    for_keys = [ToolCall(name="get_product", args={'a"]\\': 1, "$.x": {"y": "'"}}, result="tea")]
    write(con, *[for_keys] * 5)
    assert prove_tools(con, ["get_product"], 3)["get_product"].checked == 5


@pytest.mark.parametrize(
    ("false", "checked", "bound"),
    [(0, 298, 0.01000), (0, 299, 0.00997), (3, 3, 1.0), (0, 0, 1.0), (1, 100, 0.0466)],
)
def test_the_bound_is_exact(false: int, checked: int, bound: float) -> None:
    assert upper_bound(false, checked) == pytest.approx(bound, abs=6e-5)
