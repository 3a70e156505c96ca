"""Records that nobody foresaw: each gives a trace, or a reject that says why, and never stops an import.

A fixed seed, so that it fails where the code changed and nowhere else; `make fuzz` looks further.
"""

from __future__ import annotations

import json
import random
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from replaydiff.importers.base import BUILTIN, Note, Reject, Skipped, find_importer
from replaydiff.importers.collect import collected
from replaydiff.replay.messages import conversation, read_messages, read_text
from replaydiff.replay.model import Trace
from replaydiff.replay.store.sql import encode
from tests.fuzz.mutation import ODD, mutated, samples
from tests.stand_ins.full import examples

RECORDS = examples(75, 300)
"""Mutated records for each importer."""
SECONDS = 120.0
"""What reading them may take; it takes one or two."""
ONE_TRACE = ("openai-agents", "braintrust")
"""Importers whose sample is one trace of many records: any of them that cannot be read rejects all of it."""

SAMPLES = cache(samples)


@cache
def _mutations(source: str) -> list[Any]:
    chance = random.Random(source)
    own, all_records = SAMPLES()[source], [one for sample in SAMPLES().values() for one in sample]
    return [mutated(chance.choice(own), chance, all_records) for _ in range(RECORDS)]


@pytest.mark.parametrize("source", BUILTIN)
def test_mutated_records_give_traces_or_rejects_that_say_why(source: str, tmp_path: Path) -> None:
    file = tmp_path / "f.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in [*_mutations(source), *ODD]))
    begun = time.monotonic()
    with collected([str(file)]) as files:
        found = list(find_importer(source).read_files(files))
    assert time.monotonic() - begun < SECONDS
    assert all(isinstance(one, Trace | Reject | Skipped | Note) for one in found)
    unforeseen = {one.reason for one in found if isinstance(one, Reject) and "please report" in one.reason}
    assert unforeseen == set()
    assert source in ONE_TRACE or any(isinstance(one, Trace) for one in found)
    for one in found:
        if isinstance(one, Trace):
            encode(one).encode()


@pytest.mark.parametrize("source", BUILTIN)
def test_every_importer_has_an_opinion_of_any_record(source: str) -> None:
    for other in BUILTIN:
        for record in [*_mutations(other)[: examples(15, 100)], *ODD]:
            assert 0.0 <= find_importer(source).recognises(record) <= 1.0


@pytest.mark.parametrize("source", BUILTIN)
def test_the_recogniser_takes_any_part_of_any_record(source: str) -> None:
    for record in _mutations(source):
        for value in (record, json.dumps(record), repr(record), [record, record], {"messages": record}):
            conversation(read_messages(value) or ())
            read_text(value)
