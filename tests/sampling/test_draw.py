"""The draw: reproducible, nested, fair to rare kinds, with weights that add up."""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter
from datetime import datetime
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replaydiff.replay.errors import InputError, UnknownNameError
from replaydiff.replay.sampling import Draw, draw
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import write_traces
from tests.store.build import calls, trace


def memory(strata: list[int], order: int = 0) -> duckdb.DuckDBPyConnection:
    """A database with `strata[i]` traces of model `m{i}`, inserted in an order of its own."""
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE traces (trace_id VARCHAR, source VARCHAR, started_at TIMESTAMP, ended_at TIMESTAMP,"
        " state VARCHAR DEFAULT 'complete',"
        " name VARCHAR, session_id VARCHAR, user_id VARCHAR, environment VARCHAR, release VARCHAR,"
        " model VARCHAR, tags VARCHAR[], tool_path VARCHAR, input VARCHAR, final_response VARCHAR,"
        " input_tokens BIGINT, output_tokens BIGINT, cost_usd DOUBLE, latency_ms DOUBLE, error VARCHAR,"
        " scores JSON, metadata JSON, messages JSON)"
    )
    rows = [(f"{kind}-{n}", f"m{kind}") for kind, size in enumerate(strata) for n in range(size)]
    random.Random(order).shuffle(rows)
    con.execute(
        "INSERT INTO traces (trace_id, model) SELECT unnest($1::VARCHAR[]), unnest($2::VARCHAR[])",
        [[row[0] for row in rows], [row[1] for row in rows]],
    )
    return con


def by_model(con: duckdb.DuckDBPyConnection, size: int, seed: int = 0) -> Draw:
    return draw(con, name="s", size=size, seed=seed, by=("model",))


STRATA = st.lists(st.integers(1, 60), min_size=1, max_size=12)


@given(STRATA, st.integers(1, 80), st.integers(0, 40), st.integers(-5, 5))
@settings(max_examples=60, deadline=None)
def test_what_holds_for_every_draw(strata: list[int], size: int, more: int, seed: int) -> None:
    population = sum(strata)
    with memory(strata) as con, memory(strata, order=1) as shuffled:
        con.execute("SET threads = 1")
        sample, items, warnings = by_model(con, size, seed)
        larger = by_model(con, size + more, seed).items
        again = by_model(shuffled, size, seed).items
    ids = [item.trace_id for item in items]
    assert len(ids) == len(set(ids)) == min(size, population)
    assert [item.position for item in items] == list(range(len(ids)))
    assert sample.population == population
    assert again == items, "independent of the order of insertion and of threads"
    assert [item.trace_id for item in larger][: len(ids)] == ids, "a larger draw holds the smaller one"
    assert sum(item.weight for item in items) == pytest.approx(population)
    drawn = Counter(item.stratum for item in items)
    if size >= len(strata):
        assert len(drawn) == len(strata), "no rare kind is lost while there is room"
        assert warnings == []
        for item in items:
            assert item.weight == pytest.approx(strata[int(item.stratum[1:])] / drawn[item.stratum])
    else:
        assert set(drawn.values()) == {1}
        assert (
            sorted((strata[int(kind[1:])] for kind in drawn), reverse=True)
            == (sorted(strata, reverse=True)[:size])
        ), "where there are too few seats the largest kinds get them"
        assert len(warnings) == 1


@given(st.lists(st.integers(20, 400), min_size=2, max_size=6), st.integers(0, 5))
@settings(max_examples=20, deadline=None)
def test_seats_are_close_to_proportional(strata: list[int], seed: int) -> None:
    with memory(strata) as con:
        items = by_model(con, 60, seed).items
    drawn = Counter(item.stratum for item in items)
    population, size = sum(strata), min(60, sum(strata))
    for kind, count in enumerate(strata):
        exact = size * count / population
        # A first seat for every kind may take some from the others; beyond that the rounding is Webster's.
        assert exact - len(strata) <= drawn[f"m{kind}"] <= max(exact + 1, 1)


def test_every_trace_is_drawn_about_as_often_as_its_stratum_says() -> None:
    hits: Counter[str] = Counter()
    with memory([30, 10]) as con:
        for seed in range(300):
            hits.update(item.trace_id for item in by_model(con, 8, seed).items)
    # 6 of 30 and 2 of 10: each trace in a fifth of 300 draws; five standard deviations are 35.
    assert all(25 <= hits[f"{kind}-{n}"] <= 95 for kind, size in ((0, 30), (1, 10)) for n in range(size))


def in_words(strata: list[int], size: int, seed: int) -> list[str]:
    """The rule of the module's docstring, done by hand: nothing of DuckDB's own decides the draw."""

    def digest(trace_id: str) -> str:
        return hashlib.md5(f"{seed}:{trace_id}".encode(), usedforsecurity=False).hexdigest()

    seats = []
    for kind, count in enumerate(strata):
        ordered = sorted((f"{kind}-{n}" for n in range(count)), key=digest)
        for place, trace_id in enumerate(ordered, start=1):
            priority = math.inf if place == 1 else count / (2 * place - 1)
            seats.append((-priority, -count, digest(trace_id), trace_id))
    return [trace_id for *_, trace_id in sorted(seats)[:size]]


@given(STRATA, st.integers(1, 80), st.integers(-5, 5))
@settings(max_examples=30, deadline=None)
def test_the_draw_is_the_one_the_rule_says(strata: list[int], size: int, seed: int) -> None:
    with memory(strata) as con:
        items = by_model(con, size, seed).items
    assert [item.trace_id for item in items] == in_words(strata, size, seed)


def test_where_all_are_different_each_weighs_the_same() -> None:
    with memory([1] * 40) as con:
        sample, items, warnings = by_model(con, 8)
    assert {item.weight for item in items} == {5.0}
    assert warnings == [
        "32 of 40 strata, with 32 of 40 traces, have no trace in the sample and are counted with the "
        "smallest strata that have one; choose a larger --size or a coarser --by"
    ]
    assert sample.size == 8


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "s.duckdb"
    with open_store(path) as con:
        write_traces(
            con,
            [
                trace(
                    f"t{n}",
                    started_at=datetime(2026, 9 + n % 2, 5),
                    tool_calls=calls(*["a", "b"][: n % 3]),
                    metadata={"plan": "gold"} if n % 4 else {},
                    tags=("x",) if n % 5 == 0 else (),
                )
                for n in range(60)
            ],
        )
    return path


def strata_of(path: Path, **options: object) -> set[str]:
    with open_store(path, read_only=True) as con:
        return {item.stratum for item in draw(con, name="s", size=60, seed=0, **options).items}  # type: ignore[arg-type]


def test_strata_by_several_fields(path: Path) -> None:
    assert strata_of(path) == {"-", "a", "a>b"}
    assert strata_of(path, by=("metadata.plan", "tags")) == {"gold | x", "gold | -", "- | x", "- | -"}
    assert strata_of(path, by=("month",)) == {"2026-09", "2026-10"}
    assert strata_of(path, by=()) == {"-"}
    with pytest.raises(UnknownNameError, match=r"there is no field 'plan';.* metadata\.plan"):
        strata_of(path, by=("plan",))


def test_month_condition_and_exclusion(path: Path) -> None:
    with open_store(path, read_only=True) as con:
        everything = draw(con, name="s", size=100, seed=1, month="2026-09", where="metadata.plan = 'gold'")
        assert (everything.sample.month, everything.sample.where) == ("2026-09", "metadata.plan = 'gold'")
        ids = [item.trace_id for item in everything.items]
        assert sorted(ids) == sorted(f"t{n}" for n in range(60) if n % 2 == 0 and n % 4)
        without = draw(con, name="s", size=100, seed=1, month="2026-09", exclude=set(ids))
        assert sorted(item.trace_id for item in without.items) == sorted(f"t{n}" for n in range(0, 60, 4))
        assert without.sample.population == 15


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"month": "2020-01"}, "there are no traces of 2020-01; `replay traces` lists what there is"),
        ({"where": "release = 'x'"}, "there are no traces that fit `release = 'x'`; `replay traces`"),
        (
            {"exclude": {f"t{n}" for n in range(60)}},
            "there are no traces besides the 60 left out; import newer",
        ),
        ({"size": 0}, "the size of a sample must be between 1 and 999999, not 0"),
        ({"size": 10**6}, "the size of a sample must be between 1 and 999999, not 1000000"),
        ({"where": "relase = 'x'"}, "did you mean 'release'"),
        ({"month": "oct"}, "'oct' is no month"),
    ],
)
def test_what_cannot_be_drawn(path: Path, options: dict[str, object], says: str) -> None:
    with open_store(path, read_only=True) as con, pytest.raises(InputError) as refused:
        draw(con, **{"name": "s", "size": 5, "seed": 0, **options})  # type: ignore[arg-type]
    assert says in str(refused.value)
