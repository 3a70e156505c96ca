"""Answers that are not as they should be: fields that are gone or of another kind, and pages that are counted wrongly.

Whatever a server answers, the import brings in what is there, or says a sentence: nothing is lost silently.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest

from replaydiff.importers.base import LiveImporter, find_importer
from replaydiff.importers.base import Query as Wanted
from replaydiff.replay.errors import ReplayError
from replaydiff.replay.model import Trace
from tests.importers.langfuse_live.asking import OCTOBER, ask, environment, on, stored
from tests.stand_ins.full import full
from tests.stand_ins.langfuse_read import Query, reading
from tests.stand_ins.langfuse_rows import Row, observations, score

WANTED = Wanted(start=datetime(2026, 10, 1), end=datetime(2026, 11, 1))
CHANGES: dict[str, Callable[[str, Any], Row]] = {
    "renamed": lambda key, value: {f"{key}V9": value},
    "deleted": lambda _key, _value: {},
    "in a list": lambda key, value: {key: [value]},
    "in an object": lambda key, value: {key: {"value": value}},
}
CONTENTS = ("input", "output", "metadata")
"""Fields whose values are the user's."""
COMMENT = {
    "id": "c1", "projectId": "cafe", "objectType": "TRACE", "objectId": "t1", "content": "Cold!",
    "createdAt": "2026-10-04T12:00:00.000Z", "updatedAt": "2026-10-04T12:00:00.000Z",
}  # fmt: skip


def _server() -> dict[str, Any]:
    rows = [row for day in (1, 2) for row in observations(f"t{day}", on(day))]
    scores = [score("t1", "thumbs", 1, on(3)), score("t2", "mood", "glad", on(3), kind="CATEGORICAL")]
    return {"rows": rows, "scores": scores, "comments": [COMMENT]}


def _facts(trace: Trace) -> Iterator[tuple[str, str]]:
    """What a diff would be about: kind and trace, and all text of it."""
    yield f"input {trace.trace_id}", str(trace.input)
    yield f"answer {trace.trace_id}", str(trace.final_response)
    yield f"call {trace.trace_id}", str([(call.name, call.args, call.result) for call in trace.tool_calls])
    yield f"scores {trace.trace_id}", str(trace.scores)
    yield f"comments {trace.trace_id}", str(trace.metadata.get("comments"))


WORDS = {
    f"{kind} {key}": words
    for key in ("t1", "t2")
    for kind, words in (
        ("input", [f"Where is my coffee {key}?"]),
        ("answer", [f"Coffee {key} is being brewed."]),
        ("call", ["find_order", key, "brewing"]),
        ("scores", ["thumbs", "1"] if key == "t1" else ["mood", "glad"]),
        ("comments", ["Cold!"] if key == "t1" else []),
    )
}
"""Fact → what must be in its text."""


def _read(folder: Path) -> tuple[set[str], set[str]]:
    """Facts of `WORDS` that came in, and what was said beside them; a sentence that ends the import is all."""
    folder.mkdir()
    importer = cast("LiveImporter", find_importer("langfuse"))
    came, said = set[str](), set[str]()
    try:
        with closing(importer.read_live(WANTED, folder, lambda _text: None)) as items:  # type: ignore[type-var]
            for item in items:
                if isinstance(item, Trace):
                    facts = dict(_facts(item))
                    came.update(fact for fact in facts if all(word in facts[fact] for word in WORDS[fact]))
                    said.add(f"{item.trace_id} {item.state}")
                    said.update(
                        "no result" for call in item.tool_calls if not call.answered and call.error is None
                    )
                else:
                    said.add(getattr(item, "text", getattr(item, "reason", "")))
    except ReplayError as error:
        said.add(f"error: {error}")
    return came, said


def _changed(value: Any, key: str, how: str) -> Any:
    if isinstance(value, list):
        return [_changed(inner, key, how) for inner in value]
    if not isinstance(value, dict):
        return value
    found: Row = {}
    for name, inner in value.items():
        within = inner if name in CONTENTS else _changed(inner, key, how)
        found |= CHANGES[how](name, inner) if name == key else {name: within}
    return found


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = [inner for name, inner in value.items() if name not in CONTENTS]
    for inner in value if isinstance(value, list) else ():
        yield from _keys(inner)


@pytest.mark.parametrize(
    ("how", "generation"),
    [
        pytest.param(how, generation, marks=() if number % 2 == place else full)
        for number, how in enumerate(CHANGES)
        for place, generation in enumerate(("events", "tables"))
    ],
)
@pytest.mark.slow
def test_nothing_is_lost_silently_where_fields_of_answers_change(
    how: str, generation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies: list[Row] = []

    def answer(_path: str, _query: Query, body: Row) -> Row:
        bodies.append(_changed(body, key, how) if key else body)
        return bodies[-1]

    key, lost = "", set()
    with reading(**_server(), generation=generation, change=answer) as server:
        for name, value in environment(server).items():
            monkeypatch.setenv(name, value)
        true, silent = _read(tmp_path / "true")
        assert true == WORDS.keys()
        for number, changed_key in enumerate(sorted(set(_keys(bodies)))):
            key = changed_key
            bodies.clear()
            came, said = _read(tmp_path / str(number))
            text = json.dumps(bodies)
            gone = {fact for fact in true - came if all(word in text for word in WORDS[fact])}
            if gone and not said - silent:
                lost.add((key, *sorted(gone)))
    assert lost == set()


ROWS = [row for number in range(60) for row in observations(f"t{number}", on(2, minute=number))]
SCORES = [score(f"t{number % 60}", f"s{number}", 1, on(2, minute=number % 60)) for number in range(120)]


def _with_meta(**meta: Any) -> Callable[[str, Query, Row], Row]:
    """Answers whose pages say this of themselves; None takes it out, a number is added."""

    def change(_path: str, _query: Query, body: Row) -> Row:
        if "meta" not in body:
            return body
        more = {
            key: value if isinstance(value, str) else body["meta"].get(key, 0) + value
            for key, value in meta.items()
            if value is not None
        }
        return {
            **body,
            "meta": {
                key: value for key, value in {**body["meta"], **more}.items() if meta.get(key, 1) is not None
            },
        }

    return change


def _without_second(path: str, query: Query, body: Row) -> Row:
    return {**body, "data": []} if query.get("page") == ["2"] and path == "/observations" else body


def _circle() -> Callable[[str, Query, Row], Row]:
    """Pages of which the third leads back to the second."""
    cursors: list[str] = []

    def change(_path: str, query: Query, body: Row) -> Row:
        cursors.extend(query.get("cursor", []))
        return {**body, "meta": {"cursor": cursors[0]}} if len(set(cursors)) > 1 else body

    return change


@pytest.mark.parametrize(
    ("generation", "change", "says"),
    [
        ("tables", _with_meta(totalPages=-9), ""),
        ("tables", _with_meta(totalPages=+9), ""),
        ("tables", _with_meta(totalPages=None, totalItems=None), ""),
        ("tables", _with_meta(totalItems=+9), "the server counts"),
        ("tables", _without_second, "rows of observations and answered 140"),
        (
            "tables",
            lambda _path, _query, body: {key: body[key] for key in body.keys() - {"meta"}},
            "does not say",
        ),
        (
            "events",
            lambda _path, _query, body: {key: body[key] for key in body.keys() - {"meta"}},
            "does not say",
        ),
        ("events", _with_meta(cursor=None), "does not say where the next ones are"),
        ("events", lambda _path, _query, body: {**body, "meta": {"cursor": 5}}, "is no text"),
        ("events", _circle(), "the same page of"),
    ],
)
@pytest.mark.slow
def test_pages_that_are_counted_wrongly_cost_nothing_or_a_sentence(
    generation: str, change: Callable[[str, Query, Row], Row], says: str, tmp_path: Path
) -> None:
    with reading(rows=ROWS, scores=SCORES, generation=generation, change=change, most=100) as server:
        done = ask(tmp_path, server, *OCTOBER)
    assert says in done.out + done.err
    if done.code == 0:
        found = stored(tmp_path)
        assert sorted(found) == sorted({row["traceId"] for row in ROWS})
        assert all(len(trace.steps) == 4 and len(trace.scores) == 2 for trace in found.values())
    else:
        assert done.code == 2


def test_observations_of_a_type_that_is_new_are_spans_and_said(tmp_path: Path) -> None:
    rows = observations("t", on(2))
    rows[0]["type"] = "WORKFLOW"
    with reading(rows=rows) as server:
        done = ask(tmp_path, server, *OCTOBER)
    assert (done.code, len(stored(tmp_path)["t"].steps)) == (0, 4)
    assert "observations of a type that is not known here (WORKFLOW) are taken as spans" in done.out
