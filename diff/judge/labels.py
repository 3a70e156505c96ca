"""Sheets of hand labels: drawn blind from what the judge graded, filled row by row, read back.

A row holds what the judge saw and none of its results: no score, no lane, no version. Its key is a hash of
run, item, lane and trial, so a sheet can be filled by someone who has no store. The answers of all versions
to one item are drawn together: only such pairs show how far the judge errs more in one version than in the
other. The draw depends on run, size and seed alone, so the sheets of several people have the same rows.

CSV opens in any spreadsheet; a cell that would start a formula there gets an apostrophe before it. A name
that ends in .jsonl makes JSON Lines instead.

The terminal and the local page fill the same file, `.replay/labels/RUN.PERSON.jsonl` beside replay.toml. It
holds text of traces, and so stays out of version control; the calibration made from it belongs there.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replaydiff.diff.graders.base import JUDGE
from replaydiff.diff.judge.judge import versions_of
from replaydiff.diff.judge.prompt import POINTS, document
from replaydiff.diff.reading import StoredGrades, read_blocks
from replaydiff.diff.result import GradedTrial
from replaydiff.replay.errors import InputError
from replaydiff.replay.files import check_target, locked_folder, replacing
from replaydiff.replay.model import Grade, GradeState, Item, Lane
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.runs import get_run
from replaydiff.replay.store.sql import clean_text
from replaydiff.replay.tape import show_call
from replaydiff.replay.terminal.text import spreadsheet_cell

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COLUMNS = ("key", "conversation", "tool_calls", "response", "expected", "label", "note")
_MOST_CELL = 32_000
"""Characters a spreadsheet takes in one cell."""


@dataclass(frozen=True, slots=True)
class JudgedResponse:
    """A response that the judge gave a score."""

    key: str
    item: Item
    graded: GradedTrial
    grade: Grade

    @property
    def points(self) -> int:
        """Return the judge's grade on the scale that people label by."""
        assert self.grade.score is not None  # noqa: S101 - only scored ones are made
        return points_of(self.grade.score)


def points_of(score: float) -> int:
    """Return a judge's score, 0..1, on the scale that people label by."""
    return min(max(round(score * POINTS[-1]), POINTS[0]), POINTS[-1])


def judged_responses(con: DuckDBPyConnection, run_id: str, settings: Settings) -> list[JudgedResponse]:
    """Return every response of a run's whole blocks that the judge gave a score.

    Raises:
        UnknownNameError: there is no such run.
    """
    run = get_run(con, run_id)
    stored = StoredGrades.read(con, run, versions_of(settings))
    return [
        JudgedResponse(
            key_of(run.id, block.item.id, str(lane), graded.trial.index), block.item, graded, grade
        )
        for block in read_blocks(con, run, settings, stored).blocks
        for lane, trials in block.lanes.items()
        for graded in trials
        if (grade := graded.grades.get(JUDGE)) is not None and grade.state is GradeState.SCORED
    ]


def key_of(run_id: str, item_id: str, lane: str, trial: int) -> str:
    """Return the key of a response on a sheet, which reveals nothing about it."""
    name = "\x00".join([run_id, item_id, lane, str(trial)])
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def draw_responses(responses: Sequence[JudgedResponse], size: int, seed: int) -> list[JudgedResponse]:
    """Draw about `size` responses: the answers of all versions to one item together, strata in proportion.

    An item's group has one random trial of `old` and of each new lane, in random order. An item comes again,
    with other trials, only where no other is left, and responses without a counterpart come last. A group is
    never cut, so there may be a few more than `size`.
    """
    rng = random.Random(seed)  # noqa: S311 - a draw, no secret
    trials: dict[str, dict[str, list[JudgedResponse]]] = {}
    for response in sorted(responses, key=lambda response: response.key):
        # The A/A lane is the old version once more: a pair needs one of the two.
        if response.graded.trial.lane != Lane.OLD2:
            lanes = trials.setdefault(response.item.id, {})
            lanes.setdefault(str(response.graded.trial.lane), []).append(response)
    drawn_lanes = {lane for lanes in trials.values() for lane in lanes}
    rounds: dict[int, list[list[JudgedResponse]]] = {}
    partial: list[list[JudgedResponse]] = []
    for lanes in trials.values():
        for lane_responses in lanes.values():
            rng.shuffle(lane_responses)
        complete = min(len(lanes.get(lane, ())) for lane in drawn_lanes)
        for number in range(complete):
            group = [lane_responses[number] for lane_responses in lanes.values()]
            rng.shuffle(group)
            rounds.setdefault(number, []).append(group)
        partial += [[response] for lane_responses in lanes.values() for response in lane_responses[complete:]]
    groups = [group for number in sorted(rounds) for group in _stratified_order(rounds[number], rng)]
    drawn: list[JudgedResponse] = []
    for group in (*groups, *_stratified_order(partial, rng)):
        if len(drawn) >= size:
            break
        drawn += group
    return drawn


def _stratified_order(
    groups: Sequence[list[JudgedResponse]], rng: random.Random
) -> list[list[JudgedResponse]]:
    """Return groups in an order in which every prefix has each stratum in proportion.

    The n-th of a stratum's m is at a random position within the n-th of m equal parts.
    """
    strata: dict[str, list[list[JudgedResponse]]] = {}
    for group in groups:
        strata.setdefault(group[0].item.stratum, []).append(group)
    for members in strata.values():
        rng.shuffle(members)
    positioned = [
        ((number + rng.random()) / len(members), group)
        for members in strata.values()
        for number, group in enumerate(members)
    ]
    return [group for _, group in sorted(positioned, key=lambda pair: pair[0])]


def sheet_text(drawn: Sequence[JudgedResponse], *, lines: bool) -> str:
    """Return the sheet: CSV, or JSON Lines with `lines`."""
    drawn_rows = [_row(response.key, response.item, response.graded) for response in drawn]
    if lines:
        return _lines(drawn_rows)
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows({name: _cell(text) for name, text in row.items()} for row in drawn_rows)
    return out.getvalue()


def read_sheet(path: Path) -> dict[str, int]:
    """Return the labels of a filled sheet, by key; rows without a label are left out.

    Raises:
        InputError: it cannot be read, is no such sheet, or has a label that is none.
    """
    labels: dict[str, int] = {}
    for line, row in rows(path):
        key, label = row.get("key"), row.get("label")
        if not isinstance(key, str) or "label" not in row:
            raise InputError(
                f"{path}:{line}: no key or label; it is not a sheet of `replay calibrate --label`"
            )
        if label is None or str(label).strip() == "":
            continue
        text = str(label).strip()
        if text not in {str(point) for point in POINTS}:
            scale = ", ".join(str(point) for point in POINTS)
            raise InputError(f"{path}:{line}: label must be one of {scale}, or empty, not {text[:20]!r}")
        labels[key] = int(text)
    return labels


def is_sheet(path: Path) -> bool:
    """Return whether a file of labels is a sheet: its rows have the keys of responses.

    Raises:
        InputError: it cannot be read.
    """
    return any({"key", "label"} <= row.keys() for _, row in itertools.islice(rows(path), 1))


def rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the rows of a sheet, each with its line.

    Raises:
        InputError: it cannot be read, or is neither CSV nor JSON Lines.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; name a filled sheet") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; save it as CSV UTF-8") from None
    if path.suffix == ".jsonl":
        for line, raw in enumerate(text.splitlines(), start=1):
            if raw.strip():
                try:
                    fields = json.loads(raw)
                except json.JSONDecodeError as error:
                    raise InputError(f"{path}:{line}: not valid JSON: {error.msg}") from None
                yield line, fields if isinstance(fields, dict) else {}
        return
    csv.field_size_limit(10_000_000)
    head = text.partition("\n")[0]
    # Spreadsheets of half of Europe save CSV with semicolons.
    reader = csv.DictReader(io.StringIO(text), delimiter=";" if head.count(";") > head.count(",") else ",")
    for row in reader:
        yield reader.line_num, row


def _row(key: str, item: Item, graded: GradedTrial) -> dict[str, str]:
    material: dict[str, Any] = document(item, graded.trial)
    calls = []
    for call in material["tool_calls"]:
        answer = f"error: {call['error']}" if "error" in call else call["result"]
        calls += [f"→ {show_call(call['name'], call['args'])}", f"← {answer}"]
    expected = [f"- {trait}" for trait in material.get("expected_traits", ())]
    if "reference_answer" in material:
        origin = "what production answered" if material["recorded"] else "what is expected"
        expected.append(f"{origin}: {material['reference_answer']}")
    return {
        "key": key,
        "conversation": "\n".join(f"{turn['role']}: {turn['text']}" for turn in material["conversation"]),
        "tool_calls": "\n".join(calls),
        "response": material["response"],
        "expected": "\n".join(expected),
        "label": "",
        "note": "",
    }


def _lines(row_list: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in row_list)


def _cell(text: str) -> str:
    return spreadsheet_cell(clean_text(text)[:_MOST_CELL])


SIZE = 50
"""Rows of a sheet unless more are asked for: what a gate wants at the least."""
FOLDER = Path(".replay", "labels")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRow:
    """One response to label, as the judge saw it."""

    key: str
    conversation: str
    tool_calls: str
    response: str
    expected: str
    label: int | None
    """1 poor, 2 fair, 3 good; None: not labelled yet."""
    note: str


def personal_sheet(settings: Settings, run_id: str, person: str) -> Path:
    """Return where this person (`Ada <ada@…>` is Ada) keeps labels of a run.

    No name leads out of the folder.
    """
    name = _plain(person.partition("<")[0]) or _plain(person) or "someone"
    return settings.root / FOLDER / f"{_plain(run_id)}.{name}.jsonl"


def sheets_of(settings: Settings, run_id: str) -> list[Path]:
    """Return the label sheets of a run by person."""
    return sorted((settings.root / FOLDER).glob(f"{_plain(run_id)}.*.jsonl"))


def draw_sheet(
    con: DuckDBPyConnection, settings: Settings, run_id: str, *, size: int = SIZE, seed: int = 0
) -> list[JudgedResponse]:
    """Draw the rows of a sheet of a run (`draw_responses`). Nothing is written.

    Raises:
        InputError: the judge gave no response of the run a score.
    """
    responses = judged_responses(con, run_id, settings)
    if not responses:
        raise InputError(
            f"run {run_id} has no response with a score of the judge; name a model in [judge], then "
            f"`replay run --resume {run_id}`"
        )
    return draw_responses(responses, size, seed)


def write_sheet(path: Path, drawn: Sequence[JudgedResponse]) -> None:
    """Write a new sheet, whole.

    Raises:
        InputError: it exists already, and may contain labels; or cannot be written.
    """
    if path.exists():
        raise InputError(f"{path} exists already, and may contain labels; name another file")
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, sheet_text(drawn, lines=path.suffix == ".jsonl"))


def keep_labels(
    settings: Settings, run_id: str, person: str, labelled: Iterable[tuple[Item, GradedTrial, int, str]]
) -> int:
    """Write labels that a person gave elsewhere into that person's sheet; return how many are new or changed.

    Args:
        settings: say where sheets are.
        run_id: the run.
        person: whose sheet it is.
        labelled: item, trial, label and note; of several for one trial the last one counts.

    Raises:
        InputError: the sheet cannot be read or written.
    """
    path = personal_sheet(settings, run_id, person)
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked_folder(path.parent):
        present = {str(row.get("key")): dict(row) for _, row in rows(path)} if path.exists() else {}
        before = {key: dict(row) for key, row in present.items()}
        for item, graded, label, note in labelled:
            trial = graded.trial
            key = key_of(run_id, item.id, str(trial.lane), trial.index)
            present[key] = {**_row(key, item, graded), "label": str(label), "note": note}
        if present != before:
            _write(path, _lines(present.values()))
    return sum(before.get(key) != row for key, row in present.items())


def read(path: Path) -> list[LabelRow]:
    """Return the rows of a sheet, in their order.

    Raises:
        InputError: it cannot be read, is no such sheet, or has a label that is none.
    """
    labels = read_sheet(path)
    return [
        LabelRow(
            key=str(row["key"]),
            label=labels.get(str(row["key"])),
            **{name: str(row.get(name) or "") for name in COLUMNS if name not in ("key", "label")},
        )
        for _, row in rows(path)
    ]


def set_label(path: Path, key: str, label: int | None, note: str = "") -> None:
    """Write a label (None: none) and a note into the row of this key.

    The file is complete at every moment, and of labels that are set at the same time none is lost.

    Raises:
        InputError: it cannot be read or written, or has no such row.
    """
    with locked_folder(path.parent) if path.exists() else nullcontext():
        row_list = [dict(row) for _, row in rows(path)]
        labelled = [row for row in row_list if row.get("key") == key]
        if not labelled:
            raise InputError(f"{path} has no row {key[:20]!r}; it was drawn again, or from another run")
        for row in labelled:
            row |= {"label": "" if label is None else str(label), "note": note}
        _write(path, _lines(row_list))


def _write(path: Path, text: str) -> None:
    check_target(path, "sheet.csv")
    with replacing(path) as file:
        file.write_bytes(text.encode("utf-8", errors="replace"))


def _plain(name: str) -> str:
    return re.sub(r"[^\w-]+", "-", name).strip("-")[:80]
