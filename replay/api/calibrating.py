"""Compare the judge with hand labels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replaydiff.replay.errors import InputError
from replaydiff.replay.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How far the judge agrees with labels, and where it was written."""

    document: dict[str, Any]
    path: Path

    @property
    def agreement(self) -> float:
        """Share of the labels that the judge agrees with."""
        return float(self.document["agreement"])

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa, weighted; None where it is not defined."""
        kappa = self.document["kappa"]
        return None if kappa is None else float(kappa)

    @property
    def labels(self) -> int:
        """How many labels were compared."""
        return int(self.document["labels"])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        return self.document


def draw_sheet(store: Path, settings: Settings, run: str | None, path: Path, *, size: int, seed: int) -> int:
    """Write a blind sheet of a run's graded responses; return how many rows it has.

    Raises:
        InputError: the sheet is there already, or the judge graded nothing.
    """
    from replaydiff.diff.judge import labels
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.runs import chosen_run

    with open_store(store, read_only=True) as con:
        drawn = labels.draw_sheet(con, settings, chosen_run(con, run).id, size=size, seed=seed)
    labels.write_sheet(path, drawn)
    return len(drawn)


def own_sheet(store: Path, settings: Settings, run: str | None, *, size: int, seed: int) -> tuple[str, Path]:
    """Return the run and this person's own sheet of it, drawn where there is none yet."""
    from replaydiff.cases.promote import person
    from replaydiff.diff.judge import labels
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.runs import chosen_run

    with open_store(store, read_only=True) as con:
        run = chosen_run(con, run).id
        path = labels.own_sheet(settings, run, person(settings.root))
        if not path.exists():
            labels.write_sheet(path, labels.draw_sheet(con, settings, run, size=size, seed=seed))
    return run, path


def label_sheet(settings: Settings, path: Path) -> tuple[int, int]:
    """Ask for labels at the terminal; return how many rows are labelled, and how many there are."""
    from replaydiff.diff.judge import labels
    from replaydiff.diff.judge.labelling import LabellingSession

    left = LabellingSession(path, settings.judge.rubric).run()
    total = len(labels.read(path))
    return total - left, total


def calibrate(
    store: Path,
    settings: Settings,
    run: str | None,
    sheets: Sequence[Path],
    *,
    own: bool,
    output: Path | None,
) -> Calibration:
    """Read filled sheets, compare the judge with them, and write the calibration.

    `own` adds the sheets of everyone who labelled the run here.

    Raises:
        InputError: nobody has labelled, or a sheet cannot be read.
    """
    from replaydiff.diff.judge import labels
    from replaydiff.diff.judge.calibration import IDENTITY, calibration, judge_hash
    from replaydiff.replay.files import write_whole
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.runs import chosen_run

    paths = list(sheets)
    with open_store(store, read_only=True) as con:
        if own:
            run = chosen_run(con, run).id
            paths += labels.sheets_of(settings, run)
        if not paths:
            raise InputError(f"nobody has labelled run {run} here; `replay calibrate` asks for labels")
        document = calibration(con, settings, paths)
    name = judge_hash(*(str(document[part]) for part in IDENTITY))
    target = output or settings.root / settings.judge.calibration / f"{name}.json"
    kept = {key: value for key, value in document.items() if key != "disagreements"}
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, json.dumps(kept, ensure_ascii=False, indent=1) + "\n")
    return Calibration(document=document, path=target)
