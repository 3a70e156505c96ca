"""What is particular to OpenAI's chat logs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from replaydiff.importers.base import Note, Skipped
from tests.importers.reading import items, others, traces

CHAT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]


def _file(path: Path, *records: Any) -> Path:
    path.write_text("\n".join(map(json.dumps, records)))
    return path


def test_a_record_without_id_and_time_gets_a_hash_and_the_time_of_the_file(tmp_path: Path) -> None:
    file = _file(tmp_path / "f.jsonl", {"messages": CHAT}, {"messages": CHAT, "tools": []})
    os.utime(file, (1793527200.75, 1793527200.75))
    first, second = traces("openai", file)
    assert first.trace_id.startswith("sha256:")
    assert len(first.trace_id) == len("sha256:") + 16
    assert first.trace_id != second.trace_id
    assert first.started_at.isoformat() == "2026-11-01T10:00:00"
    assert (
        others(items("openai", file))
        == [Note("no time in the record: the file's modification time was taken")] * 2
    )


def test_requests_and_results_of_a_batch_may_stand_in_any_order_and_in_several_files(tmp_path: Path) -> None:
    requests = [
        {"custom_id": f"c{n}", "url": "/v1", "body": {"messages": CHAT[:1], "model": "m"}} for n in range(3)
    ]
    body = {"object": "chat.completion", "created": 1793527200, "choices": [{"message": CHAT[1]}]}
    results = [
        {"id": f"r{n}", "custom_id": f"c{n}", "response": {"status_code": 200, "body": body}} for n in (1, 0)
    ]
    output = _file(tmp_path / "output.jsonl", *results)
    asked = _file(tmp_path / "input.jsonl", *requests)
    found = items("openai", output, asked)
    assert [
        (trace.trace_id, trace.input, trace.final_response) for trace in traces("openai", output, asked)
    ] == [
        ("r1", "hi", "ho"),
        ("r0", "hi", "ho"),
    ]
    assert others(found) == [
        Skipped("batch requests without a result; import the batch's output file with them")
    ]


def test_a_completion_alone_comes_in_with_a_note(tmp_path: Path) -> None:
    completion = {
        "id": "x",
        "object": "chat.completion",
        "created": 1793527200,
        "choices": [{"message": CHAT[1]}],
    }
    file = _file(tmp_path / "f.json", completion)
    (trace,) = traces("openai", file)
    assert (trace.trace_id, trace.input, trace.final_response) == ("x", "", "ho")
    assert others(items("openai", file)) == [Note("no request beside the completion: its input is not known")]


def test_responses_items_are_a_conversation(tmp_path: Path) -> None:
    output = [
        {"type": "function_call", "id": "fc", "call_id": "k", "name": "t", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "k", "output": "r"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ho"}]},
    ]
    response = {"id": "resp", "object": "response", "created_at": 1793527200.5, "output": output}
    (trace,) = traces("openai", _file(tmp_path / "f.json", {"input": "hi", "response": response}))
    assert (trace.trace_id, trace.input, trace.final_response, trace.tool_path) == ("resp", "hi", "ho", "t")
    assert trace.tool_calls[0].result == "r"


def test_a_tau_bench_run(tmp_path: Path) -> None:
    record = {"task_id": 3, "trial": 1, "reward": 1.0, "traj": CHAT, "info": {}}
    (trace,) = traces("openai", _file(tmp_path / "f.json", [record]))
    assert (trace.scores, trace.metadata) == ({"reward": 1.0}, {"task_id": 3, "trial": 1})


def test_fields_of_somebodys_own_are_metadata_in_their_order(tmp_path: Path) -> None:
    """In any other order the same record would count as updated in the next process."""
    names = [f"field_{number}" for number in range(40)]
    record = {"id": "t1", "messages": [{"role": "user", "content": "Hello"}], **dict.fromkeys(names, "x")}
    file = tmp_path / "f.jsonl"
    file.write_text(json.dumps(record))
    (trace,) = traces("openai", file)
    assert list(trace.metadata) == names
