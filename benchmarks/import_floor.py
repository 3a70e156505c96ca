"""What a trace costs an import at the least: decoding, encoding, hashing, inserting, and nothing between them.

    .venv/bin/python benchmarks/import_floor.py [TRACES]

Takes the chats of `import_100k.py` (default 20,480, one batch) and prints the processor time that each trace takes
in each part by itself, in one process, and in all that a converting process does. The least of five passes counts;
for the insert it is one.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from import_100k import write

from replaydiff.importers.base import InputFile, Job
from replaydiff.importers.known import converted
from replaydiff.importers.sources import jsonl
from replaydiff.replay.cycles import newer_cycles_only
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.trace_codec import TraceColumns, encode_trace
from replaydiff.replay.store.traces import write_rows

PASSES = 5


def least(part: Callable[[], Any]) -> float:
    """Return the seconds of processor time that a part takes, the least of some passes."""
    found = []
    for _ in range(PASSES):
        before = time.process_time()
        part()
        found.append(time.process_time() - before)
    return min(found)


def main() -> None:
    """Print each part."""
    traces = int(sys.argv[1]) if len(sys.argv) > 1 else 20_480
    with tempfile.TemporaryDirectory() as folder, newer_cycles_only():
        path = Path(folder, "f.jsonl")
        write(path, traces, "jsonl")
        file = InputFile(path=str(path), name=path.name, size=path.stat().st_size, modified=0.0, lines=True)
        jobs = [job for job in jsonl.read_jobs([file]) if isinstance(job, Job)]
        texts = [text for job in jobs for _, text in job.records]
        made = [trace for text in texts if (trace := jsonl.typed_trace(text)) is not None]
        rows = [encode_trace(trace, "1") for trace in made]
        stored = [row.messages.encode() for row in rows]
        decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode
        parts = {
            "decode the record": lambda: [decode(text) for text in texts],
            "encode its messages": lambda: [encode(trace.messages) for trace in made],
            "hash record and messages": lambda: [
                hashlib.blake2b(text, digest_size=16) for text in (*texts, *stored)
            ],
            "all of a converting process": lambda: [converted(b"k" * 32, job) for job in jobs],
        }
        seconds = {name: least(part) for name, part in parts.items()}
        columns = TraceColumns.of(rows)
        with open_store(Path(folder, "s.duckdb")) as con:
            con.execute("SET threads = 1")
            before = time.process_time()
            write_rows(con, columns)
            seconds["insert and commit"] = time.process_time() - before
    for name, took in seconds.items():
        print(f"{name:28} {took / traces * 1e6:5.1f} µs")


if __name__ == "__main__":
    main()
