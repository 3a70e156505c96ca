"""What production recorded, as the trials of a lane: nothing is re-run for it.

Which traces are an item's trials? For `observed` its own trace alone: the one it was drawn from, or the one
its case was made from. For `observed:CONDITION` with `--pair-by FIELD` every trace that fits and whose field
equals the item's, compared as text; without a field its own trace, if that fits. Where no item has a trace of
its own, `observed` pairs all traces by the field. The item's value is its own trace's field for a sampled
trace, the case's own field for a case, and the case's id where the case has no such field. Several traces of
one item are its trials, in the order in which they started. A trace that ended in an error is an
`agent_error`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from replaydiff.replay.conversations import input_messages
from replaydiff.replay.engine.items import Source
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import (
    JsonObject,
    Lane,
    Rule,
    ServedCall,
    Status,
    Trace,
    Trial,
    Turn,
    Version,
    VersionKind,
)
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.conversations import iter_conversations
from replaydiff.replay.store.model_calls import count_model_calls, latest_recorded
from replaydiff.replay.store.runs import get_run
from replaydiff.replay.store.where import field_text, guarded, selection
from replaydiff.replay.turns import user_turns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LATEST = "latest"


def recorded_run(store: Path, name: str) -> str:
    """Return the id of a run with recorded model calls: that of this id, or the latest of them.

    Raises:
        UnknownNameError: there is no such run.
        InputError: nothing was recorded.
    """
    with open_store(store, read_only=True) as con:
        run_id = latest_recorded(con) if name == LATEST else get_run(con, name).id
        if run_id is None:
            raise InputError("no run has recorded its models yet; record one with --set run.record=true")
        if not count_model_calls(con, run_id):
            raise InputError(
                f"run {run_id} recorded no model; name one that ran with record in [run], or `latest`"
            )
    return run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """The traces of one observed lane."""

    traces: Mapping[str, Sequence[str]]
    """Item id → ids of its traces, by start. Items without any are not in it."""
    matched: int
    """Traces that fit the condition."""
    unpaired: int
    """Traces that fit and belong to no item."""

    @property
    def most(self) -> int:
        """Return the most trials that an item has."""
        return max(map(len, self.traces.values()))

    def counted(self, source: Source) -> JsonObject:
        """Return how many traces and items are paired and are not, as it is stored with the run."""
        return {
            "traces": self.matched,
            "unpaired": self.unpaired,
            "items_without_trace": len(source.ids()) - len(self.traces),
        }


def pair_lanes(
    store: Path, source: Source, lanes: Mapping[Lane, Version], pair_by: str | None
) -> tuple[Source, dict[Lane, Pairing]]:
    """Return the items, one for each value that pairs them, and the traces of the observed lanes.

    Opening the store to read also finds out early if it is in use.

    Raises:
        InputError: `pair_by` is given, and no version is observed.
    """
    recorded = {lane: version for lane, version in lanes.items() if version.kind is VersionKind.OBSERVED}
    if not recorded:
        if pair_by is not None:
            raise InputError("--pair-by pairs recorded traces with items, and no version here is observed")
        if not store.exists():
            return source, {}
    with open_store(store, read_only=True) as con:
        if pair_by is not None and any(version.condition is not None for version in recorded.values()):
            source = source.merged(con, pair_by)
        return source, {lane: pair(con, version, source, pair_by) for lane, version in recorded.items()}


def pair(con: DuckDBPyConnection, version: Version, source: Source, pair_by: str | None) -> Pairing:
    """Find the traces of an observed lane. `con` may be read-only.

    Raises:
        InputError: the condition cannot be used, or no trace belongs to any item.
        UnknownNameError: traces have no such field.
    """
    traces_of_items = source.item_traces()
    if traces_of_items and version.condition is None:
        pair_by = None
    values = traces_of_items if pair_by is None else source.values(con, pair_by)
    items: dict[str, list[str]] = {}
    for item_id, value in values.items():
        items.setdefault(value, []).append(item_id)
    text = "trace_id" if pair_by is None else field_text(pair_by)
    traces: dict[str, list[str]] = {}
    unpaired = 0
    with guarded(con, version.condition) as cursor:
        chosen, bound = selection(cursor, version.condition, None)
        if version.condition is None and pair_by is None:
            chosen += " AND trace_id IN (SELECT unnest($own::VARCHAR[]))"
            bound["own"] = list(traces_of_items.values())
        rows = cursor.execute(
            f"SELECT trace_id, {text} FROM {chosen} ORDER BY started_at, trace_id", bound
        ).fetchall()
    for trace_id, value in rows:
        owners = items.get(value, ())
        unpaired += not owners
        for item_id in owners:
            traces.setdefault(item_id, []).append(trace_id)
    if not traces:
        raise InputError(_no_pairs(version, len(rows), pair_by, bool(traces_of_items)))
    return Pairing(traces=traces, matched=len(rows), unpaired=unpaired)


def trials(
    con: DuckDBPyConnection,
    run_id: str,
    lane: Lane,
    pairing: Pairing,
    item_ids: Iterable[str],
    source: Source,
) -> list[Trial]:
    """Return the trials of these items of a source in an observed lane."""
    paired_items = [(name, traces) for name in item_ids if (traces := pairing.traces.get(name))]
    stored_traces = iter_conversations(
        con, [source.conversation(trace_id) for _, traces in paired_items for trace_id in traces]
    )
    return [
        _trial(run_id, lane, item_id, index, source.recorded(item_id, trace))
        for item_id, traces in paired_items
        for index, trace in enumerate(islice(stored_traces, len(traces)))
    ]


def _trial(run_id: str, lane: Lane, item_id: str, index: int, trace: Trace) -> Trial:
    turns = user_turns(input_messages(trace), trace.tool_calls, trace.metadata)
    return Trial(
        run_id=run_id,
        item_id=item_id,
        lane=lane,
        index=index,
        status=Status.OK if trace.error is None else Status.AGENT_ERROR,
        reason=trace.error,
        final_response=trace.final_response,
        served=tuple(
            ServedCall(call=call, rule=Rule.TAPE, from_trace_id=trace.trace_id) for call in trace.tool_calls
        ),
        usage=trace.usage,
        cost_usd=trace.cost_usd,
        latency_ms=trace.latency_ms,
        started_at=trace.started_at,
        scores=trace.scores,
        turns=tuple(Turn(number=turn.number, calls=turn.calls) for turn in turns) if len(turns) > 1 else (),
    )


def _no_pairs(version: Version, matched: int, pair_by: str | None, has_item_traces: bool) -> str:
    what = f"version {version.name!r}"
    if not matched and version.condition is not None:
        return f"no trace fits {what}; `replay traces --where` shows what a condition finds"
    if pair_by is not None:
        return (
            f"{matched} traces fit {what}, and none has the {pair_by} of an item; "
            "name the field that both have with --pair-by"
        )
    if not has_item_traces:
        return f"no case of the golden set names the trace it was made from; pair {what} with --pair-by FIELD"
    return (
        f"none of the items' own traces is in {what}; to pair other traces with the items, "
        "name the field that both have with --pair-by FIELD"
    )
