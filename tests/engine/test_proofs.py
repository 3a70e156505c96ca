"""What leaving out each session's calls of a tool shows."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from replaydiff.replay.model import ToolCall
from replaydiff.replay.proofs import Proof, prove_tools
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import write_traces
from tests.stand_ins.full import examples
from tests.store.build import trace

Calls = list[tuple[int, int, int]]
"""Session, argument and result of each call."""


def left_out(calls: Calls, least: int) -> Proof:
    """Return the counts as the definition has them."""
    checked = false = related = related_false = 0
    for number, (session, argument, result) in enumerate(calls):
        same = [call for index, call in enumerate(calls) if index != number and call[1] == argument]
        others = [call for call in same if call[0] != session]
        results = {call[2] for call in others}
        if len(results) == 1 and len(others) >= least and len({call[0] for call in others}) >= least:
            checked += 1
            false += result not in results
        of_session = {call[2] for call in same if call[0] == session}
        if len(of_session) == 1:
            related += 1
            related_false += result not in of_session
    return Proof(checked, false, related, related_false)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 2)), max_size=14),
    st.integers(1, 3),
)
@settings(max_examples=examples(15, 200))
def test_counts_are_those_of_the_definition(calls: Calls, least: int) -> None:
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "replay.duckdb") as con:
        traces = []
        for number, (session, argument, result) in enumerate(calls):
            look = ToolCall(name="look", args={"id": argument}, result=result)
            traces.append(trace(f"t{number}", session_id=f"s{session}", tool_calls=(look,)))
        write_traces(con, traces)
        assert prove_tools(con, ["look"], least) == {"look": left_out(calls, least)}
