"""Session files are stored once: each turn has its own messages, and names the turn that it continues."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import replaydiff as rd
from replaydiff.replay.api.exporting import ExportRequest
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import Trace
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.conversations import get_conversation
from replaydiff.replay.store.traces import delete_traces, get_trace, iter_traces, traces_of_source
from tests.importers.layouts import SESSION_FILES, Record, Turn, claude_code

TURNS = 6
TALK = [
    Turn(
        f"question {number}", [[("find", {"n": number}, f"row {number}")]] * (number % 3), f"answer {number}"
    )
    for number in range(TURNS)
]
ALL_BEFORE = [text for turn in TALK[:-1] for text in (turn.user, turn.answer)]


def project_of(folder: Path, source: str, *files: Sequence[Record]) -> rd.Project:
    folder.mkdir(exist_ok=True)
    (folder / "replay.toml").write_text("")
    for number, records in enumerate(files):
        (folder / f"{number}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    project = rd.open(folder)
    project.import_(*(folder / f"{number}.jsonl" for number in range(len(files))), source=source)
    return project


def stored(project: rd.Project, *, with_history: bool) -> list[Trace]:
    with open_store(project.store.path, read_only=True) as con:
        ids = [name for (name,) in con.execute("SELECT trace_id FROM traces ORDER BY started_at").fetchall()]
        return list(iter_traces(con, ids, with_history=with_history))


@pytest.mark.parametrize("source", SESSION_FILES)
def test_each_message_is_stored_once_and_read_with_what_was_said_before(source: str, tmp_path: Path) -> None:
    project = project_of(tmp_path / "p", source, SESSION_FILES[source]("s", TALK))
    own = stored(project, with_history=False)
    assert [trace.continues for trace in own] == [None, *[trace.trace_id for trace in own[:-1]]]
    texts = [
        message.text for trace in own for message in trace.messages if message.role in ("user", "assistant")
    ]
    assert [text for text in texts if text] == [text for turn in TALK for text in (turn.user, turn.answer)]

    last = stored(project, with_history=True)[-1]
    assert [message.text for message in last.messages][: len(ALL_BEFORE)] == ALL_BEFORE
    assert last.messages[len(ALL_BEFORE)].text == last.input == TALK[-1].user

    with open_store(project.store.path, read_only=True) as con:
        whole = get_conversation(con, "s")
    assert whole is not None
    assert [call.args["n"] for call in whole.tool_calls] == [1, 2, 2, 4, 5, 5]
    said = [message.text for message in whole.messages if message.role != "tool" and message.text]
    assert said == [text for turn in TALK for text in (turn.user, turn.answer)]


def test_an_export_of_all_or_of_some_is_read_back_as_it_is(tmp_path: Path) -> None:
    project = project_of(tmp_path / "p", "codex", SESSION_FILES["codex"]("s", TALK))
    for where, number in ((None, TURNS), ("trace_id = 's:5'", 1)):
        project.store.export(ExportRequest(what="traces", where=where), tmp_path / "t.jsonl")
        exported = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
        again = project_of(tmp_path / f"again{number}", "jsonl", exported)
        assert stored(again, with_history=True) == stored(project, with_history=True)[-number:]


def test_a_resumed_session_continues_the_turns_of_the_session_that_it_copies(tmp_path: Path) -> None:
    resumed = claude_code("s", TALK)
    for line in resumed:
        line["uuid"], line["sessionId"] = f"copy-{line['uuid']}", "t"
        line["parentUuid"] = line["parentUuid"] and f"copy-{line['parentUuid']}"
    project = project_of(tmp_path / "p", "claude-code", claude_code("s", TALK[:-1]), resumed)
    *earlier, last = stored(project, with_history=False)
    assert (last.session_id, last.continues) == ("t", earlier[-1].trace_id)
    assert [message.text for message in stored(project, with_history=True)[-1].messages][:10] == ALL_BEFORE


def deleted(project: rd.Project, *names: str) -> int:
    with open_store(project.store.path) as con:
        return delete_traces(con, names)


def pruned(project: rd.Project, *_names: str) -> int:
    dry = project.store.prune("2026-10-05T08:00:12", runs=False, really=False)["traces"]
    assert project.store.prune("2026-10-05T08:00:12", runs=False, really=True)["traces"] == dry
    return dry


@pytest.mark.parametrize("delete", [deleted, pruned])
def test_turns_that_a_later_one_continues_are_not_deleted(delete: Callable[..., int], tmp_path: Path) -> None:
    project = project_of(tmp_path / "p", "codex", SESSION_FILES["codex"]("s", TALK))
    assert delete(project, "s:0", "s:1", "s:2") == 0
    assert deleted(project, "s:4", "s:5") == 2
    assert len(stored(project, with_history=True)) == 4


def test_a_turn_without_the_one_that_it_continues_is_refused_with_its_name(tmp_path: Path) -> None:
    record = {"trace_id": "b", "started_at": "2026-10-01T10:00:00Z", "input": "and?", "continues": "a"}
    project = project_of(tmp_path / "p", "jsonl", [record, {**record, "trace_id": "c", "continues": "c"}])
    with open_store(project.store.path, read_only=True) as con:
        assert len(traces_of_source(con, "jsonl")) == 2
        with pytest.raises(InputError, match="trace b continues 'a', which is not in the store"):
            get_trace(con, "b")
        with pytest.raises(InputError, match="trace c continues 'c', which continues it in turn"):
            get_trace(con, "c")
