"""Golden sets of every shape we promise to read, and what is wrong in one, named with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replaydiff.replay.errors import InputError
from replaydiff.replay.golden import case_to_json, content_id, item_of, read_golden


def _file(folder: Path, text: str) -> Path:
    path = folder / "golden.jsonl"
    path.write_text(text)
    return path


def test_an_array_with_older_names_is_read_as_it_is(tmp_path: Path) -> None:
    records = [
        {
            "id": "q1",
            "question": "How many?",
            "expected_answer": "3",
            "tolerance": "numeric_close",
            "expected_tools": ["count"],
        },
        {
            "input": "trending?",
            "expected_tools": ["trending"],
            "expected_fields": ["name"],
            "criteria": {"grounded": True},
        },
    ]
    first, second = read_golden(_file(tmp_path, json.dumps(records)))
    assert (first.input, first.expectation.answer, first.expectation.tolerance) == (
        "How many?",
        "3",
        "numeric_close",
    )
    assert first.expectation.tools == ("count",)
    assert second.id.startswith("sha256:")
    assert second.expectation.criteria == {"grounded": True}


def test_unknown_keys_and_metadata_survive_a_round_trip(tmp_path: Path) -> None:
    record = {
        "id": "a", "input": "x", "expected_tool_calls": [{"name": "t", "args": {"n": 1}}],
        "match": {"mode": "superset"},
        "tape": [{"name": "t", "args": {}, "error": "boom"}], "tone": "kind",
        "metadata": {"trace_id": "t1", "owner": "ada", "task_id": 7},
    }  # fmt: skip
    (case,) = read_golden(_file(tmp_path, json.dumps(record)))
    assert case_to_json(case) == record
    item = item_of(case)
    assert (item.trace_id, item.metadata, item.tape[0].error) == ("t1", {"task_id": 7}, "boom")


def test_content_id_ignores_id_tags_tape_and_metadata(tmp_path: Path) -> None:
    plain = {"id": "a", "input": "x", "expected_tool_calls": []}
    same = plain | {
        "id": "b",
        "tags": ["t"],
        "tape": [{"name": "t", "result": 1}],
        "metadata": {"owner": "o"},
    }
    other = plain | {"id": "c", "expected_response_traits": ["kind"]}
    ids = [content_id(c) for c in read_golden(_file(tmp_path, json.dumps([plain, same, other])))]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"id": "a", "input": "x"}\n{"id": "b"', ":2: not valid JSON"),
        ('{"id": "a", "input": "x"}\n\n{"id": "a", "input": "y"}', ":3: id 'a' is already that of line 1"),
        ("[1]", "a case is a JSON object, not int"),
        ('{"id": "a"}', "a case needs `input` (text) or `messages`"),
        ('{"id": "a", "input": "x", "match": "strickt"}', "match.mode must be one of strict"),
        ('{"id": "a", "input": "x", "expected_tool_calls": [{"nme": 1}]}', "expected_tool_calls[0] must be an object"),
        ('{"id": "a", "input": "x", "tags": "t"}', "tags must be a list of texts"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_golden(_file(tmp_path, text))
    assert words in str(caught.value)
    assert "golden.jsonl:" in str(caught.value)


def test_calls_in_messages_survive_a_round_trip(tmp_path: Path) -> None:
    asked = {"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"q": "é"}'}}
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": [asked]},
        {"role": "tool", "content": "7", "tool_call_id": "1"},
        {"role": "user", "content": "y"},
    ]
    (case,) = read_golden(_file(tmp_path, json.dumps({"id": "a", "messages": messages})))
    assert case_to_json(case)["messages"] == messages
