"""Labels for calibration out of the triage: on the person's own sheet, which hides what the judge said.

The page of an entry shows the judge's grades, so a label given beside them would only repeat them.
"""

from __future__ import annotations

from pathlib import Path

from replaydiff.cases.desk import Desk
from replaydiff.diff.judge import labels
from replaydiff.replay.errors import InputError
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.connection import open_store


def label_blind(settings: Settings, desk: Desk, run_id: str) -> int | None:
    """Have the person label the run's sheet until they stop; how many responses have no label then.

    None where no judge graded the run, so that there is nothing to calibrate.
    """
    from replaydiff.diff.judge.labelling import LabellingSession

    sheet = _sheet(settings, desk, run_id)
    return None if sheet is None else LabellingSession(sheet).run()


def _sheet(settings: Settings, desk: Desk, run_id: str) -> Path | None:
    path = labels.own_sheet(settings, run_id, desk.person)
    if not path.exists():
        try:
            with open_store(desk.store, read_only=True) as con:
                drawn = labels.draw_sheet(con, settings, run_id)
        except InputError:
            return None
        labels.write_sheet(path, drawn)
    return path
