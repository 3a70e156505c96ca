"""`--month` is a month of the project's time zone, for an import and for a sample."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from tests.importers.langfuse_live.asking import OCTOBER, ask, stored
from tests.stand_ins.langfuse_read import reading
from tests.stand_ins.langfuse_rows import observations
from tests.stand_ins.processes import replay

EDGES = {
    "before": datetime(2026, 9, 30, 21, 59, 59),
    "first": datetime(2026, 9, 30, 22),
    "last": datetime(2026, 10, 31, 22, 59, 59),
    "after": datetime(2026, 10, 31, 23),
}


def test_a_month_is_one_of_the_projects_time_zone(tmp_path: Path) -> None:
    toml = tmp_path / "replay.toml"
    toml.write_text('[project]\ntimezone = "Europe/Berlin"\n', encoding="utf-8")
    rows = [row for name, moment in EDGES.items() for row in observations(name, moment)]
    with reading(rows=rows) as stand_in:
        imported = ask(tmp_path, stand_in, *OCTOBER)
        assert stored(tmp_path).keys() == {"first", "last"}
        assert "2026-09-30 22:00 to 2026-10-31 23:00 UTC (2026-10 Europe/Berlin)" in imported.err
        assert "sample: 2026-10 Europe/Berlin has 2 traces" in imported.out
        ask(tmp_path, stand_in, "--from", "2026-09-01")
    done = replay(tmp_path, "sample", "--month", "2026-10", "--size", "9")
    assert done.stdout.startswith("2026-10: 2 of 2 traces of 2026-10 Europe/Berlin, seed 0")
    latest = replay(tmp_path, "sample", "--month", "--name", "latest")
    assert "latest complete month with traces: 2026-10 Europe/Berlin (2 traces)" in latest.stderr
    listed = replay(tmp_path, "traces", "--month", "2026-11")
    assert "after" in listed.stdout
    assert "before" not in listed.stdout

    toml.write_text('[project]\ntimezone = "Mars/Olympus"\n', encoding="utf-8")
    refused = replay(tmp_path, "traces")
    assert refused.returncode == 2
    assert "'Mars/Olympus' is no time zone of this machine" in refused.stderr
