"""Imports that are interrupted, and imports that go on where the last one ended."""

from __future__ import annotations

import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.importers.langfuse_live.asking import OCTOBER, ask, command, environment, on, stored
from tests.stand_ins.full import full
from tests.stand_ins.langfuse_read import Langfuse, reading
from tests.stand_ins.langfuse_rows import Row, moment, observations, score
from tests.stand_ins.processes import start


def _month() -> list[Row]:
    rows = [row for day in range(1, 32) for row in observations(f"t{day}", on(day, 23, 59))]
    for number in range(20):
        rows += observations(f"cut{number}", on(30, 23, 50, month=9), length=timedelta(minutes=30))
    return rows


def _kill_after(folder: Path, stand_in: Langfuse, answers: int) -> None:
    """Begin the import and kill it, with no chance to tidy up, once it got so many more answers."""
    goal = len(stand_in.answered) + answers
    with start(folder, *command(*OCTOBER), env=environment(stand_in)) as running:
        while len(stand_in.answered) < goal and running.poll() is None:
            time.sleep(0.001)
        time.sleep(random.random() * 0.02)
        running.kill()


@pytest.mark.parametrize("generation", ["events", "tables"])
@pytest.mark.slow
def test_killed_at_any_moment_it_asks_for_nothing_twice_that_it_has(generation: str, tmp_path: Path) -> None:
    scores = [score(f"t{day}", "thumbs", 1, on(day)) for day in range(1, 32)]
    with reading(rows=_month(), scores=scores, generation=generation, pause=0.02) as stand_in:
        last: list[str] = []
        for answers in (1, 2, 4, 6):
            _kill_after(tmp_path, stand_in, answers)
            last += [one.question for one in stand_in.answered[-2:]]
        done = ask(tmp_path, stand_in, *OCTOBER)
        assert "continuing where it stopped" in done.err
        assert done.out.startswith("31 traces from langfuse")
        asked = Counter(one.question for one in stand_in.answered)
    # The answers that were under way when it was killed were sent whole, and not read whole.
    assert {question for question, times in asked.items() if times > 1} <= set(last)
    found = stored(tmp_path)
    assert len(found) == 31
    assert all(len(trace.steps) == 4 and trace.scores == {"thumbs": 1} for trace in found.values())


@pytest.mark.slow
def test_the_same_again_changes_nothing(tmp_path: Path) -> None:
    with reading(rows=_month()) as stand_in:
        ask(tmp_path, stand_in, *OCTOBER)
        before = stored(tmp_path)
        done = ask(tmp_path, stand_in, *OCTOBER)
    assert done.out.startswith("31 traces from langfuse: 0 new, 0 updated, 31 unchanged")
    assert stored(tmp_path) == before


@pytest.mark.parametrize("chosen", [(), ("--user", "u1"), pytest.param(("--name", "barista"), marks=full)])
@pytest.mark.parametrize("generation", ["events", pytest.param("tables", marks=full)])
@pytest.mark.slow
def test_since_last_brings_what_is_new_and_what_changed(
    generation: str, chosen: tuple[str, ...], tmp_path: Path
) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    old = observations("old", now - timedelta(days=3))
    rated = observations("rated", now - timedelta(days=2))
    running = observations("running", now - timedelta(hours=3), length=timedelta(minutes=170))
    first = score("rated", "clarity", 3, now - timedelta(days=1))
    with reading(rows=[*old, *rated, *running[:2]], scores=[first], generation=generation) as stand_in:
        refused = ask(tmp_path, stand_in, "--since", "last", *chosen)
        assert refused.code == 2
        assert "nothing was imported completely from" in refused.err
        since = moment(now - timedelta(days=7))
        assert ask(tmp_path, stand_in, "--from", since, *chosen).out.startswith(
            "3 traces from langfuse: 3 new"
        )
        assert len(stored(tmp_path)["running"].steps) == 2

        stand_in.rows += [*running[2:], *observations("new", now - timedelta(minutes=1))]
        running[0]["updatedAt"] = moment(now)
        stand_in.scores.append(score("rated", "thumbs", 1, now - timedelta(minutes=2)))
        before = len(stand_in.asked)
        done = ask(tmp_path, stand_in, "--since", "last", *chosen)
        questions = stand_in.asked[before:]
    assert done.out.startswith("3 traces from langfuse: 1 new, 2 updated, 0 unchanged")
    found = stored(tmp_path)
    assert len(found["running"].steps) == 4
    assert found["rated"].scores == {"clarity": 3, "thumbs": 1}
    assert not any("old" in one.question for one in questions)


@pytest.mark.slow
def test_marks_are_of_a_place_and_a_question(tmp_path: Path) -> None:
    with reading(rows=_month()) as stand_in, reading(rows=_month()) as elsewhere:
        ask(tmp_path, stand_in, *OCTOBER)
        assert ask(tmp_path, stand_in, "--since", "last").code == 0
        assert ask(tmp_path, stand_in, "--since", "last", "--user", "u1").code == 2
        assert ask(tmp_path, elsewhere, "--since", "last").code == 2


def test_a_mark_is_set_only_where_all_was_read(tmp_path: Path) -> None:
    with reading(rows=_month()) as stand_in:
        stand_in.faults = lambda _number, path, _query: "418" if path == "/v3/scores" else None
        assert ask(tmp_path, stand_in, *OCTOBER).code == 2
        assert ask(tmp_path, stand_in, "--since", "last").code == 2


@pytest.mark.slow
def test_the_store_is_free_while_a_month_is_asked_for(tmp_path: Path) -> None:
    with (
        reading(rows=_month(), pause=0.08) as stand_in,
        start(tmp_path, *command(*OCTOBER), env=environment(stand_in)) as running,
    ):
        while not stand_in.asked and running.poll() is None:
            time.sleep(0.01)
        assert stored(tmp_path) == {}
        second = ask(tmp_path, stand_in, *OCTOBER)
        out, _ = running.communicate()
    assert second.code == 75
    assert "the same import is running in another process" in second.err
    assert out.startswith("31 traces from langfuse: 31 new")
    assert len(stored(tmp_path)) == 31


@pytest.mark.slow
def test_a_trace_that_came_late_is_found_by_looking_back(tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    with reading(rows=observations("known", now - timedelta(days=5))) as stand_in:
        assert ask(tmp_path, stand_in, "--from", moment(now - timedelta(days=9))).code == 0
        stand_in.rows += observations("late", now - timedelta(days=4))
        assert ask(tmp_path, stand_in, "--since", "last").out.startswith("0 traces")
        found = ask(tmp_path, stand_in, "--since", "last", "--lookback", "7d")
        assert found.out.startswith("2 traces from langfuse: 1 new, 0 updated, 1 unchanged")
        assert ask(tmp_path, stand_in, "--since", "last", "--lookback", "soon").code == 2
        assert ask(tmp_path, stand_in, *OCTOBER, "--lookback", "7d").code == 2


def test_an_end_in_the_future_does_not_move_the_next_beginning_there(tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    with reading(rows=observations("known", now - timedelta(days=5))) as stand_in:
        span = ("--from", moment(now - timedelta(days=9)), "--to", moment(now + timedelta(days=9)))
        assert ask(tmp_path, stand_in, *span).code == 0
        stand_in.rows += observations("next", now - timedelta(minutes=2))
        found = ask(tmp_path, stand_in, "--since", "last")
        assert found.out.startswith("1 trace from langfuse: 1 new")
