"""Inspect AI: samples (JSON lines or a JSON array), each with `input`, `target`, `id` and `metadata`.

id                id
input, messages   input: a text, or a list of messages
expected_answer   target
"""

from __future__ import annotations

from replaydiff.cases.formats.bridge import ConvertedCase, input_of, metadata_from, metadata_to, put
from replaydiff.replay.model import Json, JsonObject

TITLE = "Inspect"
FREE = "metadata"
ENDINGS = (".jsonl", ".json")
_KEYS = {"id", "input", "target", "metadata"}


def recognises(document: Json) -> bool:
    """Recognise objects with `input` and `target`."""
    return isinstance(document, list) and any(
        isinstance(entry, dict) and "target" in entry for entry in document
    )


def records(document: Json) -> tuple[list[Json], list[str]]:
    """Return the samples."""
    return (document if isinstance(document, list) else [document]), []


def to_case(record: JsonObject) -> ConvertedCase:
    """Return a sample."""
    taken = ConvertedCase(put({}, [("id", record.get("id"))]) | input_of(record.get("input")))
    target = record.get("target")
    if isinstance(target, str) and target:
        taken.case["expected_answer"] = target
    elif target:
        taken.unread.append("target with several answers")
    taken.case |= metadata_to(record.get("metadata"))
    taken.unread += [name for name, value in record.items() if name not in _KEYS and value is not None]
    return taken


def from_case(case: JsonObject) -> JsonObject:
    """Return a sample; without an expected answer it has no target."""
    prompt = case.get("messages") or case.get("input")
    pairs = [("id", case.get("id")), ("input", prompt), ("target", case.get("expected_answer"))]
    return put({}, [*pairs, ("metadata", metadata_from(case))])


def document(records: list[JsonObject]) -> Json:
    """Return the samples."""
    return list(records)
