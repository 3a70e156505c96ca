"""Labels and verdicts that exist already: scores of traces, and files of labels.

A label belongs to one recorded response. `score:NAME` is the score of that name that came with a trace; a
file has a row for each label: the value of a field that names the trace (`trace_id`, `metadata.task_id`),
`label`, and optionally `rater`. The judge is one that graded the observed lanes of a run, or `score:NAME`
again: the verdicts of a judge that ran elsewhere, whose agreement is so worked out without running one.

Values are put on the scale of labels, 1 poor, 2 fair, 3 good, by `[judge] scale`, and without it by their
plain meaning (`read_values`). A label that has none is an error; a verdict that has none is left out, and how
many there are is reported. Of several raters the majority counts, as on sheets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replaydiff.diff.graders.base import JUDGE, SCORE_PREFIX
from replaydiff.diff.judge import labels
from replaydiff.diff.judge.calibration import (
    IDENTITY,
    LabelledResponse,
    calibration_document,
    majority_labels,
    score_identity,
)
from replaydiff.diff.judge.judge import versions_of
from replaydiff.diff.judge.prompt import POINTS
from replaydiff.diff.reading import StoredGrades, read_blocks
from replaydiff.diff.result import Block, GradedTrial
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import Grade, Lane, RunRecord, Score, VersionKind
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.runs import get_run
from replaydiff.replay.store.traces import iter_traces
from replaydiff.replay.store.where import field_text, guarded, matching_ids, selection

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TRACE_ID = "trace_id"
_POOR, _FAIR, _GOOD = POINTS
_WORDS = {
    **dict.fromkeys(("pass", "passed", "true", "yes", "good", "correct"), _GOOD),
    "fair": _FAIR,
    **dict.fromkeys(("fail", "failed", "false", "no", "poor", "bad", "incorrect"), _POOR),
}
_RANGE = re.compile(r"(-?[\d.]+)\.\.(-?[\d.]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Response:
    """A recorded response that may have labels and a verdict."""

    key: str
    trace_id: str | None
    """None where a run does not record which trace it is."""
    scores: Mapping[str, Score]
    run: str = ""
    lane: str = ""
    trial: int = 0
    item: str = ""
    grade: Grade | None = None


def existing_calibration(
    con: DuckDBPyConnection,
    settings: Settings,
    sources: Sequence[str],
    *,
    by: str = TRACE_ID,
    judge: str | None = None,
    run_id: str | None = None,
    where: str | None = None,
) -> dict[str, Any]:
    """Return the calibration that existing labels give, like `calibration.calibration` does of sheets.

    Args:
        con: the store; may be read-only.
        settings: `[judge] scale` defines the values.
        sources: of the labels: `score:NAME`, or the path of a CSV or JSON Lines file.
        by: the field of a trace that the rows of a file name.
        judge: `score:NAME` for a judge that ran elsewhere; None for the one that graded the run.
        run_id: the run whose observed lanes count; without it all traces.
        where: a condition on the traces, where there is no run.

    Raises:
        InputError: a source cannot be read, a label means nothing, or nothing has both label and verdict.
    """
    if judge is not None and not judge.startswith(SCORE_PREFIX):
        raise InputError(f"--judge must be {SCORE_PREFIX}NAME, a score of the traces, not {judge!r}")
    responses = _of_traces(con, where) if run_id is None else _of_run(con, run_id, settings)
    people, outside = _labels(con, responses, sources, by, settings)
    decided = majority_labels(people)
    verdicts, unread = _verdicts(responses, judge, settings)
    keys = sorted(decided.keys() & verdicts.keys())
    if not keys:
        raise InputError(
            f"no response has both a label of {', '.join(sources)} and a verdict of {judge or 'the judge'}; "
            "`replay traces` lists the scores that traces have"
        )
    by_key = {response.key: response for response in responses}
    rows = [
        LabelledResponse(
            run=by_key[key].run,
            item=by_key[key].item,
            lane=by_key[key].lane,
            trial=by_key[key].trial,
            label=decided[key],
            judge=verdicts[key][0],
            score=verdicts[key][1],
            reason=_reason(by_key[key], judge),
        )
        for key in keys
    ]
    return calibration_document(
        _identity_of([by_key[key] for key in keys]) if judge is None else score_identity(judge),
        rows,
        people,
        without_score=len(decided.keys() - verdicts.keys()),
        unread=dict(unread.most_common()),
        outside=outside,
        runs=[] if run_id is None else [run_id],
    )


def read_values(values: Iterable[object], scale: Mapping[str, int]) -> dict[str, int | None]:
    """Return the points, 1 to 3, of each value by its text; None if it has none.

    With `scale`, its keys are values (letter case is ignored) or ranges of numbers, ends included: `4..5`.
    Without it `pass` and `fail`, `true` and `false` and their like, and numbers that are all 0 or 1, or all
    1, 2 or 3.

    Raises:
        InputError: all are 1, which is "good" among 0 and 1, and "poor" among 1, 2 and 3.
    """
    texts = {_text(value) for value in values}
    if scale:
        return {text: _scaled(text, scale) for text in texts}
    numbers = {text: number for text in texts if (number := _number(text)) is not None}
    distinct = set(numbers.values())
    if numbers and distinct == {1.0}:
        raise InputError(
            "every value is 1, which may be a pass or the lowest grade; define it in replay.toml: "
            '[judge] scale = { "1" = 3 }'
        )
    points: dict[str, int | None] = {text: _WORDS.get(text) for text in texts}
    if distinct <= {0.0, 1.0}:
        points |= {text: _GOOD if number else _POOR for text, number in numbers.items()}
    elif distinct <= {float(point) for point in POINTS}:
        points |= {text: int(number) for text, number in numbers.items()}
    return points


def _scaled(text: str, scale: Mapping[str, int]) -> int | None:
    number = _number(text)
    for key, points in scale.items():
        if key.strip().casefold() == text:
            return points
        if number is not None:
            span = _RANGE.fullmatch(key.replace(" ", ""))
            if float(span[1]) <= number <= float(span[2]) if span else _number(key) == number:
                return points
    return None


def _text(value: object) -> str:
    return str(value).strip().casefold()


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _of_traces(con: DuckDBPyConnection, where: str | None) -> list[_Response]:
    return [
        _Response(key=trace.trace_id, trace_id=trace.trace_id, item=trace.trace_id, scores=trace.scores)
        for trace in iter_traces(con, matching_ids(con, where))
    ]


def _of_run(con: DuckDBPyConnection, run_id: str, settings: Settings) -> list[_Response]:
    """Return the trials of the observed lanes; a label of a recording does not apply to a replay of it."""
    run = get_run(con, run_id)
    observed = {lane for lane, version in run.lanes.items() if version.kind is VersionKind.OBSERVED}
    if not observed:
        raise InputError(
            f"run {run_id} has no observed lane, and existing labels are of recorded responses; label its "
            "own with `replay calibrate --label`, or compare `--old observed`"
        )
    stored = StoredGrades.read(con, run, versions_of(settings))
    blocks = read_blocks(con, run, settings, stored).blocks
    paired = {lane: _paired(con, run, lane, blocks) for lane in observed}
    responses = []
    for block in blocks:
        for lane in observed & block.lanes.keys():
            for graded in block.lanes[lane]:
                trial = graded.trial
                trace_id = trial.served[0].from_trace_id if trial.served else None
                if trace_id is None:
                    trace_id = paired[lane].get((block.item.id, trial.index))
                responses.append(
                    _Response(
                        key=labels.key_of(run.id, block.item.id, str(lane), trial.index),
                        trace_id=trace_id,
                        scores=trial.scores,
                        run=run.id,
                        lane=str(lane),
                        trial=trial.index,
                        item=block.item.id,
                        grade=graded.grades.get(JUDGE),
                    )
                )
    return responses


def _paired(
    con: DuckDBPyConnection, run: RunRecord, lane: Lane, blocks: Sequence[Block]
) -> dict[tuple[str, int], str]:
    """Return the trace of each trial of an observed lane, by item and index, as the run paired them.

    A trial without tool calls does not name its trace. Traces that were imported since may have moved the
    others: a trial whose answer is another one has none.
    """
    condition, pair_by = run.lanes[lane].condition, run.settings.get("pair_by")
    trace_of_item = {
        block.item.id: block.item.trace_id for block in blocks if block.item.trace_id is not None
    }
    if condition is None:
        return {(item, 0): trace_id for item, trace_id in trace_of_item.items()}
    field = pair_by if isinstance(pair_by, str) else TRACE_ID
    values, text = _field_values(con, field, [*trace_of_item.values()]), field_text(field)
    traces: dict[str, list[tuple[str, str | None]]] = {}
    with guarded(con, condition) as cursor:
        chosen, bound = selection(cursor, condition, None)
        rows = cursor.execute(
            f"SELECT trace_id, {text}, final_response FROM {chosen} ORDER BY started_at, trace_id",
            bound,
        ).fetchall()
    for trace_id, value, response in rows:
        traces.setdefault(value, []).append((trace_id, response))
    return {
        (block.item.id, graded.trial.index): trace_id
        for block in blocks
        for graded in block.lanes.get(lane, ())
        for trace_id, response in traces.get(values.get(trace_of_item.get(block.item.id, ""), ""), [])[
            graded.trial.index : graded.trial.index + 1
        ]
        if response == graded.trial.final_response
    }


def _labels(
    con: DuckDBPyConnection,
    responses: Sequence[_Response],
    sources: Sequence[str],
    by: str,
    settings: Settings,
) -> tuple[dict[str, dict[str, int]], int]:
    """Return the labels in points, by rater and response, and how many are of no response."""
    labels_by_rater: dict[str, dict[str, Score]] = {}
    outside = 0
    for source in sources:
        if source.startswith(SCORE_PREFIX):
            name = source.removeprefix(SCORE_PREFIX)
            labels_of_rater = {
                response.key: response.scores[name]
                for response in responses
                if response.scores.get(name) is not None
            }
            if not labels_of_rater:
                raise InputError(f"no trace has a score {name!r}; `replay show ID` lists the scores of one")
            labels_by_rater[name] = labels_of_rater
        else:
            of_file, strangers = _of_file(con, Path(source), responses, by)
            outside += strangers
            for rater, labels_of_rater in of_file.items():
                labels_by_rater.setdefault(rater, {}).update(labels_of_rater)
    points = read_values(
        (value for labels_of_rater in labels_by_rater.values() for value in labels_of_rater.values()),
        settings.judge.scale,
    )
    # Where one number is no grade, none is: the number that cannot be one is the error.
    strange = sorted(
        (text for text, point in points.items() if point is None),
        key=lambda text: (_number(text) in (0, *POINTS), text),
    )
    if strange:
        raise InputError(
            f"the label {strange[0][:40]!r} is not a grade; define the labels in replay.toml: [judge] "
            'scale = { pass = 3, fail = 1 }, with 1 poor, 2 fair and 3 good, or ranges like "4..5" = 3'
        )
    in_points = {
        rater: {
            key: point
            for key, value in labels_of_rater.items()
            if (point := points[_text(value)]) is not None
        }
        for rater, labels_of_rater in labels_by_rater.items()
    }
    return in_points, outside


def _of_file(
    con: DuckDBPyConnection, path: Path, responses: Sequence[_Response], by: str
) -> tuple[dict[str, dict[str, Score]], int]:
    """Return the labels of a file by rater and response, and how many are of no response."""
    owners: dict[str, list[str]] = {}
    fields = _field_values(
        con, by, [response.trace_id for response in responses if response.trace_id is not None]
    )
    for response in responses:
        if response.trace_id in fields:
            owners.setdefault(fields[response.trace_id], []).append(response.key)
    labels_by_rater: dict[str, dict[str, Score]] = {}
    outside = 0
    for line, row in labels.rows(path):
        value = row.get(by, row.get(by.rpartition(".")[2]))
        label = row.get("label")
        if value is None or "label" not in row:
            raise InputError(
                f"{path}:{line}: a label needs {by.rpartition('.')[2]!r} and 'label'; name the field that "
                "its rows have with --by"
            )
        if label is None or str(label).strip() == "":
            continue
        keys = owners.get(str(value), [])
        if len(keys) > 1:
            raise InputError(
                f"{path}:{line}: {len(keys)} responses have {by} {str(value)[:40]!r}, and a label belongs to "
                "one; name them --by trace_id"
            )
        outside += not keys
        for key in keys:
            labels_by_rater.setdefault(str(row.get("rater") or path.stem), {})[key] = label
    if not labels_by_rater:
        raise InputError(f"no label of {path} belongs to a response here; compare its {by} with the traces'")
    return labels_by_rater, outside


def _field_values(con: DuckDBPyConnection, by: str, ids: Sequence[str]) -> dict[str, str]:
    """Return the text of a field by trace, where it has one."""
    text = field_text(by)
    with guarded(con, None) as cursor:
        chosen, bound = selection(cursor, None, None)
        rows = cursor.execute(
            f"SELECT trace_id, {text} FROM {chosen} AND trace_id IN (SELECT unnest($ids::VARCHAR[]))",
            {**bound, "ids": list(ids)},
        ).fetchall()
    return {trace_id: value for trace_id, value in rows if value is not None}


def _verdicts(
    responses: Sequence[_Response], judge: str | None, settings: Settings
) -> tuple[dict[str, tuple[int, float]], Counter[str]]:
    """Return the judge's points and score of each response, and the verdicts that mean nothing, counted."""
    if judge is None:
        scored = [
            (response, response.grade.score)
            for response in responses
            if response.grade and response.grade.score is not None
        ]
        return {response.key: (labels.points_of(score), score) for response, score in scored}, Counter()
    name = judge.removeprefix(SCORE_PREFIX)
    judge_scores = {
        response.key: response.scores[name] for response in responses if response.scores.get(name) is not None
    }
    points = read_values(judge_scores.values(), settings.judge.scale)
    verdicts = {
        key: (point, point / _GOOD)
        for key, value in judge_scores.items()
        if (point := points[_text(value)]) is not None
    }
    return verdicts, Counter(_text(value) for key, value in judge_scores.items() if key not in verdicts)


def scores_in_points(
    score: str, blocks: Iterable[Block], scale: Mapping[str, int]
) -> Callable[[GradedTrial], float | None]:
    """Return what reads a score by a judge elsewhere as labels are read: its points of 3, from 0 to 1.

    Args:
        score: `score:NAME`.
        blocks: of the run, whose values together say what they mean.
        scale: `[judge] scale`.

    Raises:
        InputError: every value is 1, and nothing says what it means.
    """
    name = score.removeprefix(SCORE_PREFIX)
    values = [
        value
        for block in blocks
        for graded in block.lanes.values()
        for trial in graded
        if (value := trial.trial.scores.get(name)) is not None
    ]
    points = read_values(values, scale)

    def score_of(trial: GradedTrial) -> float | None:
        value = trial.trial.scores.get(name)
        point = None if value is None else points[_text(value)]
        return None if point is None else point / _GOOD

    return score_of


def _identity_of(responses: Iterable[_Response]) -> tuple[object, ...]:
    """Return what names the judge of all these responses."""
    grades = [response.grade for response in responses if response.grade is not None]
    identities = {tuple(grade.detail.get(part) for part in IDENTITY) for grade in grades}
    if len(identities) > 1:
        raise InputError(f"{len(identities)} judges graded what is labelled here; read one run at a time")
    return identities.pop()


def _reason(response: _Response, judge: str | None) -> str | None:
    return None if judge is not None or response.grade is None else response.grade.reason
