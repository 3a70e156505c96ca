"""The draw: reproducible, nested, proportional with a reserve for rare kinds, with weights that add up."""

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
from replaydiff.replay.sampling import REMAINDER, RESERVE, Draw, draw, effective_size
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import write_traces
from tests.stand_ins.full import examples, full
from tests.store.build import calls, trace


def memory(strata: list[int], order: int = 0) -> duckdb.DuckDBPyConnection:
    """A database with `strata[i]` traces of model `m{i}`, inserted in an order of its own."""
    con = duckdb.connect()
    con.execute("CREATE TABLE tool_calls (trace_id VARCHAR, witness VARCHAR)")
    con.execute(
        "CREATE TABLE traces (trace_id VARCHAR, source VARCHAR, started_at TIMESTAMP, ended_at TIMESTAMP,"
        " state VARCHAR DEFAULT 'complete',"
        " name VARCHAR, session_id VARCHAR, user_id VARCHAR, environment VARCHAR, release VARCHAR,"
        " model VARCHAR, tags VARCHAR[], tool_path VARCHAR, input VARCHAR, final_response VARCHAR,"
        " input_tokens BIGINT, output_tokens BIGINT, cost_usd DOUBLE, latency_ms DOUBLE, error VARCHAR,"
        " scores JSON, metadata JSON, media_missing VARCHAR[], messages JSON)"
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
@settings(max_examples=examples(10, 50), deadline=None)
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
    for item in items:
        if item.stratum != REMAINDER:
            assert item.weight == pytest.approx(strata[int(item.stratum[1:])] / drawn[item.stratum])
    # All that is not pooled is larger than all that is, or as large.
    pooled = [count for kind, count in enumerate(strata) if f"m{kind}" not in drawn]
    assert bool(warnings) == bool(pooled)
    assert min((strata[int(kind[1:])] for kind in drawn if kind != REMAINDER), default=60) >= max(
        pooled, default=0
    )
    assert max(item.weight for item in items) <= 3 * population / len(items) + 1e-9 or len(drawn) == 1


@given(st.lists(st.integers(1, 400), min_size=2, max_size=30), st.integers(10, 80), st.integers(0, 5))
@settings(max_examples=examples(12, 50), deadline=None)
def test_draws_are_proportional_but_for_the_reserve(strata: list[int], size: int, seed: int) -> None:
    with memory(strata) as con:
        items = by_model(con, size, seed).items
    drawn = Counter(int(item.trace_id.partition("-")[0]) for item in items)
    population, size = sum(strata), len(items)
    for kind, count in enumerate(strata):
        # A fifth is reserved, and what is left is rounded up or down in each stratum on its own.
        least = (size - size // RESERVE - len(strata)) * count / population - 1
        most = (size + len(strata)) * count / population + 1
        assert least <= drawn[kind] <= most


@full
def test_every_trace_is_drawn_about_as_often_as_its_stratum_says() -> None:
    hits: Counter[str] = Counter()
    with memory([30, 10]) as con:
        for seed in range(150):
            hits.update(item.trace_id for item in by_model(con, 8, seed).items)
    # 6 of 30 and 2 of 10: each trace in a fifth of 150 draws; five standard deviations are 25.
    assert all(5 <= hits[f"{kind}-{n}"] <= 55 for kind, size in ((0, 30), (1, 10)) for n in range(size))


def test_the_reserve_finds_the_largest_kinds_that_would_be_missed() -> None:
    """A hundred kinds of one to a hundred traces beside one of ten thousand."""
    strata = [10_000, *range(1, 101)]
    with memory(strata) as con:
        for seed in range(5):
            items = by_model(con, 100, seed).items
            kinds = {int(item.trace_id.partition("-")[0]) for item in items}
            reserved = [int(item.trace_id.partition("-")[0]) for item in items[RESERVE - 1 :: RESERVE]]
            assert {100, 99, 98, 97, 96, 95, 94, 93, 92, 91} <= kinds
            assert len(kinds) > 30
            assert reserved == sorted(reserved, key=lambda kind: -strata[kind]), "the largest first"
            assert [item.weight for item in items if item.stratum == "m100"] == [100.0]


def _zipf(paths: int, exponent: float, traces: int = 3000) -> list[int]:
    shares = [1 / rank**exponent for rank in range(1, paths + 1)]
    return [max(1, round(traces * share / sum(shares))) for share in shares]


@pytest.mark.parametrize(("paths", "exponent"), [(137, 1.6), (300, 1.2), (600, 1.4)])
@pytest.mark.slow
def test_long_tails_cost_little(paths: int, exponent: float) -> None:
    strata = _zipf(paths, exponent)
    with memory(strata) as con:
        for size in (50, 100, 200):
            effects = [size / effective_size(by_model(con, size, seed).items) for seed in range(8)]
            assert max(effects) <= 1.5, (size, effects)


@pytest.mark.slow
def test_weighted_means_find_the_truth_on_a_long_tail() -> None:
    """The bias of a mean over the population is far below its error, for what sits in head, middle or tail."""
    strata = _zipf(300, 1.2)
    population, size, seeds = sum(strata), 50, 60
    parts = {"head": (0, 1), "middle": (8, 30), "tail": (30, 300)}
    truth = {name: sum(strata[low:high]) / population for name, (low, high) in parts.items()}
    found: dict[str, list[float]] = {name: [] for name in parts}
    with memory(strata) as con:
        for seed in range(seeds):
            items = by_model(con, size, seed).items
            for name, (low, high) in parts.items():
                inside = [i.weight for i in items if low <= int(i.trace_id.partition("-")[0]) < high]
                found[name].append(sum(inside) / population)
    for name, shares in found.items():
        mean = sum(shares) / seeds
        spread = math.sqrt(sum((share - mean) ** 2 for share in shares) / seeds)
        simple = math.sqrt(truth[name] * (1 - truth[name]) / size)
        assert abs(mean - truth[name]) < 0.02, (name, mean, truth[name])
        assert math.hypot(spread, mean - truth[name]) < simple, "no worse than fifty drawn without strata"


def in_words(strata: list[int], size: int, seed: int) -> list[str]:
    """The rule of the module's docstring, done by hand: nothing of DuckDB's own decides the draw."""

    def digest(text: str) -> str:
        return hashlib.md5(f"{seed}:{text}".encode(), usedforsecurity=False).hexdigest()

    ordered = {
        kind: sorted((f"{kind}-{n}" for n in range(count)), key=digest) for kind, count in enumerate(strata)
    }
    waiting = sorted(
        ((j - int(digest(f"stratum:m{kind}")[:13], 16) / 2**52) / len(ids), digest(trace_id), trace_id)
        for kind, ids in ordered.items()
        for j, trace_id in enumerate(ids, start=1)
    )
    missed = sorted(ordered, key=lambda kind: (-strata[kind], digest(ordered[kind][0])))
    drawn: list[str] = []
    while len(drawn) < min(size, sum(strata)):
        missed = [kind for kind in missed if not set(drawn) & set(ordered[kind])]
        if len(drawn) % 5 == 4 and missed and max(strata) > 1:
            drawn.append(ordered[missed[0]][0])
        else:
            drawn.append(next(trace_id for *_, trace_id in waiting if trace_id not in drawn))
    return drawn


@given(STRATA, st.integers(1, 80), st.integers(-5, 5))
@settings(max_examples=examples(10, 50), deadline=None)
def test_the_draw_is_the_one_the_rule_says(strata: list[int], size: int, seed: int) -> None:
    with memory(strata) as con:
        items = by_model(con, size, seed).items
    assert [item.trace_id for item in items] == in_words(strata, size, seed)


def test_where_all_are_different_each_weighs_the_same() -> None:
    with memory([1] * 40) as con:
        sample, items, warnings = by_model(con, 8)
    assert {item.weight for item in items} == {5.0}
    assert warnings == [
        "40 of 40 strata, with 40 of 40 traces, are too rare to be drawn each by itself, so they are drawn as "
        "one; nothing needs to be done"
    ]
    assert sample.size == 8


def test_rare_tool_paths_are_pooled_by_their_set_of_tools(tmp_path: Path) -> None:
    """Sixty paths over a and b, each of its own length, beside a common path; and by a second field."""
    common = [trace(f"c{n}", tool_calls=calls("x")) for n in range(200)]
    rare = [trace(f"r{n}", tool_calls=calls(*["a", "b"] * (1 + n // 2), *["a"] * (n % 2))) for n in range(60)]
    with open_store(tmp_path / "s.duckdb") as con:
        write_traces(con, [*common, *rare])
        items = draw(con, name="s", size=30, seed=0).items
        cells = Counter(item.stratum for item in items)
        assert cells["{a, b}"] >= 4
        pooled = {item.weight for item in items if item.stratum == "{a, b}"}
        assert len(pooled) == 1
        alone = len([stratum for stratum in cells if ">" in stratum])
        assert pooled.pop() * cells["{a, b}"] == pytest.approx(60 - alone)
        both = draw(con, name="s", size=30, seed=0, by=("metadata.plan", "tool_path")).items
        assert "- | {a, b}" in {item.stratum for item in both}


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
        ({"month": "oct"}, "'oct' is not a month"),
    ],
)
def test_what_cannot_be_drawn(path: Path, options: dict[str, object], says: str) -> None:
    with open_store(path, read_only=True) as con, pytest.raises(InputError) as refused:
        draw(con, **{"name": "s", "size": 5, "seed": 0, **options})  # type: ignore[arg-type]
    assert says in str(refused.value)
