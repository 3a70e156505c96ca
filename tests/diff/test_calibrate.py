"""`replay calibrate`: a blind sheet, read back, decides whether the judge may gate."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.diff.judge.calibration import judge_hash, majority_labels
from replaydiff.diff.judge.labels import key_of
from replaydiff.diff.statistics.agreement import agreement, labels_needed, weighted_kappa, wilson_low
from replaydiff.replay.cli import main
from replaydiff.replay.model import GradeState, Item, Lane
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.runs import create_run, get_run
from tests.diff.build import RUN_ID, item, judged, store, trial
from tests.stand_ins.full import full
from tests.stand_ins.terminal import typed

GRADES = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=2, max_size=60)


@full
@given(GRADES)
def test_kappa_is_that_of_statsmodels(pairs: list[tuple[int, int]]) -> None:
    from statsmodels.stats.inter_rater import cohens_kappa

    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    found = agreement(first, second, (1, 2, 3))
    table = np.array(found.confusion)
    assert table.sum() == len(pairs) == found.labels
    assert found.agreement == pytest.approx(np.mean([one == other for one, other in pairs]))
    assert found.constant == pytest.approx(max(first.count(grade) for grade in (1, 2, 3)) / len(pairs))
    if found.kappa is None:
        assert len({*first, *second}) == 1
    else:
        with np.errstate(all="ignore"):  # its standard error divides by zero on small tables
            expected = cohens_kappa(table, wt="linear").kappa
        assert found.kappa == pytest.approx(expected, abs=1e-9)
        assert found.kappa_ci is not None
        assert found.kappa_ci[0] <= found.kappa_ci[1]


@pytest.fixture
def graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sixty items; the judge gives 3 to most answers of the old lane and 1 to every fifth of the new one."""
    items = [item(f"t{n}", input=f"=HYPERLINK({n})", recorded_response="done") for n in range(60)]
    done, grades = [], []
    for n, one in enumerate(items):
        for lane in (Lane.OLD, Lane.NEW):
            done.append(trial(one, lane, final_response=f"answer {n}"))
            grades.append(judged(one, lane, 0, 1 / 3 if n % 5 == 0 and lane == Lane.NEW else 1.0))
    (tmp_path / "replay.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return store(tmp_path, items, done, grades=grades)


def _run(store_path: Path, *args: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["--db", str(store_path), "calibrate", *args])
    return int(ended.value.code or 0)


def _fill(path: Path, label: Any) -> None:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["label"] = label(row)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(rows)


def _truth(row: dict[str, str]) -> int:
    """A person who finds the answers to every fifth question poor, and knows no lane."""
    return 1 if int(row["response"].split()[1]) % 5 == 0 else 3


def test_the_sheet_is_blind_and_no_cell_is_a_formula(graded: Path) -> None:
    assert _run(graded, "--label", "sheet.csv") == 0
    text = Path("sheet.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == len({row["key"] for row in rows}) == 50
    assert set(rows[0]) == {"key", "conversation", "tool_calls", "response", "expected", "label", "note"}
    assert "candidate" not in text
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row.values())
    assert '→ get_order_status(order_id=""1"")' in text
    assert _run(graded, "--label", "again.csv") == 0
    assert Path("again.csv").read_text() == text


def test_both_lanes_are_drawn_from_alike(graded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(graded, "--label", "sheet.jsonl", "--size", "40") == 0
    rows = [json.loads(line) for line in Path("sheet.jsonl").read_text().splitlines()]
    Path("sheet.jsonl").write_text("".join(json.dumps({**row, "label": 2}) + "\n" for row in rows))
    capsys.readouterr()
    assert _run(graded, "--labels", "sheet.jsonl", "--json") == 0
    apart = json.loads(capsys.readouterr().out)["disagreements"]
    assert len([one for one in apart if one["lane"] == "old"]) == 20


def test_read_back_it_is_bound_to_the_judge_and_says_what_to_read_first(
    graded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(graded, "--label", "ada.csv") == 0
    _fill(Path("ada.csv"), _truth)
    assert _run(graded, "--labels", "ada.csv") == 0
    text = capsys.readouterr().out
    written = json.loads(Path(f"cases/calibration/{judge_hash('m', 'p', 'r')}.json").read_text())
    assert (written["model"], written["prompt_hash"], written["rubric_hash"]) == ("m", "p", "r")
    assert written["labels"] == 50
    assert written["labelled_by"] == ["ada"]
    wrong = written["confusion"][0]
    assert written["agreement"] == pytest.approx((50 - wrong[2]) / 50)
    assert f"agrees with {written['agreement']:.0%} of 50 labels; kappa" in text
    assert "read these first" in text
    assert "old 1: label 1, judge 3" in text


def test_labellers_are_held_against_each_other_and_differences_are_no_measure(
    graded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("ada.csv", "bo.csv"):
        assert _run(graded, "--label", name) == 0
    _fill(Path("ada.csv"), _truth)
    _fill(Path("bo.csv"), lambda row: 2 if row["response"] == "answer 7" else _truth(row))
    capsys.readouterr()
    assert _run(graded, "--labels", "ada.csv", "--labels", "bo.csv", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    (pair,) = document["between"].values()
    assert pair["labels"] == 50
    assert document["labels"] == round(50 * pair["agreement"])


@pytest.mark.slow
def test_with_a_good_calibration_the_judge_may_gate(graded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _regrade(graded, {(n, lane): 1 if n % 3 == (lane == "new") else 3 for n in range(60) for lane in BOTH})
    assert _run(graded, "--label", "sheet.csv", "--size", "100") == 0
    _fill(Path("sheet.csv"), lambda row: _judged(graded)[row["key"]])
    capsys.readouterr()
    assert _run(graded, "--labels", "sheet.csv") == 0
    text = capsys.readouterr().out
    assert text.endswith("; the judge may gate\n")
    assert "50 labelled pairs correct the change" in text
    judge = _diffed(graded, capsys)["metrics"]["judge"]
    assert judge["calibration"]["labels"] == 100
    assert judge["calibration"]["pairs"] == 50
    assert judge["calibration"]["lanes"]["new"]["agreement_low"] == pytest.approx(0.949, abs=1e-3)
    assert judge["gated"]
    assert judge["labels"]["n"] == 50
    assert judge["labels"]["agreement"] == {"old": 1.0, "new": 1.0}


BOTH = ("old", "new")


def _judged(path: Path) -> dict[str, int]:
    """The judge's points by the key of a sheet's row."""
    with open_store(path, read_only=True) as con:
        rows = con.execute("SELECT run_id, item_id, lane, trial, score FROM grades").fetchall()
    return {key_of(*row[:4]): round(row[4] * 3) for row in rows}


def _regrade(path: Path, points: dict[tuple[int, str], int]) -> None:
    with open_store(path) as con:
        con.execute(
            "UPDATE grades SET score = given.score FROM (SELECT unnest(?::VARCHAR[]) AS item_id,"
            " unnest(?::VARCHAR[]) AS lane, unnest(?::DOUBLE[]) AS score) AS given"
            " WHERE grades.item_id = given.item_id AND grades.lane = given.lane",
            [[f"t{n}" for n, _ in points], [lane for _, lane in points], [p / 3 for p in points.values()]],
        )


def _diffed(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["--db", str(path), "diff", RUN_ID, "--json"])
    printed = capsys.readouterr()
    assert printed.out, printed.err
    document: dict[str, Any] = json.loads(printed.out)
    return document


def _label_by(path: Path, truth: dict[tuple[int, str], int], size: int = 120) -> int:
    """Draw a sheet, fill it with the truth, and read it."""
    with open_store(path, read_only=True) as con:
        rows = con.execute("SELECT run_id, item_id, lane, trial FROM grades").fetchall()
    labels = {key_of(*row): truth[int(row[1][1:]), row[2]] for row in rows}
    Path("truth.csv").unlink(missing_ok=True)
    assert _run(path, "--label", "truth.csv", "--size", str(size)) == 0
    _fill(Path("truth.csv"), lambda row: labels[row["key"]])
    return _run(path, "--labels", "truth.csv")


def test_a_constant_judge_may_not_gate_and_labels_find_the_loss(
    graded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The judge gives 3 to everything; 2 of 60 old answers are poor, and 11 of the new ones."""
    _regrade(graded, {(n, lane): 3 for n in range(60) for lane in BOTH})
    truth = {(n, lane): 1 if n < (11 if lane == "new" else 2) else 3 for n in range(60) for lane in BOTH}
    assert _label_by(graded, truth) == 0
    assert (
        "the judge may not gate: in lane new the judge agrees with 82% of 60 labels"
        in capsys.readouterr().out
    )
    judge = _diffed(graded, capsys)["metrics"]["judge"]
    assert (judge["gated"], judge["delta"]) == (False, 0.0)
    delta, low, high = judge["labels"]["corrected"]
    assert delta == pytest.approx(-9 / 60 * 2 / 3)
    assert low < -0.1 < high < 0.0


def test_labels_turn_the_change_of_a_judge_that_is_lenient_to_one_lane(
    graded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is right on the old answers and finds nothing wrong with the new ones, of which a third are poor."""
    truth = {(n, lane): 1 if n % (3 if lane == "new" else 4) == 0 else 3 for n in range(60) for lane in BOTH}
    _regrade(graded, {(n, lane): 3 if lane == "new" else truth[n, lane] for n, lane in truth})
    assert _label_by(graded, truth, size=80) == 0
    text = capsys.readouterr().out
    assert "the judge may not gate: in lane new the judge agrees with" in text
    row = next(line.split() for line in text.splitlines() if line.startswith("new"))
    assert (row[-1], row[-2]) == ("0", str(80 // 2 - int(float(row[2].rstrip("%")) * 0.4 + 0.5)))
    judge = _diffed(graded, capsys)["metrics"]["judge"]
    delta, low, _ = judge["labels"]["corrected"]
    assert judge["ci"][0] > 0, "the judge itself is sure of a gain"
    assert delta < 0.05
    assert low < -0.05, "and its labels leave a loss open: no SHIP"


def test_the_answer_is_decided_by_the_corrected_interval(
    graded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Labels of another run show that the judge is too kind to new answers; it finds no change in this one."""
    _regrade(graded, {(n, lane): 1 if n % 3 == 0 else 3 for n in range(60) for lane in BOTH})
    truth = {
        (n, lane): 1 if n % 3 == 0 or (lane == "new" and n in (1, 2)) else 3
        for n in range(60)
        for lane in BOTH
    }
    assert _label_by(graded, truth) == 0
    file = Path(f"cases/calibration/{judge_hash('m', 'p', 'r')}.json")
    kept = json.loads(file.read_text())
    perfect = {**kept, "pairs": [{**pair, "label": pair["judge"]} for pair in kept["pairs"]]}
    other = {**kept, "pairs": [{**pair, "run": "another"} for pair in kept["pairs"]]}
    found = {}
    for name, document in (("own", kept), ("other", other), ("perfect", perfect)):
        file.write_text(json.dumps(document))
        found[name] = _diffed(graded, capsys)
    capsys.readouterr()
    for name in ("own", "other"):
        judge = found[name]["metrics"]["judge"]
        assert judge["gated"]
        assert judge["delta"] == 0.0
        assert judge["labels"]["corrected"][0] == pytest.approx(-2 / 60 * 2 / 3)
        assert found[name]["answer"] == "CAN'T TELL", found[name]["reason"]
        assert "a loss of more than 0.05 cannot be excluded" in found[name]["reason"]
    assert found["perfect"]["answer"] == "SHIP", found["perfect"]["reason"]


def test_the_majority_of_several_people_counts() -> None:
    people = {"a": {"x": 1, "y": 3, "z": 2}, "b": {"x": 1, "y": 1}, "c": {"x": 3}}
    assert majority_labels(people) == {"x": 1, "z": 2}


def test_kappa_bounds_hold_the_truth_where_nearly_all_is_good() -> None:
    """90 % good, a judge that is right in 90 %: as often as stated, and at 20 labels more often than a bootstrap."""
    labels, right = np.array([0.05, 0.05, 0.9]), 0.9
    other = np.array([[0, 2 / 3, 1 / 3], [1 / 2, 0, 1 / 2], [1 / 3, 2 / 3, 0]])
    truth = labels[:, None] * (right * np.eye(3) + (1 - right) * other)
    kappa = float(weighted_kappa(truth[np.newaxis])[0])
    rng = np.random.default_rng(0)
    for size, runs in ((20, 150), (50, 150)):
        held = below = 0
        for _ in range(runs):
            table = rng.multinomial(size, truth.ravel()).reshape(3, 3)
            rows = [(i + 1, j + 1) for i in range(3) for j in range(3) for _ in range(table[i, j])]
            found = agreement([i for i, _ in rows], [j for _, j in rows], (1, 2, 3))
            held += found.kappa_ci is None or found.kappa_ci[0] <= kappa <= found.kappa_ci[1]
            below += found.kappa_low is None or found.kappa_low <= kappa
        assert held / runs > 0.88, (size, held)
        assert below / runs > 0.93, (size, below)


def test_how_many_labels_would_do_is_where_the_bound_first_holds() -> None:
    for share, bound in ((0.95, 0.85), (0.9, 0.85), (1.0, 0.9)):
        needed = labels_needed(share, bound)
        assert needed is not None
        sizes = [n for n in range(1, 600) if abs(share * n - round(share * n)) < 1e-9]
        first = next(n for n in sizes if wilson_low(round(share * n), n) >= bound)
        assert first - (20 if share < 1 else 1) < needed <= first
    assert labels_needed(0.85, 0.85) is None


@pytest.mark.parametrize(
    ("hits", "total"), [(0, 5), pytest.param(43, 50, marks=full), pytest.param(50, 50, marks=full), (7, 9)]
)
def test_the_lower_bound_of_agreement_is_wilsons(hits: int, total: int) -> None:
    from statsmodels.stats.proportion import proportion_confint

    expected = proportion_confint(hits, total, alpha=0.1, method="wilson")[0]
    assert wilson_low(hits, total) == pytest.approx(max(0.0, expected), abs=1e-12)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--label", "a.csv", "--labels", "b.csv"], "--label and --labels are one step each"),
        (["--label"], "standard input is not a terminal"),
        (["--labels"], "there are no labels for run"),
        (["--label", "there.csv"], "there.csv exists already, and may contain labels"),
        (["--labels", "none.csv"], "none.csv cannot be read: No such file or directory; name a filled sheet"),
        (["--labels", "there.csv"], "existing labels are of recorded responses; label its own with"),
        (["--labels", "blank.csv", "--labels", "score:x"], "reads sheets or labels from elsewhere"),
        (["--labels", "five.csv"], "five.csv:2: label must be one of 1, 2, 3, or empty, not '5'"),
        (["--labels", "other.csv"], "1 labelled rows are of no run that a judge graded"),
        (["--labels", "blank.csv"], "no row of blank.csv has a label"),
    ],
)
def test_what_is_no_sheet_is_said_and_nothing_is_written(
    args: list[str], sentence: str, graded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("there.csv").write_text("a,b\n1,2\n")
    Path("five.csv").write_text("key,label\nabc,5\n")
    Path("other.csv").write_text("key,label\nabc,3\n")
    Path("blank.csv").write_text("key,label\nabc,\n")
    assert _run(graded, *args) == 2
    assert sentence in capsys.readouterr().err
    assert not Path("cases/calibration").exists()


PERSON = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "user.name",
    "GIT_CONFIG_VALUE_0": "Ada",
    "GIT_CONFIG_KEY_1": "user.email",
    "GIT_CONFIG_VALUE_1": "ada@example.com",
}


def _labels(name: str = "Ada") -> list[str]:
    rows = Path(f".replay/labels/{RUN_ID}.{name}.jsonl").read_text().splitlines()
    return [json.loads(row)["label"] for row in rows]


def test_labelling_at_a_terminal_is_blind_and_goes_on_where_it_stopped(
    graded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ("--db", str(graded), "calibrate", "--label", "--size", "4")
    keys = [
        ("0 of 4 labelled", "3"),
        ("1 of 4 labelled", "1"),
        ("2 of 4 labelled", "u"),
        ("1 of 4 labelled", "s"),
        ("1 of 4 labelled", "n"),
        ("note (Enter: none)", "well\n"),
        ("it is kept with the label", "2"),
        ("2 of 4 labelled", "q"),
    ]
    seen = typed(Path.cwd(), keys, *args, NO_COLOR="1", **PERSON)
    assert "2 of 4 labelled, in" in seen
    assert f"to continue: replay calibrate {RUN_ID} --label" in seen
    for hidden in ("candidate", "0.33", "1.00", "lane", "judge"):
        assert hidden not in seen
    assert "[1] poor [2] fair [3] good" in seen
    assert "\x1b[3" not in seen
    assert max(len(line) for line in seen.splitlines() if "replay" not in line) <= 80
    assert sorted(_labels()) == ["", "", "2", "3"]

    seen = typed(Path.cwd(), [("2 of 4 labelled", "3"), ("3 of 4 labelled", "3")], *args, **PERSON)
    assert f"next: replay calibrate {RUN_ID} --labels" in seen
    assert sorted(_labels()) == ["2", "3", "3", "3"]
    assert _run(graded, "--labels", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["labels"], document["labelled_by"]) == (4, ["Ada"])


def test_sheets_find_their_run_and_everyone_of_it_is_read(
    graded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A later run is the latest; the sheet is of the earlier one."""
    path = Path(".replay/labels")
    path.mkdir(parents=True)
    for name in ("Ada", "Bo"):
        own = path / f"{RUN_ID}.{name}.jsonl"
        assert _run(graded, "--label", str(own), "--size", "6") == 0
        rows = [json.loads(line) for line in own.read_text().splitlines()]
        own.write_text("".join(json.dumps({**row, "label": len(name)}) + "\n" for row in rows))
    with open_store(graded) as con:
        later = replace(get_run(con, RUN_ID), id="20991231-000000-ffff", created_at=datetime(2099, 12, 31))
        create_run(con, later, [item("t1")])
    capsys.readouterr()
    assert _run(graded, "--labels", str(path / f"{RUN_ID}.Ada.jsonl"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["runs"] == [RUN_ID]
    assert _run(graded, RUN_ID, "--labels", "--json") == 2
    assert "by a majority where people differ" in capsys.readouterr().err
    other = Path("elsewhere/ada.jsonl")
    other.parent.mkdir()
    other.write_text((path / f"{RUN_ID}.Ada.jsonl").read_text())
    assert _run(graded, "--labels", "elsewhere/ada.jsonl", "--labels", str(path / f"{RUN_ID}.Ada.jsonl")) == 0
    text = capsys.readouterr().out
    assert "ada and Ada: 100% of 6 labels alike" in text


def test_the_labels_of_two_judges_are_not_mixed(graded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rubric changed, and another run was judged by it; the old calibration stays beside the new one."""
    assert _run(graded, "--label", "one.csv", "--size", "5") == 0
    _fill(Path("one.csv"), lambda row: 3)
    assert _run(graded, "--labels", "one.csv") == 0
    with open_store(graded) as con:
        con.execute('UPDATE grades SET detail = json_merge_patch(detail, \'{"rubric_hash": "r2"}\')')
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["--db", str(graded), "diff", RUN_ID, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["metrics"]["judge"]["calibration"] is None
    assert any("only that of another model, prompt or rubric" in warning for warning in document["warnings"])
    # The same labels hold the new judge to account.
    assert _run(graded, "--labels", "one.csv") == 0
    assert {path.name for path in Path("cases/calibration").iterdir()} == {
        f"{judge_hash('m', 'p', rubric)}.json" for rubric in ("r", "r2")
    }


def test_without_grades_it_says_what_makes_some(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items: list[Item] = [item("t1")]
    path = store(tmp_path, items, [trial(items[0], Lane.NEW)])
    assert _run(path, "--label", str(tmp_path / "s.csv")) == 2
    assert "has no response with a score of the judge" in capsys.readouterr().err


def test_without_an_option_it_shows_the_state_and_the_next_step(
    graded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def state() -> dict[str, Any]:
        capsys.readouterr()
        assert _run(graded, "--json") == 0
        return dict(json.loads(capsys.readouterr().out))

    first = state()
    assert (first["run"], first["model"], first["scored"], first["labelled"]) == (RUN_ID, "m", 120, {})
    assert first["reason"].startswith("the judge is uncalibrated (no calibration in cases/calibration)")
    assert first["next"] == f"replay calibrate {RUN_ID} --label"
    Path(".replay/labels").mkdir(parents=True)
    own = Path(f".replay/labels/{RUN_ID}.Ada.jsonl")
    assert _run(graded, "--label", str(own), "--size", "120") == 0
    rows = [json.loads(line) for line in own.read_text().splitlines()]
    own.write_text("".join(json.dumps({**row, "label": 3}) + "\n" for row in rows))
    assert state()["next"] == f"replay calibrate {RUN_ID} --labels"
    assert _run(graded, "--labels") == 0
    refused = state()
    assert not refused["may_gate"]
    assert refused["labelled"] == {"Ada": 120}
    assert refused["next"] == f"replay calibrate {RUN_ID} --label more.csv --size 240"
    own.write_text("".join(json.dumps({**row, "label": _truth(row)}) + "\n" for row in rows))
    assert _run(graded, "--labels") == 0
    assert state()["labelled"] == {"Ada": 120}
    assert _run(graded) == 0
    shown = capsys.readouterr().out
    assert f"run {RUN_ID}: judge m, 120 scored responses" in shown
    assert "labels: Ada 120" in shown


def test_the_state_of_a_judge_that_failed_or_did_not_run_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    one = item("t1")
    failed = judged(one, Lane.NEW, 0, None, state=GradeState.ERROR, reason="401 no key")
    for folder, grades, reason, step in (
        ("failed", [failed], "judge: 1 of 1 grades failed: 401 no key; check", "name a `model`"),
        ("none", [], "the judge graded no response of this run", "name a `model`"),
    ):
        (tmp_path / folder).mkdir()
        path = store(tmp_path / folder, [one], [trial(one, Lane.NEW)], grades=grades)
        assert _run(path) == 0
        shown = capsys.readouterr().out
        assert reason in shown
        assert f"next: {step}" in shown
