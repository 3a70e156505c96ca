"""Drawing a sample from a million traces, against the bare stable-hash query it is built on.

    python benchmarks/sample_million.py [TRACES] [PAIRS]

Both sides run in turn on one connection; prints the median seconds of each and the median of their ratios.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from replaydiff.replay.sampling import draw
from replaydiff.replay.store.connection import open_store

BARE = """
SELECT tool_path, arg_min(trace_id, md5('7:' || trace_id), 1000)
FROM traces WHERE started_at >= '2026-10-01' AND started_at < '2026-11-01' GROUP BY tool_path
"""
FILL = """
INSERT INTO traces BY NAME SELECT md5(i::VARCHAR) AS trace_id, 'x' AS source, md5(i::VARCHAR) AS source_id,
    'h' AS content_hash, TIMESTAMP '2026-11-01' AS imported_at,
    TIMESTAMP '2026-10-01' + to_seconds(i % 2592000) AS started_at, false AS incomplete,
    'complete' AS state, []::VARCHAR[] AS tags,
    'tool' || (hash(i) % 248) AS tool_path, 'a question' AS input,
    '{}'::JSON AS scores, '{}'::JSON AS metadata, '[]'::JSON AS messages, '[]'::JSON AS steps,
    []::VARCHAR[] AS media_missing
FROM range(?) t(i)
"""


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    traces = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "replay.duckdb") as con:
        con.execute(FILL, [traces])
        con.execute("CHECKPOINT")
        measured = [
            (
                seconds(lambda: con.execute(BARE).fetchall()),
                seconds(lambda: draw(con, name="x", size=1000, seed=7, month="2026-10")),
            )
            for _ in range(pairs)
        ]
    bare, ours = (statistics.median(side) for side in zip(*measured, strict=True))
    ratio = statistics.median(ours / bare for bare, ours in measured)
    print(f"{traces} traces: bare query {bare:.3f} s, draw {ours:.3f} s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
