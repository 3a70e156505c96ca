"""The draw: which traces stand for all of them.

**Strata.** Traces are grouped by the values of the `by` fields, joined with ` | `; what is missing is `-`.

**Order within a stratum.** By the MD5 of seed and trace id: the same traces give the same order whatever
the order of import, the number of threads or the version of DuckDB.

**Seats.** A stratum's first trace comes before every second one, so that no rare kind is lost while there
is room. Every further seat goes by the highest average (Sainte-Laguë): the j-th trace of a stratum of N
has priority N / (2j - 1). That puts all traces in one order, and the sample of size n is its first n: a
larger sample always holds the smaller one of the same seed. Webster's method and its house monotony:
Balinski & Young, *Fair Representation*, 1982.

**Weights.** A drawn trace stands for N / n traces: those of its stratum, shared among its n drawn ones. Where
there are more strata than seats, the traces of the strata without a seat are shared evenly among the drawn
traces of the smallest strata that have one. So the weights always add up to the population.

**Who cannot be drawn.** Traces that came without content, and those that had not ended when they were
recorded (`replay.model.TraceState`): there is nothing to replay, or half a recording. They are no part of the
population, and the draw says how many they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from replaydiff.replay import clock
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import SampleItem, SampleRecord, TraceState
from replaydiff.replay.store.where import field_text, guarded, selection

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MAX_SIZE = 999_999
"""DuckDB's limit on the n smallest of a group, and far beyond what anyone replays."""


class Draw(NamedTuple):
    """A drawn sample, not yet kept."""

    sample: SampleRecord
    items: list[SampleItem]
    """By position."""
    warnings: list[str]
    """Sentences on what the sample cannot stand for."""


def draw(
    con: DuckDBPyConnection,
    *,
    name: str,
    size: int,
    seed: int,
    by: Sequence[str] = ("tool_path",),
    month: str | None = None,
    where: str | None = None,
    exclude: Collection[str] = (),
) -> Draw:
    """Draw `size` traces of those that fit `month` (`YYYY-MM`) and `where`, without those in `exclude`.

    Nothing is written: `replay.store.samples.write_sample` keeps the sample. `con` may be read-only.

    Raises:
        InputError: nothing fits, or the condition, month or size cannot be used.
        UnknownNameError: a field of `by` does not exist.
    """
    if not 1 <= size <= MAX_SIZE:
        raise InputError(f"the size of a sample must be between 1 and {MAX_SIZE}, not {size}")
    seats, unfit = _seats(con, size, seed, by, month, where, exclude)
    if not seats:
        raise InputError(_nothing(month, where, exclude, unfit))
    population = seats[0].population
    weights = _weights(seats)
    items = [
        SampleItem(
            sample=name,
            trace_id=seat.trace_id,
            position=position,
            stratum=seat.stratum,
            weight=weights[seat.stratum],
        )
        for position, seat in enumerate(seats)
    ]
    sample = SampleRecord(
        name=name,
        created_at=clock.utc_now(),
        month=month,
        where=where,
        by=tuple(by),
        size=size,
        seed=seed,
        population=population,
    )
    return Draw(sample, items, [*_unfit(unfit), *_warnings(seats)])


class _Seat(NamedTuple):
    trace_id: str
    stratum: str
    traces: int
    """How many the stratum has."""
    population: int
    strata: int


_SEATS = """
WITH strata AS (
    SELECT stratum, count(*) AS traces, arg_min(trace_id, hash, {size}) AS ids
    FROM (SELECT trace_id, {stratum} AS stratum, {hash} AS hash FROM {chosen} {without} AND {fit})
    GROUP BY stratum
), candidates AS (
    SELECT unnest(ids) AS trace_id, generate_subscripts(ids, 1) AS place, stratum, traces FROM strata
)
SELECT trace_id, stratum, traces,
    (SELECT sum(traces) FROM strata)::BIGINT, (SELECT count(*) FROM strata)
FROM candidates
ORDER BY CASE WHEN place = 1 THEN 'inf'::DOUBLE ELSE traces / (2 * place - 1) END DESC,
    traces DESC, {hash}, trace_id
LIMIT {size}
"""
_FIT = f"state = '{TraceState.COMPLETE}'"


def _seats(
    con: DuckDBPyConnection,
    size: int,
    seed: int,
    by: Sequence[str],
    month: str | None,
    where: str | None,
    exclude: Collection[str],
) -> tuple[list[_Seat], dict[str, int]]:
    """The seats in order of the draw; and state → number of the traces that fit but cannot be drawn."""
    fields = [f"coalesce(nullif({field_text(field)}, ''), '-')" for field in by]
    with guarded(con, where) as cursor:
        chosen, values = selection(cursor, where, month)
        if exclude:
            values["exclude"] = sorted(exclude)
        without = "AND trace_id NOT IN (SELECT unnest($exclude::VARCHAR[]))" if exclude else ""
        query = _SEATS.format(
            size=size,
            stratum=" || ' | ' || ".join(fields) or "'-'",
            hash=f"md5('{int(seed)}:' || trace_id)",
            chosen=chosen,
            without=without,
            fit=_FIT,
        )
        seats = [_Seat(*row) for row in cursor.execute(query, values).fetchall()]
        unfit = cursor.execute(
            f"SELECT state, count(*) FROM {chosen} {without} AND NOT {_FIT} GROUP BY state", values
        ).fetchall()
    return seats, dict(unfit)


def _weights(seats: Sequence[_Seat]) -> dict[str, float]:
    """Stratum → how many traces one of its drawn ones stands for."""
    drawn = Counter(seat.stratum for seat in seats)
    traces = {seat.stratum: seat.traces for seat in seats}
    smallest = min(traces.values())
    last = {stratum for stratum, count in traces.items() if count == smallest}
    unseated = seats[0].population - sum(traces.values())
    share = unseated / sum(drawn[stratum] for stratum in last)
    return {
        stratum: count / drawn[stratum] + (share if stratum in last else 0.0)
        for stratum, count in traces.items()
    }


def _warnings(seats: Sequence[_Seat]) -> list[str]:
    traces = {seat.stratum: seat.traces for seat in seats}
    strata, population = seats[0].strata, seats[0].population
    unseated = population - sum(traces.values())
    if strata <= len(traces):
        return []
    return [
        f"{strata - len(traces)} of {strata} strata, with {unseated} of {population} traces, have no trace "
        "in the sample and are counted with the smallest strata that have one; "
        "choose a larger --size or a coarser --by"
    ]


def _unfit(unfit: Mapping[str, int]) -> list[str]:
    why = {
        TraceState.NO_CONTENT: "came without content (what was asked is not known)",
        TraceState.INCOMPLETE: "had not ended when recorded",
    }
    return [f"left out: {number} that {why[TraceState(state)]}" for state, number in sorted(unfit.items())]


def _nothing(month: str | None, where: str | None, exclude: Collection[str], unfit: Mapping[str, int]) -> str:
    if unfit:
        return f"no trace can be drawn: {'; '.join(_unfit(unfit))}"
    what = "there are no traces"
    if month:
        what += f" of {month}"
    if where:
        what += f" that fit `{where}`"
    if exclude:
        return f"{what} besides the {len(exclude)} left out; import newer ones or leave out --new-only"
    return f"{what}; `replay traces` lists what there is"
