"""Exports of spans that are not whole are rejected or noted, since calls would be missing without a word."""

from __future__ import annotations

import json
from pathlib import Path

from replaydiff.importers.base import Note, Reject, Skipped
from replaydiff.importers.collect import collected, detect
from replaydiff.importers.sources.datadog import DROPPED
from replaydiff.importers.sources.opik import PROJECT
from replaydiff.importers.spans.interpret import MISSING
from replaydiff.replay.model import Trace, Witness
from tests.importers.formats import ROUNDS, datadog, opik, write
from tests.importers.reading import items, traces


def test_a_trace_of_opik_without_its_spans_is_rejected(tmp_path: Path) -> None:
    trace, *rows = opik(ROUNDS)
    named = {key: value for key, value in trace.items() if key != "span_count"}
    for records, reason in (
        ([trace, *rows[1:]], "6 of its 7 spans are in these files"),
        ([named], "none of its spans is in these files"),
        ([{"trace": named, "spans": []}], "none of its spans is in these files"),
    ):
        (reject,) = items("opik", write(tmp_path, records))
        assert isinstance(reject, Reject)
        assert reject.reason == f"{reason}: import the trace together with all of its spans"
    (whole,) = traces("opik", write(tmp_path, [{"trace": {**trace, "span_count": 0}, "spans": []}]))
    assert (whole.input, whole.final_response, whole.tool_calls) == ("Two roses, please.", "Done.", ())


def test_a_folder_that_opik_exported_is_read_whole(tmp_path: Path) -> None:
    trace, *rows = opik(ROUNDS)
    (tmp_path / "trace_t1.json").write_text(json.dumps({"trace": trace, "spans": rows}))
    project = tmp_path / "project.json"
    project.write_text(json.dumps({"id": "0190babc-62a0-71d2-832a-0feffa4676eb", "name": "shop"}))
    with collected([str(project)]) as (file,):
        assert detect(file).NAME == "opik"
    skipped, made = items("opik", tmp_path)
    assert skipped == Skipped(PROJECT)
    assert isinstance(made, Trace)
    assert len(made.tool_calls) == 3


def test_spans_of_opik_without_their_parent_are_noted(tmp_path: Path) -> None:
    _, _, *inner = opik(ROUNDS)
    assert Note(MISSING) in items("opik", write(tmp_path, inner))


def test_what_datadog_dropped_or_did_not_export_is_noted(tmp_path: Path) -> None:
    records = datadog(ROUNDS)
    assert Note(MISSING) in items("datadog", write(tmp_path, records[1:]))
    for record in records:
        meta = record["spans"][0]["meta"]
        if meta["span"]["kind"] == "tool":
            meta["output"] = {
                "value": "[This value has been dropped because this span's size exceeds the 5MB …]"
            }
    found = items("datadog", write(tmp_path, records))
    assert Note(DROPPED) in found
    (trace,) = (one for one in found if isinstance(one, Trace))
    assert [call.result for call in trace.tool_calls] == ["4", "9", "12"]
    records[1]["spans"][0]["meta"]["span"]["kind"] = "step"
    (reject,) = items("datadog", write(tmp_path, records))
    assert isinstance(reject, Reject)
    assert reject.reason.endswith("not 'step'")


def test_a_call_that_langchain_gave_a_tool_of_datadog_is_read(tmp_path: Path) -> None:
    records = datadog([[("find", {"plant": "rose"}, "4")]])
    (run,) = (record["spans"][0] for record in records if record["spans"][0]["name"] == "find")
    call = {"name": "find", "args": {"plant": "rose"}, "id": "k0-0", "type": "tool_call"}
    run["meta"]["input"] = {"value": json.dumps(call)}
    (trace,) = traces("datadog", write(tmp_path, records))
    assert [(one.args, one.witness, one.conflict) for one in trace.tool_calls] == [
        ({"plant": "rose"}, Witness.ID, None)
    ]
