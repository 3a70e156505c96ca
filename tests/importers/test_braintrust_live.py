"""`replay import braintrust` over its API, which a stand-in answers on this machine."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from replaydiff.importers import http
from replaydiff.replay.cli import main
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import iter_traces
from tests.importers.reading import SAMPLES
from tests.stand_ins.braintrust import KEY, Braintrust
from tests.stand_ins.loopback import CUT, Loopback, serving

NOVEMBER = ("--project", "shop", "--month", "2026-11")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[Braintrust, Loopback]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(http, "FIRST_WAIT_S", 0.0)
    rows = [json.loads(line) for line in (SAMPLES / "braintrust" / "rows.jsonl").read_text().splitlines()]
    known = {f"{number}": {"created": "2026-11-01T10:00:00Z", **row} for number, row in enumerate(rows)}
    holds = Braintrust(projects={"shop": {"id": "p", "name": "shop"}}, rows={"p": known}, page=3)
    with serving(holds.answer) as loopback:
        monkeypatch.setenv("BRAINTRUST_API_KEY", KEY)
        monkeypatch.setenv("BRAINTRUST_API_URL", loopback.url)
        yield holds, loopback


def replay(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["import", "braintrust", *args])
    out, err = capsys.readouterr()
    assert KEY not in out + err
    return int(ended.value.code or 0), out + err


def test_a_month_comes_in_as_its_file_does_and_goes_on_where_it_stopped(
    server: tuple[Braintrust, Loopback], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _, loopback = server
    # The project and the first page come; the next one breaks off as often as it is asked for.
    loopback.stumbles = itertools.chain((None, None), (CUT,) * http.ATTEMPTS)
    assert replay(capsys, *NOVEMBER)[0] == 75
    asked = len(loopback.answered)
    code, out = replay(capsys, *NOVEMBER)
    assert (code, "continuing where it stopped" in out) == (0, True), out
    cursors = [request.body["query"]["cursor"] for request in loopback.answered[asked:] if request.body]
    assert None not in cursors
    expected = json.loads((SAMPLES / "braintrust" / "rows.expected.json").read_text())
    with open_store(tmp_path / ".replay" / "replay.duckdb", read_only=True) as con:
        stored = [*iter_traces(con, [record["trace_id"] for record in expected])]
    assert [trace.tool_path for trace in stored] == [
        ">".join(call["name"] for call in record["tool_calls"]) for record in expected
    ]
    assert [trace.scores for trace in stored] == [record["scores"] for record in expected]
    code, out = replay(capsys, "--project", "shop", "--since", "last")
    assert (code, "0 new, 0 updated" in out) == (0, True), out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--month", "2026-11"), "--project NAME says it"),
        (("--project", "none", "--month", "2026-11"), "there is no project 'none' in Braintrust"),
    ],
)
def test_a_project_that_is_missing_is_a_sentence(
    args: tuple[str, ...], says: str, server: tuple[Braintrust, Loopback], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = replay(capsys, *args)
    assert (code, says in out) == (2, True), out
