"""Imports that are interrupted, and imports that go on where the last one ended."""

from __future__ import annotations

import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from replaydiff.replay.cli import main
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
    assert not any("old" in question.question for question in questions)


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


@pytest.mark.parametrize("generation", ["events", "tables"])
def test_what_was_deleted_there_is_shown_and_deleted_here_on_request(generation: str, tmp_path: Path) -> None:
    rows = [row for day in (2, 3, 4) for row in observations(f"t{day}", on(day))]
    with reading(rows=rows, generation=generation) as stand_in:
        ask(tmp_path, stand_in, *OCTOBER)
        # A trace of another project, in the same store.
        stand_in.rows = [{**row, "projectId": "tea", "traceId": "tea"} for row in observations("tea", on(5))]
        ask(tmp_path, stand_in, "--from", "2026-10-05", "--to", "2026-10-06")
        stand_in.rows = [row for row in rows if row["traceId"] == "t2"]
        narrow = ask(tmp_path, stand_in, *OCTOBER, "--user", "nobody", "--mirror")
        shown = ask(tmp_path, stand_in, *OCTOBER)
        before = stored(tmp_path).keys()
        mirrored = ask(tmp_path, stand_in, *OCTOBER, "--mirror")
    assert "no longer" not in narrow.out
    assert "2 stored traces no longer in langfuse; `--mirror` deletes them" in shown.out
    assert before == {"t2", "t3", "t4", "tea"}
    assert "2 traces deleted that langfuse no longer has" in mirrored.out
    assert stored(tmp_path).keys() == {"t2", "tea"}


def test_a_list_that_leaves_a_trace_out_deletes_nothing(tmp_path: Path) -> None:
    rows = [row for day in (2, 3) for row in observations(f"t{day}", on(day))]
    with reading(rows=rows) as stand_in:
        ask(tmp_path, stand_in, *OCTOBER)
        stand_in.hidden = frozenset({"t3"})
        done = ask(tmp_path, stand_in, *OCTOBER, "--mirror")
    assert "no longer" not in done.out
    assert stored(tmp_path).keys() == {"t2", "t3"}


def test_more_than_a_hundred_deleted_traces_are_each_asked_for(tmp_path: Path) -> None:
    rows = [row for number in range(160) for row in observations(f"t{number:03}", on(2, hour=number % 24))]
    with reading(rows=rows) as stand_in:
        ask(tmp_path, stand_in, *OCTOBER)
        # All but one of the first 150 were deleted; the list has none of those that came last, the server does.
        stand_in.rows = [row for row in rows if row["traceId"] > "t149" or row["traceId"] == "t000"]
        stand_in.hidden = frozenset(f"t{number}" for number in range(150, 160))
        shown = ask(tmp_path, stand_in, *OCTOBER)
        mirrored = ask(tmp_path, stand_in, *OCTOBER, "--mirror")
    assert "at least 100 stored traces no longer in langfuse" in shown.out
    assert "149 traces deleted that langfuse no longer has" in mirrored.out
    assert stored(tmp_path).keys() == {"t000", *(f"t{number}" for number in range(150, 160))}


@pytest.mark.parametrize("generation", ["events", "tables"])
def test_pages_that_come_again_and_again_end_the_import_with_a_sentence(
    generation: str, tmp_path: Path
) -> None:
    rows = [row for number in range(60) for row in observations(f"t{number}", on(2, minute=number))]
    with reading(rows=rows, generation=generation, stuck=True) as stand_in:
        done = ask(tmp_path, stand_in, *OCTOBER)
    assert done.code == 2
    assert "the same page" in done.err
    assert len(stand_in.asked) < 20


def test_live_asks_again_and_shows_only_what_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    waits: list[float] = []
    now = datetime.now(UTC).replace(tzinfo=None)
    with reading(rows=observations("old", now - timedelta(weeks=7))) as stand_in:
        ask(tmp_path, stand_in, "--from", moment(now - timedelta(weeks=9)))
        for name, value in environment(stand_in).items():
            monkeypatch.setenv(name, value)

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 1:
                stand_in.rows += observations("new", now - timedelta(weeks=3))
            if len(waits) == 3:
                raise KeyboardInterrupt

        monkeypatch.setattr("replaydiff.replay.commands.import_.sleep", wait)
        with pytest.raises(SystemExit) as ended:
            main(["import", "langfuse", "--since", "last", "--lookback", "8w", "--live", "2"])
    assert (ended.value.code, waits) == (130, [120, 120, 120])
    shown = [line for line in capsys.readouterr().out.splitlines() if "from langfuse" in line]
    assert shown == ["2 traces from langfuse: 1 new, 0 updated, 1 unchanged; 2 tool calls"]
    assert stored(tmp_path).keys() == {"old", "new"}
