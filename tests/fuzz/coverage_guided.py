"""Coverage-guided fuzzing of the recogniser and of importers, by hand, for as long as you like.

    python -m venv /tmp/fuzz && /tmp/fuzz/bin/pip install atheris && /tmp/fuzz/bin/pip install -e .
    /tmp/fuzz/bin/python -m tests.fuzz.coverage_guided messages -max_total_time=300
    /tmp/fuzz/bin/python -m tests.fuzz.coverage_guided claude-code -max_total_time=300

It stops at the first input that raises, takes longer than five seconds, or is rejected as not foreseen, and
leaves the input in a file. Atheris is no dependency of the project: it has wheels for few platforms.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris  # type: ignore[import-not-found]

with atheris.instrument_imports(include=["replaydiff.importers", "replaydiff.replay.messages"]):
    from replaydiff.importers.base import BUILTIN, InputFile, Reject, find_importer
    from replaydiff.replay.messages import conversation, read_messages, read_text

    CANDIDATES = [find_importer(each) for each in BUILTIN]

MESSAGES = "messages"


def _messages(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    values = [text]
    with contextlib.suppress(ValueError, RecursionError):
        values.append(json.loads(text))
    for value in values:
        conversation(read_messages(value) or ())
        read_text(value)
        for candidate in CANDIDATES:
            candidate.recognises(value)


def _records(source: str) -> Callable[[bytes], None]:
    place = Path(tempfile.mkdtemp(prefix="replay-fuzz-")) / "f.jsonl"

    def read(data: bytes) -> None:
        place.write_bytes(data)
        file = InputFile(path=str(place), name="f.jsonl", size=len(data), modified=0.0)
        for found in find_importer(source).read_files([file]):
            assert not (isinstance(found, Reject) and "please report" in found.reason), found.reason

    return read


if __name__ == "__main__":
    source = sys.argv.pop(1)
    corpus = Path(tempfile.mkdtemp(prefix="replay-corpus-"))
    samples = Path(__file__).parents[1] / "importers" / "samples"
    for number, sample in enumerate(samples.glob("*/*.json*" if source == MESSAGES else f"{source}/*.json*")):
        for line, text in enumerate(sample.read_bytes().splitlines()[:40]):
            (corpus / f"{number}-{line}").write_bytes(text[:4000])
    atheris.Setup(
        [*sys.argv, "-timeout=5", str(corpus)], _messages if source == MESSAGES else _records(source)
    )
    atheris.Fuzz()
