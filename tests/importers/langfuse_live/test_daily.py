"""A nightly import for a month: after each night the store is what one import of everything would give.

What happens to those who trace an agent: runs that are not over when the job begins, runs that come a day late,
ratings and comments weeks later, a worker that adds a span to a trace of last week, answers that are corrected, traces
that are deleted, a server that limits requests and whose rows change between two pages.
"""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from replaydiff.importers.base import LiveImporter, find_importer
from replaydiff.importers.base import Query as Wanted
from replaydiff.replay import clock
from replaydiff.replay.cli import main
from replaydiff.replay.model import Trace
from tests.importers.langfuse_live.asking import environment, stored
from tests.stand_ins.full import full
from tests.stand_ins.langfuse_read import Langfuse, Query, reading
from tests.stand_ins.langfuse_rows import Row, moment, observations, score

FIRST = datetime(2026, 9, 30)
BEGINNING = "2026-09-01"
DAY, RECENT = timedelta(days=1), timedelta(days=6)
"""Corrections and deletions are of recent traces: the job looks a week back."""
NIGHTLY = ("--since", "last", "--lookback", "7d", "--mirror")
WINTER = datetime(2026, 10, 25)
"""From here on midnight in Berlin is at 23:00 UTC, before at 22:00."""


@dataclass
class Bar:
    """A coffee bar, its clock, and what its Langfuse server has."""

    server: Langfuse
    chance: random.Random
    now: datetime = FIRST
    later: list[Row] = field(default_factory=list)
    """Rows that come, or replace others, after the next night."""
    torn: set[str] = field(default_factory=set)
    """Traces that were deleted while the last night read its pages."""

    def day(self, number: int) -> None:
        """What happens between two nights."""
        day = FIRST + number * DAY
        self.now = day + timedelta(days=1, hours=2)
        self.torn = set()
        coming = {row["id"] for row in self.later}
        self.server.rows = [row for row in self.server.rows if row["id"] not in coming] + self.later
        midnight = day + timedelta(hours=23 if day >= WINTER else 22)
        for key, at in (
            ("some", day + timedelta(hours=self.chance.randrange(3, 20))),
            ("before", midnight - timedelta(milliseconds=1)),
            ("at", midnight),
        ):
            self.server.rows += observations(f"d{number}-{key}", at, release=f"{at:%m}")
        # Begun before the job and over after it: its last spans and the answer come the next day.
        over = observations(f"d{number}-long", self.now - timedelta(minutes=31), length=timedelta(hours=2))
        unended = {**over[0], "output": None, "endTime": None, "updatedAt": over[0]["startTime"]}
        self.server.rows += [unended, over[1]]
        self.later = [over[0], *over[2:], *observations(f"d{number}-late", day + timedelta(hours=12))]
        self._rate(number)
        if number % 2:
            self._add(number)
        if number % 3 == 0:
            self._correct()
        if number % 4 == 3:
            self._delete()

    def meanwhile(self, number: int, path: str, query: Query) -> str | None:
        """What goes wrong with a request; every fifth night rows change between two pages of them."""
        is_first = ("page" in query and query["page"] == ["1"]) or (
            "page" not in query and "cursor" not in query
        )
        if self.now.day % 5 == 0 and path.endswith("/observations") and not is_first and not self.torn:
            self.torn = {self._delete()}
            self.server.rows += observations(f"m{number}", self.now + timedelta(seconds=1))
        return {0: "429", 50: "502", 99: "cut"}.get(number % 150)

    def _began(self, back: timedelta) -> str:
        """A trace that is over and began so long ago at most."""
        unended = {row["traceId"] for row in self.later}
        since = moment(self.now - back)
        roots = {row["traceId"]: row["startTime"] for row in self.server.rows if row["id"].endswith("-0")}
        return self.chance.choice(sorted(key for key in roots if roots[key] >= since and key not in unended))

    def _rate(self, number: int) -> None:
        at = self.now - timedelta(hours=self.chance.randrange(1, 20))
        self.server.scores.append(score(self._began(25 * DAY), "thumbs", number % 2, at))
        self.server.scores.append(score(self._began(25 * DAY), "mood", "glad", at, kind="CATEGORICAL"))
        comment = {"id": f"comment{number}", "objectType": "TRACE", "objectId": self._began(25 * DAY)}
        times = {"createdAt": moment(at), "updatedAt": moment(at)}
        assert self.server.comments is not None
        self.server.comments.append({**comment, **times, "content": f"Note {number}", "projectId": "cafe"})

    def _add(self, number: int) -> None:
        """A worker adds a span to a trace, or another root."""
        key, parts = self._began(20 * DAY), observations(f"add{number}", self.now - timedelta(hours=5))
        added = parts[2] if number % 4 == 1 else parts[0]
        parent = None if added["isRootObservation"] else f"{key}-0"
        self.server.rows.append({**added, "traceId": key, "parentObservationId": parent})

    def _correct(self) -> None:
        root = f"{self._began(RECENT)}-0"
        corrected = next(row for row in self.server.rows if row["id"] == root)
        corrected |= {
            "output": f"{corrected['output']} Sorry!",
            "updatedAt": moment(self.now - timedelta(hours=1)),
        }

    def _delete(self) -> str:
        key = self._began(RECENT)
        self.server.rows = [row for row in self.server.rows if row["traceId"] != key]
        return key


def _import(folder: Path, monkeypatch: pytest.MonkeyPatch, *args: str) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as ended:
        main(["import", "langfuse", *args])
    assert ended.value.code in (0, None)


def _at_once(bar: Bar, folder: Path) -> dict[str, Trace]:
    """All traces of the server, as one import of everything has them."""
    folder.mkdir()
    wanted = Wanted(start=datetime.fromisoformat(BEGINNING), end=bar.now)
    importer = cast("LiveImporter", find_importer("langfuse"))
    with closing(importer.read_live(wanted, folder, lambda _text: None)) as items:  # type: ignore[type-var]
        return {item.trace_id: item for item in items if isinstance(item, Trace)}


@pytest.mark.parametrize(
    ("generation", "nights", "chosen"),
    [
        ("events", 12, ()),
        ("tables", 6, ("--environment", "default")),
        pytest.param("events", 33, (), marks=full),
        pytest.param("tables", 36, (), marks=full),
        pytest.param("tables", 36, ("--environment", "default"), marks=full),
        pytest.param("events", 36, ("--environment", "default"), marks=full),
        pytest.param("events", 36, ("--user", "u1"), marks=full),
    ],
)
@pytest.mark.slow
def test_after_each_night_the_store_is_what_one_import_of_everything_gives(
    generation: str,
    nights: int,
    chosen: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "replay.toml").write_text('[project]\ntimezone = "Europe/Berlin"\n', encoding="utf-8")
    with reading(generation=generation, comments=[], most=50) as server:
        bar = Bar(server, random.Random(38))
        monkeypatch.setattr(clock, "utc_now", lambda: bar.now)
        for name, value in environment(server).items():
            monkeypatch.setenv(name, value)
        for number in range(nights):
            bar.day(number)
            server.faults = bar.meanwhile
            _import(tmp_path, monkeypatch, *(NIGHTLY if number else ("--from", BEGINNING)), *chosen)
            server.faults = lambda _number, _path, _query: None
            expected = _at_once(bar, tmp_path / f"once{number}")
            found = stored(tmp_path)
            assert {key: found[key] for key in found.keys() - bar.torn} == expected, number
        assert {one.fate for one in server.asked} >= {"ok", "429", "cut"}
        # What the nights brought in is also what the month of the project's zone has.
        _import(tmp_path, monkeypatch, "--month", "2026-10", "--mirror", *chosen)
        assert stored(tmp_path) == expected
