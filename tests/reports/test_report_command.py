"""`replay report` on a real store."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from replaydiff.replay.cli import main
from replaydiff.replay.errors import InputError, NoSpaceError
from replaydiff.replay.files import check_target, write_whole
from replaydiff.replay.model import (
    Item,
    Lane,
    Rule,
    RunRecord,
    ServedCall,
    Status,
    ToolCall,
    Trial,
    Version,
    VersionKind,
)
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.runs import create_run, finish_run
from replaydiff.replay.store.trials import write_trials

RUN = "20261120-221305-ab12"


def write_run(store: Path, run_id: str = RUN, hour: int = 10) -> None:
    """Ten items of three trials; the new version forgets the lookup on two of them."""
    look, cancel = (
        ToolCall(name="look", args={"id": "1"}, result="ok"),
        ToolCall(name="cancel", index=1, result="ok"),
    )
    items = [
        Item(
            id=f"trace-{n}",
            input=f"Cancel order {n}",
            tape=(look, cancel),
            trace_id=f"trace-{n}",
            recorded_response="Done.",
        )
        for n in range(10)
    ]
    lanes = {lane: Version(name=str(lane), kind=VersionKind.PYTHON) for lane in (Lane.OLD, Lane.NEW)}
    when = datetime(2026, 11, 20, hour)
    run = RunRecord(id=run_id, created_at=when, lanes=lanes, trials=3, seed=0, golden_path=None)
    trials = [
        Trial(
            run_id=run_id,
            item_id=item.id,
            lane=lane,
            index=index,
            status=Status.OK,
            final_response="Done.",
            served=tuple(
                ServedCall(call=call, rule=Rule.TAPE)
                for call in ((cancel,) if lane == Lane.NEW and number < 2 else (look, cancel))
            ),
            latency_ms=1000.0,
        )
        for number, item in enumerate(items)
        for lane in lanes
        for index in range(3)
    ]
    with open_store(store) as con:
        create_run(con, run, items)
        write_trials(con, trials)
        finish_run(con, run_id, when)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a store that holds one run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPLAY_MATCH_TRUST", "true")
    write_run(tmp_path / ".replay" / "replay.duckdb")
    return tmp_path


def report(*args: str, command: str = "report") -> Result:
    """Run the command as a person does, through the door that turns errors into sentences."""

    @click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
    def door() -> None:
        main([command, *args])

    return CliRunner().invoke(door)


def test_the_latest_run_is_shown_in_the_terminal(folder: Path) -> None:
    write_run(folder / ".replay" / "replay.duckdb", "20261120-231305-cd34", hour=11)
    done = report()
    assert done.exit_code == 0
    assert done.stdout.startswith("HOLD  tool_calls 1.00 → 0.80 on 10 items (95% interval")
    assert "run 20261120-231305-cd34" in done.stdout
    assert "2 regressed  " in done.stdout
    assert done.stderr == ""


def test_a_run_is_named_by_the_beginning_of_its_id(folder: Path) -> None:
    done = report("20261120-2213", "--format", "json")
    assert json.loads(done.stdout)["run"]["id"] == RUN
    missing = report("20250101-000000")
    assert missing.exit_code == 2
    assert missing.stderr.startswith("error: there is no run '20250101-000000'")


@pytest.mark.parametrize(("format_", "suffix"), [("html", "html"), ("junit", "xml")])
def test_what_is_for_programs_goes_to_a_file(folder: Path, format_: str, suffix: str) -> None:
    done = report("--format", format_)
    assert (done.exit_code, done.stdout) == (0, "")
    name = f"replay-report-{RUN}.{suffix}"
    assert done.stderr == f"HOLD: {format_} report of run {RUN} written to {name}\n"
    assert "HOLD" in (folder / name).read_text(encoding="utf-8")
    again = report("--format", format_, "-o", "-")
    assert again.stdout == (folder / name).read_text(encoding="utf-8")


def test_parquet_goes_to_a_file_or_as_bytes_to_stdout(folder: Path) -> None:
    done = report("--format", "parquet")
    assert (done.exit_code, done.stdout) == (0, "")
    written = (folder / f"replay-report-{RUN}.parquet").read_bytes()
    assert written[:4] == written[-4:] == b"PAR1"
    piped = report("--format", "parquet", "-o", "-").stdout_bytes
    assert piped[:4] == piped[-4:] == b"PAR1"


@pytest.mark.parametrize("format_", ["terminal", "markdown", "json", "junit", "html"])
@pytest.mark.slow
def test_any_format_goes_to_the_file_that_is_named(folder: Path, format_: str) -> None:
    target = folder / "out.txt"
    target.write_text("the last one")
    target.chmod(0o640)
    done = report("--format", format_, "-o", "out.txt")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "HOLD" in target.read_text(encoding="utf-8")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert sorted(path.name for path in folder.iterdir()) == [".replay", "out.txt"]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--format", "pdf"), "error: there is no report format 'pdf'; there are: csv, html, json, junit"),
        (("--format", "htm"), "error: there is no report format 'htm'; did you mean 'html'?"),
        (("-o", "nowhere/report.html"), "error: there is no folder nowhere to write report.html in"),
        (("-o", ".replay"), "error: .replay is a folder; name a file in it, such as -o .replay/report.html"),
        (("--metric", "wit"), "error: "),
        (("--db", "none.duckdb"), "error: there is no store at /"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(folder: Path, args: tuple[str, ...], sentence: str) -> None:
    done = report(*args)
    assert done.exit_code == 2
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert [path.name for path in folder.iterdir()] == [".replay"]


def test_a_store_without_runs_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(tmp_path / "s.duckdb"):
        pass
    done = report("--db", "s.duckdb")
    assert done.exit_code == 2
    assert "start one with `replay run` or `replay compare`" in done.stderr


def test_columns_is_the_width_of_diff_and_report(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("diff", "report"):
        monkeypatch.setenv("COLUMNS", "140")
        assert max(map(len, report(command=command).stdout.splitlines())) > 80
        monkeypatch.setenv("COLUMNS", "80")
        assert max(map(len, report(command=command).stdout.splitlines())) <= 80


@pytest.mark.slow
def test_a_pipe_gets_plain_text_and_a_reader_beside_it_is_no_obstacle(folder: Path) -> None:
    with open_store(folder / ".replay" / "replay.duckdb", read_only=True):
        done = subprocess.run(
            [sys.executable, "-m", "replaydiff", "report"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"},
        )
    assert "\x1b" not in done.stdout
    assert "1.00 -> 0.80" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")

    def fail(_self: Path, _target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(NoSpaceError, match="cannot be written: No space left on device"):
        write_whole(target, "new")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_links_and_pipes_stay_what_they_are(tmp_path: Path) -> None:
    real, link = tmp_path / "real.html", tmp_path / "link.html"
    link.symlink_to(real)
    write_whole(link, "text")
    assert link.is_symlink()
    assert real.read_text() == "text"
    write_whole(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()


def test_a_report_is_not_written_through_a_link_out_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, project = tmp_path / "outside", tmp_path / "project"
    for folder in (outside, project / "own"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(project)
    (project / "report.html").symlink_to(outside / "bashrc")
    (project / "reports").symlink_to(outside)
    (project / "inside.html").symlink_to("own/report.html")
    for way_out in ("report.html", str(project / "report.html"), "reports/a.html", "own/../report.html"):
        with pytest.raises(InputError, match="is behind a link that leads to"):
            check_target(Path(way_out))
    check_target(Path("inside.html"))
    check_target(outside / "meant.html")
    check_target(Path("/dev/stdout"))


def test_a_new_report_is_its_owner_s_alone_and_a_file_of_the_project_is_not(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        write_whole(tmp_path / "report.html", "text")
        write_whole(tmp_path / "golden.jsonl", "text", shared=True)
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "golden.jsonl").stat().st_mode) == 0o644
