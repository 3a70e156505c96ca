"""Grades that were paid for: read from the store, one grader version a metric."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replaydiff.replay.model import Grade, Lane, Run, Trial
from replaydiff.replay.store.grades import iter_grades

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

JUDGE = "judge"
"""Name of the judge's grades, and of its metric."""
PAIRWISE = "pairwise"
"""Name of its comparisons of old and new trials; see `diff.pairing`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGrades:
    """The stored grades of a run that count."""

    by_trial: Mapping[tuple[str, Lane, int], dict[str, Grade]]
    versions: Mapping[str, str]
    """Metric → the grader version its grades are of."""

    @classmethod
    def read(cls, con: DuckDBPyConnection, run: Run, judges: Sequence[str] = ()) -> StoredGrades:
        """Read a run's grades.

        Of several versions of one grader, one counts, so that both lanes are held to one standard: the one
        that graded the most lanes, and of those the most trials. Of equals it is one of `judges`, those of
        the settings, else the last of the alphabet.
        """
        lanes: dict[tuple[str, str], set[Lane]] = defaultdict(set)
        trials: Counter[tuple[str, str]] = Counter()
        for grade in iter_grades(con, run.id):
            key = (grade.grader, grade.grader_version)
            lanes[key].add(grade.lane)
            trials[key] += 1
        versions: dict[str, str] = {}
        order = sorted(trials, key=lambda key: (len(lanes[key]), trials[key], key[1] in judges, key))
        for grader, version in order:
            versions[grader] = version
        by_trial: dict[tuple[str, Lane, int], dict[str, Grade]] = defaultdict(dict)
        if versions:
            for grade in iter_grades(con, run.id):
                if versions[grade.grader] == grade.grader_version:
                    by_trial[grade.item_id, grade.lane, grade.trial][grade.grader] = grade
        return cls(by_trial=dict(by_trial), versions=versions)

    def of(self, trial: Trial) -> dict[str, Grade]:
        """The stored grades of one trial, by metric name."""
        return self.by_trial.get((trial.item_id, trial.lane, trial.index), {})

    @property
    def judges(self) -> frozenset[str]:
        """Metrics that are a judge's, and gate only when calibrated."""
        return frozenset({JUDGE} & self.versions.keys())

    @property
    def judge_model(self) -> str | None:
        """The model of the judge whose grades count; None without any."""
        grade = next((grades[JUDGE] for grades in self.by_trial.values() if JUDGE in grades), None)
        model = grade.detail.get("model") if grade else None
        return model if isinstance(model, str) else None
