"""A month at scale: a million traces and a thousand runs in one store, and what a person waits for.

    python benchmarks/month.py [TRACES] [RUNS]            # default 1,000,000 and 1,000
    python benchmarks/month.py TRACES RUNS FOLDER         # only makes the store, in an empty folder

Each command is a fresh process: wall clock, processor time and memory, its start included. Then each page of
`replay view` is fetched three times from one server, with its processor time: the first time it
computes what it shows. The traces
have texts of 1.6 kB of their own and no calls; the runs are copies of one of 50 items.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from subprocess import PIPE, Popen

from diff_ten_thousand import fill as fill_run
from measuring import is_busy, others, run

from replaydiff.replay.store.connection import open_store

REPLAY = Path(sys.executable).with_name("replay")
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
ITEMS = 50
COPIES = {
    "runs": ", created_at + to_seconds(60 * i) AS created_at, finished_at + to_seconds(60 * i) AS finished_at",
    "run_items": "",
    "trials": "",
}
TEXTS = {
    "'a question' AS input": "'a question about order ' || i || repeat(md5(i::VARCHAR), 8) AS input, "
    "repeat(md5((i + 7)::VARCHAR), 10) || ' shipped' AS final_response",
    "'[]'::JSON AS messages": """
    ('[{"role": "user", "content": "' || repeat(md5((i * 3)::VARCHAR), 30) || '"}]')::JSON AS messages""",
}
TRACE = hashlib.md5(b"77777").hexdigest()
PAGES = (
    "/",
    "/traces",
    "/traces?page=5000",
    "/traces?page=20000",
    "/traces?text=nothing",
    "/traces?text=question",
    "/trace?id=TRACE",
    "/traces?where=tool_path+%3D+%27tool7%27",
    "/runs/RUN",
    "/runs/RUN/triage",
    "/trends",
)


def fill(folder: Path, traces: int, runs: int) -> None:
    store = folder / ".replay" / "replay.duckdb"
    store.parent.mkdir()
    fill_run(store, ITEMS)
    with open_store(store) as con:
        filling = FILL
        for text, longer in TEXTS.items():
            filling = filling.replace(text, longer)
        con.execute(filling, [traces])
        for table, changed in COPIES.items():
            con.execute(
                f"INSERT INTO {table} BY NAME SELECT * EXCLUDE (i) REPLACE (printf('run-%04d', i) AS run_id"
                f"{changed}) FROM (SELECT one.*, i FROM {table} AS one, range({runs - 1}) AS numbers(i))"
                # As a store has them: the rows of one run follow those of another.
                " WHERE run_id = 'run' ORDER BY i"
            )
        con.execute("CHECKPOINT")
    (folder / "replay.toml").write_text("")


def commands(folder: Path, chosen: str) -> None:
    for arguments in (
        ["sample", "--month", "2026-10", "--size", "50", "--name", "october"],
        ["traces"],
        ["traces", "--where", "tool_path = 'tool7' AND latency_ms IS NULL"],
        ["traces", "--month", "2026-10"],
        ["diff", chosen],
        ["triage", chosen],
        ["trend"],
    ):
        cost = run([REPLAY, *arguments], cwd=folder)
        print(
            f"replay {' '.join(arguments):55.55} {cost.wall_s:6.2f} s, processor {cost.cpu_s:6.2f} s, "
            f"{cost.memory_mb:5.0f} MB",
            flush=True,
        )


def pages(folder: Path, chosen: str) -> None:
    command = [REPLAY, "view", "--no-browser", "--plain-host", "--port", "0"]
    with Popen(command, cwd=folder, stdout=PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        try:
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
            )
            opener.open(address).read()
            base = address.partition("/?")[0]
            for page in PAGES:
                took = []
                used = processor_ms(server.pid)
                for _ in range(3):
                    began = time.perf_counter()
                    opener.open(base + page.replace("RUN", chosen).replace("TRACE", TRACE)).read()
                    took.append((time.perf_counter() - began) * 1000)
                used = processor_ms(server.pid) - used
                print(
                    f"page {page:45.45} "
                    + ", ".join(f"{ms:6.0f} ms" for ms in took)
                    + f", processor {used} ms",
                    flush=True,
                )
            status = Path(f"/proc/{server.pid}/status").read_text()
            most = next(line for line in status.splitlines() if line.startswith("VmHWM"))
            print(f"replay view held at most {int(most.split()[1]) / 1024:.0f} MB")
        finally:
            server.terminate()


def processor_ms(pid: int) -> int:
    """Return what a process has used of the processors so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 // os.sysconf("SC_CLK_TCK")


def main() -> None:
    traces = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
    if len(sys.argv) > 3:
        fill(Path(sys.argv[3]), traces, runs)
        return
    with tempfile.TemporaryDirectory() as folder:
        # In a process of its own, whose memory does not count.
        run([sys.executable, __file__, str(traces), str(runs), folder])
        before = others()
        # Copies are numbered from 0; one is the run that they are of.
        chosen = f"run-{(runs - 1) // 2:04d}" if runs > 1 else "run"
        commands(Path(folder), chosen)
        pages(Path(folder), chosen)
        after = others()
        marked = " BUSY: other work shared the processors" if is_busy(before, after) else ""
        print(
            f"{traces:,} traces, {runs:,} runs; runnable processes of others {before:.1f}, {after:.1f}.{marked}"
        )


if __name__ == "__main__":
    main()
