"""Whether the judge may decide: its calibration with hand labels, kept under version control.

The file (`[judge] calibration`) is JSON: `model`, `prompt_hash`, `rubric_hash`, `agreement` (0..1), `labels`
(how many), `kappa`. It speaks for the grades of exactly that model, prompt and rubric; when one of them
changes, it no longer holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from diff.stored import JUDGE, StoredGrades
from replay.errors import InputError
from replay.model import Grade, JsonObject
from replay.settings import Settings


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


def standing(settings: Settings, stored: StoredGrades) -> Standing:
    """Hold the calibration file against the judge that graded this run.

    Raises:
        InputError: the file is there and cannot be read.
    """
    if JUDGE not in stored.versions:
        return Standing()
    path = settings.root / settings.judge.calibration
    if not path.is_file():
        return Standing(complaint=f"the judge is uncalibrated ({path} is not there): its figures do not gate")
    found = _read(path)
    grade = next((g[JUDGE] for g in stored.by_trial.values() if JUDGE in g), None)
    if grade is None or not _same(found, grade):
        return Standing(
            complaint=f"the judge is uncalibrated: {path} speaks for another model, prompt or rubric; "
            "its figures do not gate"
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


def _same(found: _File, grade: Grade) -> bool:
    """Whether a calibration is bound to the judge of a grade, which carries its identity in `detail`."""
    return all(
        grade.detail.get(name) == getattr(found, name) for name in ("model", "prompt_hash", "rubric_hash")
    )
