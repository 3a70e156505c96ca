"""`replay calibrate --labels`: labels and verdicts that exist already, as scores of traces or in a file."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from replaydiff.diff.judge.existing import read_values
from replaydiff.replay.cli import main
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import Lane, Version, VersionKind
from replaydiff.replay.store.traces import write_traces
from tests.diff.build import RUN_ID, item, judged, store, trial
from tests.stand_ins.stores import open_for_writing
from tests.store.build import trace

HUMAN = ["pass"] * 12 + ["fail"] * 8
JUDGE = ["pass"] * 10 + ["fail"] * 2 + ["fail"] * 5 + ["pass"] * 2 + ["maybe"]
"""Beside HUMAN: 10 and 5 alike, 2 stricter, 2 kinder, and one verdict that is none."""


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twenty traces with a person's score and a judge's, as an evaluation platform leaves them."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ".replay" / "replay.duckdb"
    with open_for_writing(path) as con:
        write_traces(
            con,
            [
                trace(
                    f"t{n:02}",
                    metadata={"task_id": n + 100},
                    scores={"human": HUMAN[n], "helpful": JUDGE[n], "stars": float(n % 5 + 1)},
                )
                for n in range(20)
            ],
        )
    (tmp_path / "replay.toml").write_text("")
    return path


def _calibrate(path: Path, *args: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["--db", str(path), "calibrate", *args])
    return int(ended.value.code or 0)


def _document(path: Path, capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    capsys.readouterr()
    code = _calibrate(path, *args, "--json")
    printed = capsys.readouterr()
    assert code == 0, printed.err
    document: dict[str, Any] = json.loads(printed.out)
    return document


def test_the_verdicts_of_a_judge_that_ran_elsewhere(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = _document(traces, capsys, "--labels", "score:human", "--judge", "score:helpful")
    assert (document["model"], document["labels"]) == ("score:helpful", 19)
    assert document["agreement"] == pytest.approx(15 / 19)
    assert document["confusion"] == [[5, 0, 2], [0, 0, 0], [2, 0, 10]]
    assert document["unread"] == {"maybe": 1}
    # Cohen's kappa of 2 × 2 by hand: (15/19 − e) / (1 − e), e = (12·12 + 7·7) / 19².
    expected = (12 * 12 + 7 * 7) / 19**2
    assert document["kappa"] == pytest.approx((15 / 19 - expected) / (1 - expected))
    assert document["lanes"] == {}
    assert not Path("cases").exists(), "nothing is kept unless it is asked for"
    assert _calibrate(traces, "--labels", "score:human", "--judge", "score:helpful", "-o", "kept.json") == 0
    text = capsys.readouterr().out
    assert "score:helpful agrees with 79% of 19 labels" in text
    assert "1 verdicts are not grades (maybe 1) and are left out" in text
    assert json.loads(Path("kept.json").read_text())["labels"] == 19


def test_where_and_scale_choose_and_map(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (traces.parent.parent / "replay.toml").write_text(
        '[judge.scale]\npass = 3\nfail = 1\nmaybe = 1\n"1..2" = 1\n"3" = 2\n"4..5" = 3\n'
    )
    both = _document(traces, capsys, "--labels", "score:human", "--judge", "score:helpful")
    assert (both["labels"], both["unread"]) == (20, {})
    stars = _document(
        traces, capsys, "--labels", "score:stars", "--judge", "score:helpful", "--where", "trace_id < 't10'"
    )
    assert [sum(row) for row in stars["confusion"]] == [4, 2, 4]


def test_a_file_of_labels_names_traces_by_any_field_and_raters_decide_by_majority(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"task_id": n + 100, "label": label, "rater": rater}
        for rater, flip in (("ada", ()), ("bo", (3,)), ("cy", (3, 4)))
        for n, label in enumerate(HUMAN)
        for label in [("fail" if label == "pass" else "pass") if n in flip else label]
    ]
    Path("labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = _document(
        traces, capsys, "--labels", "labels.jsonl", "--by", "metadata.task_id", "--judge", "score:helpful"
    )
    assert document["labelled_by"] == ["ada", "bo", "cy"]
    assert document["labels"] == 19
    # Task 103 is failed by two of three; the judge passes it. Task 104 by one.
    assert document["agreement"] == pytest.approx(14 / 19)
    assert document["between"]["ada and bo"]["agreement"] == pytest.approx(19 / 20)
    Path("two.csv").write_text("trace_id;label\nt00;pass\nt12;fail\nt13;\nelsewhere;pass\n")
    document = _document(traces, capsys, "--labels", "two.csv", "--judge", "score:helpful")
    assert (document["labels"], document["outside"]) == (2, 1)


def test_labels_of_recordings_calibrate_the_judge_of_observed_lanes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two observed lanes, twelve items: lanes and pairs are known; a replayed lane has no such labels."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "replay.toml").write_text("")
    items = [item(f"t{n}") for n in range(12)]
    observed = Version(name="observed", kind=VersionKind.OBSERVED, condition="true")
    done, grades = [], []
    for n, one in enumerate(items):
        for lane in (Lane.OLD, Lane.NEW):
            good = n % (3 if lane == Lane.NEW else 4) != 0
            done.append(trial(one, lane, final_response="x", scores={"human": "pass" if good else "fail"}))
            grades.append(judged(one, lane, 0, 1.0 if good or n == 3 else 1 / 3))
    lanes = {Lane.OLD: observed, Lane.NEW: observed}
    path = store(tmp_path, items, done, grades=grades, lanes=lanes)
    document = _document(path, capsys, RUN_ID, "--labels", "score:human")
    assert (document["model"], document["labels"], document["runs"]) == ("m", 24, [RUN_ID])
    assert document["lanes"]["old"]["agreement"] == 1.0
    assert (document["lanes"]["new"]["labels"], document["lanes"]["new"]["higher"]) == (12, 1)
    wrong = [pair for pair in document["pairs"] if pair["label"] != pytest.approx(pair["judge"])]
    assert [pair["item"] for pair in wrong] == ["t3"]
    assert len([*Path("cases/calibration").iterdir()]) == 1
    (tmp_path / "b").mkdir()
    replayed = store(tmp_path / "b", items, done, grades=grades)
    assert _calibrate(replayed, "--labels", "score:human") == 2
    assert "has no observed lane, and existing labels are of recorded responses" in capsys.readouterr().err


def test_a_file_of_labels_names_the_answers_of_observed_lanes_that_called_no_tool(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such a trial does not name its trace: the run's pairing does."""
    with open_for_writing(traces) as con:
        of_new = {"scores": {"helpful": "pass"}, "release": "2"}
        write_traces(con, [trace(f"n{n:02}", metadata={"task_id": n + 100}, **of_new) for n in range(20)])
    lanes = ["--old", "observed:release IS NULL", "--new", "observed:release = '2'"]
    sample = ["--where", "release IS NULL", "--size", "20", "--pair-by", "metadata.task_id"]
    with pytest.raises(SystemExit):
        main(["--db", str(traces), "compare", *sample, *lanes, "--json"])
    run = json.loads(capsys.readouterr().out)["run"]["id"]
    rows = [f"{name}{n:02},{label}" for n, label in enumerate(HUMAN) for name in ("t", "n")]
    Path("labels.csv").write_text("\n".join(["trace_id,label", *rows]))
    document = _document(traces, capsys, run, "--labels", "labels.csv", "--judge", "score:helpful")
    counted = {lane: agreement["labels"] for lane, agreement in document["lanes"].items()}
    assert (counted, document["outside"]) == ({"old": 19, "new": 20}, 0)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--labels", "score:other", "--judge", "score:helpful"], "no trace has a score 'other'"),
        (["--labels", "score:human", "--judge", "helpful"], "--judge must be score:NAME"),
        (
            ["--labels", "score:human", "--judge", "score:x"],
            "no response has both a label of score:human and",
        ),
        (["--labels", "score:human"], "there is no run in the store"),
        (
            ["--labels", "score:stars", "--judge", "score:helpful"],
            "the label '4.0' is not a grade; define the labels",
        ),
        (["--labels", "none.csv", "--judge", "score:helpful"], "none.csv cannot be read"),
        (
            ["--labels", "bare.csv", "--judge", "score:helpful"],
            "bare.csv:2: a label needs 'trace_id' and 'label'",
        ),
        (
            ["--labels", "far.csv", "--judge", "score:helpful"],
            "no label of far.csv belongs to a response here",
        ),
        (
            ["--labels", "same.csv", "--by", "source", "--judge", "score:helpful"],
            "same.csv:2: 20 responses have source",
        ),
        (["--judge", "score:helpful"], "--judge and --where go with --labels from elsewhere"),
        (["--labels", "score:human", "--where", "true"], "--where is for all traces"),
        (["--labels", "score:human", "--label", "x.csv"], "--label and --labels are one step"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(
    args: list[str], sentence: str, traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bare.csv").write_text("id,label\nt00,pass\n")
    Path("far.csv").write_text("trace_id,label\nelsewhere,pass\n")
    source = trace("x").source
    Path("same.csv").write_text(f"source,label\n{source},pass\n")
    assert _calibrate(traces, *args) == 2
    assert sentence in capsys.readouterr().err


def test_values_mean_what_they_plainly_mean() -> None:
    assert read_values([True, "FAIL ", "fair"], {}) == {"true": 3, "fail": 1, "fair": 2}
    assert read_values([0, 1.0], {}) == {"0": 1, "1.0": 3}
    assert read_values([1, 2, "3"], {}) == {"1": 1, "2": 2, "3": 3}
    assert read_values([0.4, "pass"], {}) == {"0.4": None, "pass": 3}
    assert read_values([0.4, 1, "Perfect"], {"0..0.5": 1, "1": 3, "perfect": 3}) == {
        "0.4": 1, "1": 3, "perfect": 3
    }  # fmt: skip
    with pytest.raises(InputError, match="may be a pass or the lowest grade"):
        read_values([1, 1], {})


DATA = os.environ.get("REPLAY_TEST_REAL_DATA")


@pytest.mark.skipif(not DATA, reason="REPLAY_TEST_REAL_DATA names no folder")
@pytest.mark.parametrize(
    "prompt", ["customer_outcome", "policy_chain_of_thought", "policy_conversation", "quick_triage"]
)
def test_published_judges_agree_as_published(
    prompt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gpt-4o judge over 114 real runs, four prompts: agreement, kappa and confusion from its verdicts alone."""
    folder = Path(DATA or "") / "judge-tau2"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "replay.toml").write_text("")
    with gzip.open(folder / f"retail.{prompt}.json.gz") as file:
        entries = json.load(file)["entries"]
    lines = [
        {
            "trace_id": entry["simulation_id"],
            "started_at": "2026-10-05T12:00:00Z",
            "input": entry["task_id"],
            "final_response": "done",
            "metadata": {"task_id": entry["task_id"]},
            "scores": {"truth": entry["tau2_success"], prompt: entry["judge_verdict"]},
        }
        for entry in entries
    ]
    (tmp_path / "traces.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(SystemExit) as ended:
        main(["import", "jsonl", "traces.jsonl"])
    assert ended.value.code in (0, None)
    store_path = tmp_path / ".replay" / "replay.duckdb"
    document = _document(store_path, capsys, "--labels", "score:truth", "--judge", f"score:{prompt}")
    expected = json.loads((folder / "expected.json").read_text())[prompt]["only_pass_or_fail_taken"]
    assert document["labels"] == expected["n"]
    assert document["agreement"] == pytest.approx(expected["agreement"], abs=1e-9)
    assert document["kappa"] == pytest.approx(expected["kappa"], abs=1e-9)
    counts = expected["confusion"]
    assert document["confusion"] == [
        [counts["both_fail"], 0, counts["judge_pass_truth_fail"]],
        [0, 0, 0],
        [counts["judge_fail_truth_pass"], 0, counts["both_pass"]],
    ]
