"""The agreement of the judge with hand labels, and whether it may decide.

Filled sheets give a calibration. A row's key names run, item, lane and trial, so sheets find their runs by
themselves; those of several runs count together where one judge graded them. Rows that people label
differently are left out of the comparison with the judge and count between the people alone.

Each judge has a file of its own in the folder `[judge] calibration`, under version control, named by a hash
of model, prompt hash and rubric hash: when one of them changes, another file counts, and so none until labels
are read again. It is JSON: `model`, `prompt_hash`, `rubric_hash`, `agreement` (0..1), `labels` (how many),
`kappa` and more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from replaydiff.diff.graders.base import JUDGE
from replaydiff.diff.judge import labels
from replaydiff.diff.judge.labels import JudgedResponse
from replaydiff.diff.judge.prompt import POINTS
from replaydiff.diff.reading import StoredGrades
from replaydiff.diff.statistics.agreement import agreement
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import Grade, JsonObject
from replaydiff.replay.settings import Settings

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeStatus:
    """What a judge's figures are worth."""

    may_gate: bool = False
    complaint: str | None = None
    """Why it may not decide, in a sentence."""
    document: JsonObject | None = field(default=None)
    """The calibration as reports show it; None where none speaks for these grades."""


class _CalibrationFile(msgspec.Struct):
    model: str
    prompt_hash: str
    rubric_hash: str
    agreement: float
    labels: int
    kappa: float | None = None


def judge_hash(model: str, prompt_hash: str, rubric_hash: str) -> str:
    """What a judge's calibration is named by: sixteen hexadecimal digits of a SHA-256."""
    return hashlib.sha256("\n".join([model, prompt_hash, rubric_hash]).encode()).hexdigest()[:16]


def judge_status(settings: Settings, stored: StoredGrades) -> JudgeStatus:
    """Look for the calibration of the judge that graded this run.

    Raises:
        InputError: the file is there and cannot be read.
    """
    if JUDGE not in stored.versions:
        return JudgeStatus()
    folder = settings.root / settings.judge.calibration
    grade = next((g[JUDGE] for g in stored.by_trial.values() if JUDGE in g), None)
    path = folder / f"{judge_hash(*_identity(grade))}.json" if grade else None
    if grade is None or path is None or not path.is_file():
        others = any(folder.glob("*.json"))
        why = "no calibration" + (", only that of another model, prompt or rubric" if others else "")
        return JudgeStatus(
            complaint=f"the judge is uncalibrated ({why} in {folder}): its figures do not gate"
        )
    found = _read(path)
    if (found.model, found.prompt_hash, found.rubric_hash) != _identity(grade):
        return JudgeStatus(
            complaint=f"the judge is uncalibrated: {path} speaks for another model, prompt or rubric than "
            "its name; its figures do not gate"
        )
    document: dict[str, Any] = msgspec.to_builtins(found)
    gate = settings.gate
    if found.agreement < gate.agreement or found.labels < gate.labels:
        return JudgeStatus(
            complaint=f"the judge agrees with {found.agreement:.0%} of {found.labels} hand labels, and it "
            f"takes {gate.agreement:.0%} of at least {gate.labels}: its figures do not gate",
            document=document,
        )
    return JudgeStatus(may_gate=True, document=document)


def _read(path: Path) -> _CalibrationFile:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_CalibrationFile)
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"the calibration {path} cannot be read: {error}; mend or remove it") from None


def _identity(grade: Grade) -> tuple[str, str, str]:
    """The judge of a grade, which carries its identity in `detail`."""
    model, prompt_hash, rubric_hash = (
        str(grade.detail.get(name)) for name in ("model", "prompt_hash", "rubric_hash")
    )
    return model, prompt_hash, rubric_hash


IDENTITY = ("model", "prompt_hash", "rubric_hash")
"""What of a calibration names the judge."""


def calibration(con: DuckDBPyConnection, settings: Settings, filled: Sequence[Path]) -> dict[str, Any]:
    """The calibration that filled sheets give; `disagreements` lists where judge and person part.

    Raises:
        InputError: a sheet cannot be read, is of another store, or has no label; or several judges graded
            what was labelled.
    """
    people = {name: labels.read_sheet(path) for name, path in _labellers(filled).items()}
    found = {key for given in people.values() for key in given}
    if not found:
        raise InputError(f"no row of {', '.join(map(str, filled))} has a label; write 1, 2 or 3 there")
    known, runs = _graded_responses(con, settings, found)
    agreed = {key: label for key, label in _unanimous(people).items() if key in known}
    if not agreed:
        raise InputError("no response that is labelled, and alike by all, has a score of the judge")
    judges = {tuple(known[key].grade.detail.get(part) for part in IDENTITY) for key in agreed}
    if len(judges) > 1:
        raise InputError(
            f"{len(judges)} judges graded what is labelled here (another model, prompt or rubric in another "
            "run); read the sheets of one run at a time"
        )
    keys = sorted(agreed)
    held = agreement([agreed[key] for key in keys], [known[key].points for key in keys], POINTS)
    return {
        **dict(zip(IDENTITY, judges.pop(), strict=True)),
        "agreement": held.share,
        "labels": held.labels,
        "kappa": held.kappa,
        "kappa_ci": held.kappa_ci,
        "constant": held.constant,
        "confusion": held.confusion,
        "labelled_by": list(people),
        "between": _between(people),
        "differing": len(found) - len(_unanimous(people)),
        "without_score": len(found - known.keys()),
        "runs": runs,
        "disagreements": _disagreements(agreed, known),
    }


def _labellers(filled: Sequence[Path]) -> dict[str, Path]:
    """Who filled which sheet, by its file's name; a sheet that is named twice counts once."""
    named: dict[str, Path] = {}
    for path in dict.fromkeys(path.absolute() for path in filled):
        own = path.parent.parts[-2:] == labels.FOLDER.parts
        name = path.stem.rpartition(".")[2] if own else path.stem
        named[name if name not in named else str(path)] = path
    return named


def _graded_responses(
    con: DuckDBPyConnection, settings: Settings, keys: set[str]
) -> tuple[dict[str, JudgedResponse], list[str]]:
    """Of the labelled responses those with a score of the judge, and the runs they are of."""
    rows = con.execute(
        "SELECT DISTINCT run_id, item_id, lane, trial FROM grades WHERE grader = ?", [JUDGE]
    ).fetchall()
    place = {key: row[0] for row in rows if (key := labels.key_of(*row)) in keys}
    strange = keys - place.keys()
    if strange:
        raise InputError(
            f"{len(strange)} labelled rows are of no run that a judge graded in this store; name the store "
            "that the sheet was drawn from with --db"
        )
    runs = sorted(set(place.values()))
    found = [one for run in runs for one in labels.judged_responses(con, run, settings)]
    return {one.key: one for one in found if one.key in keys}, runs


def _unanimous(people: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """One label for each row: what all who labelled it gave."""
    given: dict[str, set[int]] = {}
    for own in people.values():
        for key, label in own.items():
            given.setdefault(key, set()).add(label)
    return {key: next(iter(found)) for key, found in given.items() if len(found) == 1}


def _between(people: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """How far each two people agree on what both labelled."""
    between = {}
    for one, other in combinations(people, 2):
        shared = sorted(people[one].keys() & people[other].keys())
        if shared:
            pair = agreement([people[one][k] for k in shared], [people[other][k] for k in shared], POINTS)
            between[f"{one} and {other}"] = {
                "labels": pair.labels,
                "agreement": pair.share,
                "kappa": pair.kappa,
                "kappa_ci": pair.kappa_ci,
            }
    return between


def _disagreements(agreed: Mapping[str, int], known: Mapping[str, JudgedResponse]) -> list[dict[str, Any]]:
    apart = [key for key in agreed if agreed[key] != known[key].points]
    return [
        {
            "run": known[key].graded.trial.run_id,
            "item": known[key].item.id,
            "lane": str(known[key].graded.trial.lane),
            "trial": known[key].graded.trial.index + 1,
            "label": agreed[key],
            "judge": known[key].points,
            "reason": known[key].grade.reason,
        }
        for key in sorted(apart, key=lambda key: (-abs(agreed[key] - known[key].points), key))
    ]
