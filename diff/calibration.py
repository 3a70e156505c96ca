"""Whether the judge may decide: its calibration with hand labels, kept under version control.

Each judge has a file of its own in the folder `[judge] calibration`, named by a hash of model, prompt hash
and rubric hash: when one of them changes, another file counts, and so none until labels are read again. It is
JSON: `model`, `prompt_hash`, `rubric_hash`, `agreement` (0..1), `labels` (how many), `kappa` and more.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from replaydiff.diff.stored import JUDGE, StoredGrades
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import Grade, JsonObject
from replaydiff.replay.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a judge's figures are worth."""

    may_gate: bool = False
    complaint: str | None = None
    """Why it may not decide, in a sentence."""
    document: JsonObject | None = field(default=None)
    """The calibration as reports show it; None where none speaks for these grades."""


class _File(msgspec.Struct):
    model: str
    prompt_hash: str
    rubric_hash: str
    agreement: float
    labels: int
    kappa: float | None = None


def judge_hash(model: str, prompt_hash: str, rubric_hash: str) -> str:
    """What a judge's calibration is named by: sixteen hexadecimal digits of a SHA-256."""
    return hashlib.sha256("\n".join([model, prompt_hash, rubric_hash]).encode()).hexdigest()[:16]


def standing(settings: Settings, stored: StoredGrades) -> Standing:
    """Look for the calibration of the judge that graded this run.

    Raises:
        InputError: the file is there and cannot be read.
    """
    if JUDGE not in stored.versions:
        return Standing()
    folder = settings.root / settings.judge.calibration
    grade = next((g[JUDGE] for g in stored.by_trial.values() if JUDGE in g), None)
    path = folder / f"{judge_hash(*_identity(grade))}.json" if grade else None
    if grade is None or path is None or not path.is_file():
        others = any(folder.glob("*.json"))
        why = "no calibration" + (", only that of another model, prompt or rubric" if others else "")
        return Standing(complaint=f"the judge is uncalibrated ({why} in {folder}): its figures do not gate")
    found = _read(path)
    if (found.model, found.prompt_hash, found.rubric_hash) != _identity(grade):
        return Standing(
            complaint=f"the judge is uncalibrated: {path} speaks for another model, prompt or rubric than "
            "its name; its figures do not gate"
        )
    document: dict[str, Any] = msgspec.to_builtins(found)
    gate = settings.gate
    if found.agreement < gate.agreement or found.labels < gate.labels:
        return Standing(
            complaint=f"the judge agrees with {found.agreement:.0%} of {found.labels} hand labels, and it "
            f"takes {gate.agreement:.0%} of at least {gate.labels}: its figures do not gate",
            document=document,
        )
    return Standing(may_gate=True, document=document)


def _read(path: Path) -> _File:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_File)
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"the calibration {path} cannot be read: {error}; mend or remove it") from None


def _identity(grade: Grade) -> tuple[str, str, str]:
    """The judge of a grade, which carries its identity in `detail`."""
    model, prompt_hash, rubric_hash = (
        str(grade.detail.get(name)) for name in ("model", "prompt_hash", "rubric_hash")
    )
    return model, prompt_hash, rubric_hash
