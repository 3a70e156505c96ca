"""Phoenix: live, against a server on loopback, and the files that people save of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from replaydiff.importers.base import Note, Reject, Skipped
from replaydiff.replay.cli import main
from replaydiff.replay.model import Trace
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.import_records import list_rejects
from replaydiff.replay.store.traces import iter_traces
from tests.importers.reading import SAMPLES, items, others, traces
from tests.stand_ins.phoenix import Phoenix, phoenix

KEY = "px-secret-1"
OWN = SAMPLES / "phoenix"
Import = Callable[..., tuple[int, str, str]]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Phoenix]:
    for name in ("ENDPOINT", "BASE_URL", "HOST", "PORT", "PROJECT", "PROJECT_NAME", "CLIENT_HEADERS"):
        monkeypatch.delenv(f"PHOENIX_{name}", raising=False)
    with phoenix() as running:
        running.key = KEY
        monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", running.url + "/v1/traces")
        monkeypatch.setenv("PHOENIX_API_KEY", KEY)
        yield running


@pytest.fixture
def replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Import:
    """Calls `replay import phoenix`; whatever it prints, the key is not in it."""
    monkeypatch.chdir(tmp_path)

    def call(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["import", "phoenix", *args])
        out, err = capsys.readouterr()
        assert KEY not in out + err
        return int(ended.value.code or 0), out, err

    return call


def span(
    trace: str, own: str, parent: str | None, kind: str, at: str, end: str, **attributes: Any
) -> dict[str, Any]:
    """A span as the server gives it; `at` and `end` are minutes and seconds after ten o'clock."""
    return {
        "id": f"U3Bhbjo{trace}{own}",
        "name": attributes.pop("name", own),
        "context": {"trace_id": trace, "span_id": f"{trace}-{own}"},
        "span_kind": kind,
        "parent_id": f"{trace}-{parent}" if parent else None,
        "start_time": f"2026-11-01T10:{at}+00:00",
        "end_time": f"2026-11-01T10:{end}+00:00",
        "status_code": "OK",
        "status_message": "",
        "attributes": {key.replace("__", "."): value for key, value in attributes.items()},
        "events": [],
    }


def run(trace: str, minute: int) -> list[dict[str, Any]]:
    """A run of an agent that begins at this minute, looks something up, and answers ten seconds later."""
    asked, answer = f"Question {trace}", f"Answer {trace}"
    return [
        span(trace, "root", None, "AGENT", f"{minute}:00", f"{minute}:10", input__value=asked,
             output__value=answer, user__id=f"user-{minute}", tag__tags=["web"]),
        span(trace, "tool", "root", "TOOL", f"{minute}:02", f"{minute}:03", name="look_up",
             input__value='{"id": 1}', output__value="found"),
        span(trace, "model", "root", "LLM", f"{minute}:04", f"{minute}:09", input__value=asked,
             output__value=answer, llm__token_count__prompt=minute),
    ]  # fmt: skip


def filled(server: Phoenix, number: int) -> None:
    """Runs in the first minutes after ten."""
    server.spans = [one for minute in range(10, 10 + number) for one in run(f"t{minute}", minute)]


def stored() -> dict[str, Trace]:
    with open_store(Path(".replay/replay.duckdb"), read_only=True) as con:
        ids = [row[0] for row in con.execute("SELECT trace_id FROM traces").fetchall()]
        return {trace.trace_id: trace for trace in iter_traces(con, ids)}


def spans_asked(server: Phoenix) -> list[dict[str, list[str]]]:
    return [asked for path, asked in server.calls if path.endswith("/spans")]


DAY = ("--from", "2026-11-01", "--to", "2026-11-02")


def test_every_page_comes_in_with_what_people_said_of_it(server: Phoenix, replay: Import) -> None:
    filled(server, 50)
    judged = {"annotator_kind": "HUMAN", "updated_at": "2026-11-02T00:00:00+00:00"}
    server.annotations["span"] = [
        {**judged, "span_id": "t10-root", "name": "thumb", "result": {"score": 1.0, "label": "up"}},
        {**judged, "span_id": "t10-model", "name": "thumb", "result": {"score": 0.0, "label": "down"}},
        {**judged, "span_id": "t11-root", "name": "note", "result": {"explanation": "a remark"}},
        *({**judged, "span_id": "t12-root", "name": f"n{n}", "result": {"label": "x"}} for n in range(1200)),
    ]
    server.annotations["trace"] = [{**judged, "trace_id": "t11", "name": "tone", "result": {"label": "kind"}}]
    code, out, err = replay(*DAY, "--project", "default")
    assert (code, out.splitlines()[0]) == (
        0,
        "50 traces from phoenix: 50 new, 0 updated, 0 unchanged; 50 tool calls",
    )
    assert f"fetching traces from Phoenix at {server.url}, project default" in err
    found = stored()
    assert {key: trace.input for key, trace in found.items()} == {
        f"t{n}": f"Question t{n}" for n in range(10, 60)
    }
    one = found["t10"]
    assert (one.final_response, one.tool_path, one.tool_calls[0].result) == ("Answer t10", "look_up", "found")
    assert (one.usage.input_tokens if one.usage else 0, one.user_id, one.tags) == (10, "user-10", ("web",))
    assert one.scores == {"thumb": 1.0, "thumb_label": "up"}
    assert found["t11"].scores == {"tone": "kind"}
    assert len(found["t12"].scores) == 1200
    _, out, _ = replay(*DAY)
    assert "0 new, 0 updated, 50 unchanged" in out


def test_what_was_answered_is_not_asked_for_twice(server: Phoenix, replay: Import) -> None:
    filled(server, 50)
    server.largest_page = 20
    server.down_after = 12
    code, _, err = replay(*DAY)
    assert code == 2
    assert "down for maintenance" in err
    before = [asked.get("cursor") for asked in spans_asked(server)[:-1]]
    server.calls.clear()
    server.down_after = None
    code, out, err = replay(*DAY)
    assert "continuing where it stopped" in err
    assert (code, out.split(";")[0]) == (0, "50 traces from phoenix: 50 new, 0 updated, 0 unchanged")
    after = [asked.get("cursor") for asked in spans_asked(server)]
    assert not {str(place) for place in before} & {str(place) for place in after}


def test_a_trace_that_the_span_of_time_cuts_comes_in_whole_or_not(server: Phoenix, replay: Import) -> None:
    filled(server, 20)
    # From within t12 to within t20: t12 began before, t20 goes on afterwards.
    code, _, _ = replay("--from", "2026-11-01T10:12:03", "--to", "2026-11-01T10:20:03")
    assert code == 0
    found = stored()
    assert set(found) == {f"t{n}" for n in range(13, 21)}
    assert found["t20"].final_response == "Answer t20"
    assert len(found["t20"].steps) == 3


def test_since_last_takes_what_went_on_after_it_was_read(server: Phoenix, replay: Import) -> None:
    whole = run("t10", 10)
    late = span("t10", "late", "root", "TOOL", "59:00", "59:01", name="late", input__value="{}")
    server.spans = whole
    replay("--from", "2026-11-01T10:00:00", "--to", "2026-11-01T10:50:00")
    assert stored()["t10"].tool_path == "look_up"
    server.spans = [*whole, late]
    code, out, _ = replay("--since", "last", "--to", "2026-11-01T12:30:00")
    assert (code, "1 updated" in out) == (0, True)
    assert stored()["t10"].tool_path == "look_up>late"


@pytest.mark.parametrize("faults", [[500], [429, 429], ["cut"], [503, "cut", 500]])
def test_a_server_that_stumbles_is_asked_again(
    server: Phoenix, replay: Import, faults: list[int | str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replaydiff.importers.http.FIRST_WAIT_S", 0.01)
    filled(server, 3)
    server.faults = faults
    code, out, _ = replay(*DAY)
    assert (code, "3 new" in out) == (0, True)


def test_an_old_server_gives_what_it_can_and_the_rest_is_told(server: Phoenix, replay: Import) -> None:
    server.old = True
    filled(server, 20)
    thumb = {"name": "thumb", "annotator_kind": "HUMAN", "result": {"score": 1.0}}
    server.annotations["span"] = [{**thumb, "span_id": "t13-root"}]
    # Of one the root is nowhere.
    server.spans += run("lost", 19)[1:]
    code, out, _ = replay("--from", "2026-11-01T10:12:03", "--to", "2026-11-01T10:20:03")
    assert code == 0
    assert "1 record: spans of this trace are missing" in out
    found = stored()
    assert set(found) == {"lost", *(f"t{n}" for n in range(13, 21))}
    assert found["t13"].scores == {"thumb": 1.0}
    assert [key for key, trace in found.items() if trace.incomplete] == ["lost"]
    assert len(found["t20"].steps) == 3


def test_only_what_was_asked_for_comes_in(server: Phoenix, replay: Import) -> None:
    filled(server, 5)
    server.spans[0]["attributes"]["tag.tags"] = ["web", "vip"]
    assert replay(*DAY, "--tag", "web", "--tag", "vip")[0] == 0
    assert set(stored()) == {"t10"}
    assert replay(*DAY, "--user", "user-12", "--user", "user-13")[0] == 0
    assert set(stored()) == {"t10", "t12", "t13"}


def test_a_span_that_cannot_be_read_is_a_reject(server: Phoenix, replay: Import) -> None:
    filled(server, 2)
    server.spans.append(span("t99", "root", None, "AGENT", "30:00", "30:01") | {"end_time": "soon"})
    code, out, _ = replay(*DAY)
    assert code == 3
    assert "1 record rejected" in out
    with open_store(Path(".replay/replay.duckdb"), read_only=True) as con:
        (reject,) = list_rejects(con)
    assert reject.reason.startswith("end_time is not a time: 'soon'")
    assert reject.file == f"Phoenix at {server.url}, project default"


def test_a_wrong_key_and_a_wrong_project_are_told(
    server: Phoenix, replay: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = replay(*DAY, "--project", "a/b?c")
    assert code == 2
    assert "there is no such project; --project takes one of: default" in err
    monkeypatch.setenv("PHOENIX_API_KEY", "wrong")
    code, _, err = replay(*DAY)
    assert code == 2
    assert "refuses the keys (HTTP 401); check PHOENIX_API_KEY and PHOENIX_CLIENT_HEADERS" in err


@pytest.mark.parametrize("name", ["PHOENIX_HOST", "PHOENIX_BASE_URL", "PHOENIX_ENDPOINT"])
def test_address_and_headers_are_read_as_the_client_of_phoenix_does(
    server: Phoenix, replay: Import, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    filled(server, 1)
    monkeypatch.delenv("PHOENIX_COLLECTOR_ENDPOINT")
    if name == "PHOENIX_HOST":
        monkeypatch.setenv("PHOENIX_PORT", server.url.rpartition(":")[2])
        monkeypatch.setenv(name, "0.0.0.0")
    else:
        monkeypatch.setenv(name, server.url)
    monkeypatch.setenv("PHOENIX_API_KEY", "is not taken")
    monkeypatch.setenv("PHOENIX_CLIENT_HEADERS", f"Authorization=Bearer%20{KEY},x-team=a%2Cb")
    code, out, _ = replay(*DAY)
    assert (code, "1 new" in out) == (0, True)


def test_what_is_no_page_of_phoenix_is_told(
    server: Phoenix, replay: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", f"{server.url}/x/elsewhere")
    code, _, err = replay(*DAY)
    assert code == 2
    assert "nothing there answers as Phoenix 11 or later does; is the address right?" in err


def test_evaluators_and_missing_contents_are_told() -> None:
    skipped, note = others(items("phoenix", OWN / "page.json"))
    assert skipped == Skipped("traces of evaluators, which judge answers and give none to a user")
    assert isinstance(note, Note)
    assert note.text.endswith("by leaving OPENINFERENCE_HIDE_INPUTS, …_OUTPUTS and …_MESSAGES unset")


def test_a_data_frame_without_its_index_is_read_and_told() -> None:
    (note,) = others(items("phoenix", OWN / "frame-without-ids.jsonl"))
    assert isinstance(note, Note)
    assert "df.reset_index()" in note.text


def test_a_data_frame_as_parquet_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "frame.parquet"
    with duckdb.connect() as con:
        frame = (OWN / "frame.csv").with_name("frame-without-ids.jsonl")
        con.execute(
            'COPY (SELECT *, chr(96 + row_number() OVER ()::INTEGER) AS "context.span_id" FROM '
            f"read_json('{frame}')) TO '{file}' (FORMAT parquet)"
        )
    (made,) = traces("phoenix", file)
    (same,) = traces("phoenix", OWN / "frame-by-columns.json")
    assert (made.input, made.final_response, made.tool_calls[0].args) == (
        same.input,
        same.final_response,
        same.tool_calls[0].args,
    )
    assert (made.metadata, made.session_id, made.tags) == (same.metadata, same.session_id, same.tags)


def test_annotations_without_their_spans(tmp_path: Path) -> None:
    file = tmp_path / "annotations.jsonl"
    one = {"name": "thumb", "annotator_kind": "HUMAN", "result": {"score": 1}}
    file.write_text(json.dumps({**one, "span_id": "elsewhere"}) + "\n" + json.dumps(one) + "\n")
    reject, skipped = items("phoenix", file)
    assert isinstance(reject, Reject)
    assert "no span_id" in reject.reason
    assert skipped == Skipped("annotations of spans that are not in these files")


def test_annotations_of_a_session_are_scores_of_its_traces(tmp_path: Path) -> None:
    rows = [*run("t1", 11), *run("t2", 12)]
    rows[0]["attributes"]["session.id"] = "s1"
    rated = {"annotator_kind": "HUMAN", "updated_at": "2026-11-02T10:00:00+00:00"}
    rows += [
        {**rated, "session_id": "s1", "name": "csat", "result": {"score": 4.0, "label": "good"}},
        {**rated, "span_id": "t1-root", "name": "thumb", "result": {"score": 1.0}},
    ]
    file = tmp_path / "spans.json"
    file.write_text(json.dumps(rows))
    found = {trace.trace_id: trace for trace in traces("phoenix", file)}
    assert found["t1"].scores == {"csat": 4.0, "csat_label": "good", "thumb": 1.0}
    assert found["t2"].scores == {}
