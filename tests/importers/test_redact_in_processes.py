"""Redaction in several processes: the store has the rows, and the tokens their numbers, that one process makes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replaydiff.importers import parallel
from replaydiff.importers.base import Reject, find_importer
from replaydiff.importers.collect import collected
from replaydiff.importers.ingest import Report, ingest
from replaydiff.importers.redacting import Digest, JobRedactor, Redaction
from replaydiff.replay.errors import UnavailableError
from replaydiff.replay.settings import RedactSection
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.import_records import value_digest
from tests.importers.reading import good_record
from tests.stand_ins.full import examples

KEY = b"k" * 32
RULES = RedactSection(patterns={"CUSTOMER": r"C-\d{3}"})
PIECES = (
    "ada@example.com",
    "bob@example.com",
    "ada@example.com.bob@example.com",
    "[EMAIL_1]",
    "[EMAIL_2] C-123",
    "C-123@example.com",
    "call 415-555-0123",
    "password=hunter22x",
    "4111 1111 1111 1111",
    "ada%40example.com",
    "order 17",
    "é",
)
"""Values that are alike, overlap, look like tokens, or are disguised."""


@pytest.fixture(scope="module")
def redacting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with (
        pytest.MonkeyPatch.context() as patch,
        open_store(tmp_path_factory.mktemp("rules") / "s.duckdb") as con,
    ):
        patch.setattr("replaydiff.replay.store.import_records.secrets.token_bytes", lambda _: KEY)
        with parallel._started(2, Redaction(RULES, Path(), con)) as idle:
            yield idle


def _import(store: Path, files: list[Path], source: str = "jsonl", rules: RedactSection = RULES) -> Report:
    with collected([str(file) for file in files]) as found, open_store(store) as con:
        return ingest(con, find_importer(source), found, redaction=Redaction(rules, Path(), con))


def _stored(store: Path) -> list[Any]:
    with open_store(store, read_only=True) as con:
        return [
            con.execute(f"SELECT * EXCLUDE {left_out} FROM {table} ORDER BY ALL").fetchall()
            for table, left_out in (
                ("traces", "imported_at"),
                ("tool_calls", "(name)"),
                ("rejects", "rejected_at"),
                ("redactions", "(digest)"),
            )
        ] + [con.execute("SELECT digest FROM redactions ORDER BY kind, number").fetchall()]


def _both(folder: Path, files: list[Path], idle: Any, source: str, block: int = 300) -> list[Any]:
    found = []
    for name, alone_bytes in (("one", 10**9), ("many", 0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("replaydiff.importers.ingest.ONE_PROCESS_BYTES", alone_bytes)
            patch.setattr("replaydiff.importers.reading.json_values.BLOCK_BYTES", block)
            patch.setattr("replaydiff.importers.convert.GROUPS_A_JOB", 2)
            patch.setattr("replaydiff.importers.parallel.cores", lambda: 2)
            patch.setattr("replaydiff.importers.parallel._started", lambda *_: nullcontext(idle))
            patch.setattr("replaydiff.replay.store.import_records.secrets.token_bytes", lambda _: KEY)
            store = folder / f"{name}.duckdb"
            reports = [_import(store, files, source) for _ in range(2)]
            found.append((reports, _stored(store)))
    return found


TEXTS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map(" ".join)
RECORDS = st.lists(st.tuples(st.integers(0, 9), TEXTS, TEXTS, st.integers(0, 5)), min_size=1, max_size=30)


@settings(max_examples=examples(6, 200), deadline=None)
@given(records=RECORDS, block=st.sampled_from([1, 400, 3_000]))
@pytest.mark.slow
def test_any_records_give_the_tokens_that_one_process_gives(
    records: list[tuple[int, str, str, int]],
    block: int,
    tmp_path_factory: pytest.TempPathFactory,
    redacting: Any,
) -> None:
    folder = tmp_path_factory.mktemp("imports")
    file = folder / "ada@example.com.jsonl"
    lines = []
    for number, text, key, sort in records:
        call = {"name": "look_up", "args": {key: text, "phone": 4155550123}, "result": {text: [key]}}
        record = {**good_record("jsonl", number), "input": text, "tool_calls": [call]}
        lines.append({0: json.dumps(text), 1: f'{{"cut": "{text}'}.get(sort, json.dumps(record)))
    file.write_text("\n".join(lines) + "\n")
    one, many = _both(folder, [file], redacting, "jsonl", block)
    assert one == many
    assert not [piece for piece in ("ada@", "bob@", "C-123", "hunter22", "0123") if piece in repr(one[1])]


@pytest.mark.parametrize("source", ["openai", "langfuse", "otlp", "mlflow", "anthropic", "braintrust"])
@pytest.mark.slow
def test_each_source_gives_what_one_process_gives(source: str, tmp_path: Path, redacting: Any) -> None:
    file = tmp_path / "f.jsonl"
    lines = [json.dumps(good_record(source, number)) for number in range(40)]
    lines[7:7] = ['{"cut": "ada@example.com', json.dumps(["bob@example.com"])]
    file.write_text("\n".join(lines).replace("Hi", "Hi eve@example.com"))
    one, many = _both(tmp_path, [file], redacting, source)
    assert one == many
    assert one[0][0].new == 40


def _rejects(redactor: JobRedactor, items: list[Reject]) -> list[Reject]:
    found = [item for item, _ in redactor.items((item, "") for item in items)]
    return [item for item in found if isinstance(item, Reject)]


def test_digests_of_values_are_asked_for_once_and_in_order() -> None:
    asked: list[Digest] = []

    def numbers(digests: Sequence[Digest]) -> list[int]:
        asked.extend(digests)
        return [7, 9]

    reasons = ("no ada@example.com", "none", "no bob@example.com", "no ada@example.com [EMAIL_9]")
    items = [Reject(source="s", file="", line=1, reason=reason, excerpt="") for reason in reasons]
    made = _rejects(JobRedactor(RedactSection(), KEY, numbers), items)
    assert [one.reason for one in made] == ["no [EMAIL_7]", "none", "no [EMAIL_9]", "no [EMAIL_7] [EMAIL_9]"]
    assert asked == [("EMAIL", value_digest(KEY, "EMAIL", f"{name}@example.com")) for name in ("ada", "bob")]


def test_an_item_whose_search_fails_keeps_nothing_of_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaydiff.replay.redact.redactor.SECONDS", 0.02)
    slow = RedactSection(patterns={"SLOW": "(a+)+!"})
    reject = Reject(source="s", file="ada@example.com", line=1, reason="bob@example.com", excerpt="a" * 40)
    made = _rejects(JobRedactor(slow, KEY, lambda digests: [*range(1, len(digests) + 1)]), [reject])
    assert (made[0].file, made[0].excerpt) == ("[EMAIL_1]", "")
    assert made[0].reason == "the pattern SLOW of [import.redact] took longer than 0.02 s on a text"


def test_a_process_that_ends_before_its_turn_stops_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended:
        """A pipe whose process ends when it has shown what it met."""

        def __init__(self) -> None:
            self._answers: list[Any] = [parallel.Met([("EMAIL", b"x")])]

        def send(self, _value: object) -> None: ...

        def close(self) -> None: ...

        def recv(self) -> Any:
            if not self._answers:
                raise EOFError
            return self._answers.pop()

    idle: Any = SimpleQueue()
    idle.put(Ended())
    idle.put(Ended())
    file = tmp_path / "f.jsonl"
    file.write_text("".join(json.dumps(good_record("jsonl", number)) + "\n" for number in range(20)))
    monkeypatch.setattr("replaydiff.importers.ingest.ONE_PROCESS_BYTES", 0)
    monkeypatch.setattr("replaydiff.importers.reading.json_values.BLOCK_BYTES", 300)
    monkeypatch.setattr("replaydiff.importers.parallel.cores", lambda: 2)
    monkeypatch.setattr("replaydiff.importers.parallel._started", lambda *_: nullcontext(idle))
    with pytest.raises(UnavailableError, match="was killed"):
        _import(tmp_path / "s.duckdb", [file])
    assert _stored(tmp_path / "s.duckdb") == [[], [], [], [], []]
