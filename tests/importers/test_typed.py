"""The fast way to the trace of a chat record gives the row that the general way gives, or none."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from replaydiff.importers.base import InputFile, Job
from replaydiff.importers.known import converted
from replaydiff.importers.sources import jsonl
from tests.stand_ins.full import examples

KEY = b"key of the hashes"
FILE = InputFile(path="f.jsonl", name="f.jsonl", size=0, modified=0.0)


def _job(text: bytes, folder: Path) -> Job:
    """What the importer gives of a file of one line."""
    path = folder / "f.jsonl"
    path.write_bytes(text)
    [job] = jsonl.read_jobs([replace(FILE, path=str(path), lines=True)])
    assert isinstance(job, Job)
    return job


def _both(job: Job) -> bool:
    """Whether the fast way took each record; what it took is as the general way makes it."""
    assert job.typed_trace is not None
    general = replace(job, typed_trace=None)
    assert converted(KEY, job) == converted(KEY, general)
    return all(job.typed_trace(text) is not None for _, text in job.records)


def _call(call_id: str = "c0", arguments: str = '{"id": 7}') -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "look", "arguments": arguments}}


def _record() -> dict[str, Any]:
    return {
        "trace_id": "t1",
        "started_at": "2026-11-01T10:00:00Z",
        "messages": [
            {"role": "system", "content": "Be brief. Ünïcode 😀"},
            {"role": "user", "content": "Where is 7?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [_call(), _call("c1", '{"x": 1.0, "a": null}')],
            },
            {"role": "tool", "tool_call_id": "c1", "content": '{"found": [1, 2]}'},
            {"role": "tool", "tool_call_id": "c0", "content": ""},
            {"role": "assistant", "content": "There.", "refusal": None, "tool_calls": None},
            {"role": "user", "content": "Thanks"},
        ],
        "usage": {"input_tokens": 3, "output_tokens": 4},
        "metadata": {"plan": "team", "n": 0.1},
        "tags": ["a"],
    }


def test_a_chat_is_taken(tmp_path: Path) -> None:
    assert _both(_job(json.dumps(_record()).encode(), tmp_path))


@pytest.mark.parametrize(
    "fields",
    [
        {"usage": None, "metadata": None, "release": None, "session_id": ""},
        {"usage": {}},
        {"usage": {"prompt_tokens": 2**60 + 1, "completion_tokens": 2**53 + 1}},
        {"usage": {"input_tokens": 0, "output_tokens": -1, "cache_read_tokens": 7}},
        {"usage": {"input_tokens": 7.9, "output_tokens": "8", "cache_read_input_tokens": 2}},
        {"started_at": "2026-11-01T10:00:00.123456789+02:00"},
        {"final_response": "There.", "cost_usd": 0.1, "scores": {"good": True}, "user_id": 7},
        {"tool_calls": [{"name": "look", "args": {"id": 7}, "result": None}], "tool_path": "look"},
    ],
)
def test_other_fields_of_a_chat_are_taken(fields: dict[str, Any], tmp_path: Path) -> None:
    assert _both(_job(json.dumps(_record() | fields).encode(), tmp_path))


Change = Callable[[dict[str, Any]], None]


def _message(number: int, **fields: Any) -> Change:
    return lambda record: record["messages"][number].update(fields)


@pytest.mark.parametrize(
    "change",
    [
        _message(1, content=[{"type": "text", "text": "Where?"}]),
        _message(1, content='[{"type": "text", "text": "Where?"}]'),
        _message(1, name="Ann"),
        _message(1, role="developer"),
        _message(1, tool_calls=[_call()]),
        _message(1, tool_call_id="c0"),
        _message(2, calls=[_call()]),
        _message(2, tool_calls=[_call("")]),
        _message(2, tool_calls=[{"name": "look", "args": {}}]),
        _message(2, tool_calls=[{**_call(), "index": 0}]),
        _message(2, function_call={"name": "look", "arguments": "{}"}),
        _message(3, content={"found": 1}),
        _message(3, tool_call_id=7),
        _message(3, is_error=True),
        _message(1, content="half an emoji \ud83d"),
        _message(1, content="NUL \0"),
        _message(2, tool_calls=[_call(), _call()]),
        _message(3, tool_call_id="c0"),
        _message(3, tool_call_id="of no call"),
        lambda record: record["messages"][3].pop("tool_call_id"),
        lambda record: record.update(messages=[]),
        lambda record: record.update(odd=1),
        lambda record: record.pop("trace_id"),
        lambda record: record.update(started_at="yesterday"),
        lambda record: record.update(usage=[1]),
    ],
)
def test_what_is_not_exactly_known_goes_the_general_way(change: Change, tmp_path: Path) -> None:
    record = _record()
    change(record)
    assert not _both(_job(json.dumps(record).encode(), tmp_path))


_texts = st.sampled_from(
    ["", " ", "a", "7", "null", "{", '[{"type": "text", "text": "x"}]', '[{"a": 1}]', "Human: a\nAI: b", "ü😀",
     "\ud83d", "\0", "\\u0000", '{"a": "\\u0000"}', '{"a": 1e999}', '{"b": NaN}', "2026-11-01", "1793527200",
     '{"a": 1.0, "b": {"c": [1e2]}}', '{"a": 1, "a": 2}', '"{\\"a\\": 1}"', "[REDACTED]", "c0", "assistant"]
)  # fmt: skip
_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), _texts, st.text(max_size=5)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(_texts, st.sampled_from(["role", "content", "type", "name", "id"])), inner, max_size=3
        ),
    ),
    max_leaves=4,
)
_keys = st.sampled_from(
    [*sorted(jsonl.FIELDS), "role", "content", "tool_call_id", "name", "id", "type", "function", "arguments",
     "refusal", "function_call", "audio", "is_error", "status", "parts", "calls", "input_tokens", "cached_tokens"]
)  # fmt: skip


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container of a record, with each of its keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((value, key), *_places(value[key]))]


@st.composite
def _hostile(draw: st.DrawFn) -> bytes:
    """A record with some changes, as JSON with some more."""
    record = _record()
    for _ in range(draw(st.integers(0, 4))):
        holder, key = draw(st.sampled_from(_places(record) or [({"x": 1}, "x")]))
        match draw(st.sampled_from(["replace", "delete", "add", "repeat", "swap"])):
            case "replace":
                holder[key] = draw(_values)
            case "delete":
                del holder[key]
            case "add" if isinstance(holder, dict):
                holder[draw(_keys)] = draw(_values)
            case "repeat" if isinstance(holder, list):
                holder.insert(draw(st.integers(0, len(holder))), copy.deepcopy(holder[key]))
            case "swap" if isinstance(holder, dict):
                holder[draw(_keys)] = holder.pop(key)
            case _:
                pass
    text = json.dumps(record, ensure_ascii=draw(st.booleans())).encode(errors="surrogatepass")
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(text)))
        extra = st.sampled_from(
            [b"", b'"', b"\\", b"\\u0000", b"\\u005cu0000", b'"role": "user", ', b"\xff", b"0"]
        )
        text = text[:at] + draw(extra) + text[at + draw(st.integers(0, 2)) :]
    return b" ".join(text.split(b"\n")) or b"{}"


@settings(
    max_examples=examples(300, 20_000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=_hostile())
def test_both_ways_agree_about_hostile_records(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(text)
    for job in jsonl.read_jobs([replace(FILE, path=str(path), lines=True)]):
        if isinstance(job, Job):
            _both(job)


FOLDERS = [
    Path(found)
    for name in ("REPLAY_TEST_REAL_DATA", "REPLAY_TEST_FORMAT_SAMPLES", "REPLAY_TEST_LANGFUSE_REAL")
    if (found := os.environ.get(name))
]


@pytest.mark.skipif(not FOLDERS, reason="no folder with real records is named")
def test_both_ways_agree_about_real_records() -> None:
    checked = 0
    for path in (file for folder in FOLDERS for file in folder.rglob("*.json*") if file.is_file()):
        for job in jsonl.read_jobs([replace(FILE, path=str(path), lines=True)]):
            if isinstance(job, Job):
                _both(job)
                checked += len(job.records)
    assert checked
