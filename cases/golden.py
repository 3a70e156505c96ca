"""Writing a golden set: a promotion is one added line, and no other line is touched."""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from replay.errors import InputError, UnknownNameError
from replay.golden import content_id, read_golden
from replay.model import Case, Match, ToolCall


def case_to_json(case: Case) -> dict[str, Any]:
    """The case as the object of its line, keys in a fixed order, what is not expected left out."""
    expected = case.expectation
    record: dict[str, Any] = {"id": case.id, "input": case.input}
    if case.messages:
        record["messages"] = [{"role": message.role, "content": message.text} for message in case.messages]
    if expected.tool_calls is not None:
        record["expected_tool_calls"] = [
            {"name": call.name} if call.args is None else {"name": call.name, "args": call.args}
            for call in expected.tool_calls
        ]
    if expected.match != Match():
        plain = msgspec.to_builtins(Match())
        record["match"] = {k: v for k, v in msgspec.to_builtins(expected.match).items() if v != plain[k]}
        if "tools" in record["match"]:
            record["match"]["tools"] = _said(record["match"]["tools"])
    optional = {
        "expected_tools": None if expected.tools is None else list(expected.tools),
        "expected_response_traits": list(expected.response_traits) or None,
        "expected_answer": expected.answer,
        "tolerance": expected.tolerance,
        "expected_fields": list(expected.fields) or None,
        "criteria": expected.criteria or None,
        "expected_state": expected.state,
        "max_latency_ms": expected.max_latency_ms,
        "max_cost_usd": expected.max_cost_usd,
        "threshold": expected.threshold,
        "tape": [_taped(call) for call in case.tape] or None,
        "tags": list(case.tags) or None,
        "category": case.category,
        "difficulty": case.difficulty,
    }
    record |= {key: value for key, value in optional.items() if value is not None} | expected.extra
    provenance = msgspec.to_builtins(case.provenance)
    extra = provenance.pop("extra")
    if case.provenance.quarantine is not None:
        provenance["quarantine"] = _said(provenance["quarantine"])
    metadata = {key: value for key, value in provenance.items() if value is not None} | extra
    if metadata:
        record["metadata"] = metadata
    return record


def add_cases(path: Path, cases: Sequence[Case], *, force: bool = False) -> None:
    """Add cases, each on a line of its own, sorted by id among its neighbours.

    Lines that are there stay byte for byte. The file is read and replaced under a lock, so two processes that
    promote at once lose nothing.

    Raises:
        InputError: an id is taken, or (without `force`) a case with the same input and expectation is there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        present = read_golden(path) if path.exists() else []
        ids = {case.id for case in present}
        contents = {content_id(case): case.id for case in present}
        traces = {case.provenance.trace_id: case.id for case in present if case.provenance.trace_id}
        for case in cases:
            twin = traces.get(case.provenance.trace_id or "")
            if twin is not None and not force:
                raise InputError(
                    f"trace {case.provenance.trace_id!r} is case {twin!r} of {path} already; "
                    "--force adds another"
                )
            same = contents.get(content_id(case))
            if case.id in ids:
                raise InputError(f"{path} already has a case {case.id!r}; give another with --id")
            if same is not None and not force:
                raise InputError(
                    f"case {same!r} of {path} has the same input and expectation; --force adds it anyway"
                )
            ids.add(case.id)
            contents.setdefault(content_id(case), case.id)
        text = path.read_bytes().decode("utf-8") if path.exists() else ""
        if text.lstrip("\ufeff").lstrip().startswith("["):
            raise InputError(f"{path} is one JSON array; cases are added to JSON lines, one object a line")
        for case in cases:
            text = _with_line(text, case)
        _replace(path, text.encode("utf-8"))


def take_back(path: Path, case: Case) -> None:
    """Remove a case that was added, if its line still is what was written.

    Raises:
        InputError: the case is not there, or was changed since.
    """
    with _locked(path):
        line = json.dumps(case_to_json(case), ensure_ascii=False)
        lines = path.read_bytes().decode("utf-8").splitlines(keepends=True) if path.exists() else []
        place = next((index for index, found in enumerate(lines) if found.strip() == line), None)
        if place is None:
            raise InputError(
                f"case {case.id!r} of {path} was changed since, or is gone; edit the file itself"
            )
        _replace(path, "".join([*lines[:place], *lines[place + 1 :]]).encode("utf-8"))


def retire_cases(path: Path, ids: Sequence[str], *, reason: str, by: str, at: datetime) -> Path:
    """Move cases to `retired.jsonl` beside the file, with who, when and why in their metadata; its path.

    Raises:
        UnknownNameError: a case is not there; nothing was changed.
        InputError: the file is one JSON array.
    """
    kept = path.parent / "retired.jsonl"
    with _locked(path):
        cases = {case.id for case in read_golden(path)}
        for name in ids:
            if name not in cases:
                raise UnknownNameError("case", name, cases, f"in {path}")
        text = path.read_bytes().decode("utf-8-sig")
        if text.lstrip().startswith("["):
            raise InputError(
                f"{path} is one JSON array; cases are taken out of JSON lines, one object a line"
            )
        left, retired = [], []
        for line in text.splitlines(keepends=True):
            record = json.loads(line) if line.strip() else {}
            if record and str(record.get("id")) in ids:
                note = {"reason": reason, "by": by, "at": at.isoformat(timespec="seconds")}
                metadata = {**record.get("metadata", {}), "retired": note}
                retired.append(json.dumps({**record, "metadata": metadata}, ensure_ascii=False) + "\n")
            else:
                left.append(line)
        before = kept.read_bytes() if kept.exists() else b""
        # First kept, then taken out: a crash in between leaves a case twice, never nowhere.
        _replace(kept, before + "".join(retired).encode("utf-8"))
        _replace(path, "".join(left).encode("utf-8"))
    return kept


def free_id(path: Path, wanted: str) -> str:
    """A case id made of plain letters from a trace id, not taken in the file."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted).strip("-.")[:60] or "case"
    taken = {case.id for case in read_golden(path)} if path.exists() else set()
    number, name = 2, plain
    while name in taken:
        name, number = f"{plain}-{number}", number + 1
    return name


def _taped(call: ToolCall) -> dict[str, Any]:
    recorded: dict[str, Any] = {"name": call.name, "args": call.args}
    if call.error is not None:
        return recorded | {"error": call.error}
    return recorded | ({"result": call.result} if call.answered else {})


def _with_line(text: str, case: Case) -> str:
    end = "\r\n" if "\r\n" in text else "\n"
    new = json.dumps(case_to_json(case), ensure_ascii=False) + end
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += end
    for index, line in enumerate(lines):
        if line.strip() and str(json.loads(line.lstrip("\ufeff")).get("id", "")) > case.id:
            return "".join([*lines[:index], new, *lines[index:]])
    return "".join([*lines, new])


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # The file itself is replaced, so the lock is held on its folder.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _replace(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(path.stat().st_mode if path.exists() else 0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _said(value: Any) -> Any:
    """What is there of an object, without the keys that say nothing."""
    if not isinstance(value, dict):
        return value
    return {key: _said(item) for key, item in value.items() if item is not None and item != {}}
