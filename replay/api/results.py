"""The results of the methods of `Project` besides a diff: a sample, a run, a check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replaydiff.replay.api.threads import in_thread
from replaydiff.replay.errors import ExitCode, worst_exit

if TYPE_CHECKING:
    from replaydiff.cases.check.outcome import CheckResult
    from replaydiff.diff.result import ItemVerdict
    from replaydiff.replay.api.diff import Diff
    from replaydiff.replay.api.project import Project
    from replaydiff.replay.api.running import Ended
    from replaydiff.replay.model import SampleItem, SampleRecord


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Sample:
    """A named, reproducible selection of traces."""

    record: SampleRecord
    items: tuple[SampleItem, ...]
    """Each with its trace's id, stratum and weight: how many traces it represents."""
    warnings: tuple[str, ...] = ()
    created: bool = True
    """False where the same sample was stored before."""

    @property
    def name(self) -> str:
        """Return the sample's name."""
        return self.record.name

    @property
    def population(self) -> int:
        """Return how many traces it was drawn from."""
        return self.record.population

    @property
    def unit(self) -> str:
        """Return what an item is: `conversation` or `trace`."""
        return "conversation" if any(item.turns for item in self.items) else "trace"

    @property
    def effective_size(self) -> float:
        """Return how many equally weighted items are worth as much as these."""
        from replaydiff.replay.sampling import effective_size

        return effective_size(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[SampleItem]:
        return iter(self.items)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            **asdict(self.record),
            "created_at": self.record.created_at.isoformat(),
            "created": self.created,
            "effective_size": self.effective_size,
            "unit": self.unit,
            "warnings": list(self.warnings),
            "items": [
                {
                    "trace_id": item.trace_id,
                    "turns": list(item.turns),
                    "position": item.position,
                    "stratum": item.stratum,
                    "weight": item.weight,
                }
                for item in self.items
            ],
        }

    def __repr__(self) -> str:
        return f"Sample({self.name!r}, {len(self)} of {self.population} traces)"


class Run:
    """A finished run, with methods for its results."""

    def __init__(self, project: Project, ended: Ended) -> None:
        self._project = project
        self.ended = ended
        report = ended.report
        self.id = report.run.id
        self.lanes = report.run.lanes
        """The version of each lane."""
        self.statuses = report.statuses
        """How the trials of each lane ended."""
        self.cost_usd = report.cost_usd
        """What the agents cost, as far as it is known; None where nothing is."""
        self.finished = not report.missing
        """False where trials are missing, because the budget was spent; `Project.resume` continues."""
        self.notes = ended.notes
        """Notes for a person about the run, in sentences."""
        self.exit_code = ended.exit_code
        """3 if a trial or vote failed or was not begun, else 0."""

    def diff(self, *, metrics: Sequence[str] = (), gate: Sequence[str] = (), lane: str | None = None) -> Diff:
        """Compute what changed; see `Project.diff`."""
        return self._project.diff(self.id, metrics=metrics, gate=gate, lane=lane)

    adiff = in_thread(diff)

    def divergences(self) -> list[Any]:
        """Return, in step mode, each trace's first decision at which the lanes differ."""
        from replaydiff.replay.engine.steps import step_divergences
        from replaydiff.replay.model import Mode
        from replaydiff.replay.store.connection import open_store

        run = self.ended.report.run
        if run.mode is not Mode.STEP:
            return []
        with open_store(self._project.store.path, read_only=True) as con:
            return list(step_divergences(con, run))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        report, grading = self.ended.report, self.ended.grading
        run = report.run
        return {
            "run": run.id,
            "sample": run.sample,
            "cases": run.golden_path,
            "mode": run.mode.value,
            "divergences": [
                {
                    "trace_id": divergence.trace_id,
                    "decision": divergence.decision,
                    "actions": {str(lane): action for lane, action in divergence.actions.items()},
                }
                for divergence in self.divergences()
            ],
            "created_at": run.created_at.isoformat(),
            "finished": run.finished_at is not None,
            "trials": run.trials,
            "lanes": {
                str(lane): {
                    "version": version.name,
                    "commit": version.commit,
                    "statuses": {status.value: n for status, n in report.statuses.get(lane, {}).items()},
                }
                for lane, version in run.lanes.items()
            },
            "missing": report.missing,
            "forecast": None if report.forecast is None else report.forecast.document(),
            "cost_usd": report.cost_usd,
            "paid_usd": report.paid_usd,
            "tokens": report.tokens,
            "recorded": None
            if report.recorded is None
            else {str(lane): count for lane, count in report.recorded.items()},
            "judge": None
            if grading is None
            else {
                "graded": grading.graded,
                "kept": grading.already_graded,
                "pairs": grading.pairs,
                "left": grading.left,
                "states": {state.value: count for state, count in grading.states.items()},
                "cost_usd": grading.cost_usd,
            },
            "next": f"replay diff {run.id}",
        }

    def __repr__(self) -> str:
        lanes = ", ".join(f"{lane}={version.name!r}" for lane, version in self.lanes.items())
        return f"Run({self.id!r}, {lanes})"


class Check:
    """How the cases of a golden set ended with one version."""

    def __init__(self, checked: CheckResult | None, ended: Ended | None) -> None:
        self.checked = checked
        """None where no case was selected."""
        self._ended = ended

    @property
    def passed(self) -> bool | None:
        """Return whether enough cases passed; None where that cannot be decided."""
        return True if self.checked is None else self.checked.result.gate.is_met

    @property
    def cases(self) -> tuple[ItemVerdict, ...]:
        """Return the cases, failed ones first."""
        return () if self.checked is None else self.checked.result.items

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code of `replay check`."""
        from replaydiff.diff.gate import exit_code

        if self.checked is None or self._ended is None:
            return ExitCode.OK
        return worst_exit([exit_code(self.checked.result.gate), self._ended.exit_code])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        from replaydiff.cases.check.outcome import document

        return {"check": {"cases": 0, "held": True}} if self.checked is None else document(self.checked)

    def report(self, format: str = "terminal", *, width: int = 100, verbose: bool = False) -> str | bytes:  # noqa: A002
        """Return a report in a format of `Diff.report`.

        Raises:
            UnknownNameError: no format has this name.
        """
        from replaydiff.cases.check.outcome import document_text
        from replaydiff.cases.check.render import render_check
        from replaydiff.reports.registry import render

        if self.checked is None:
            return "no case was selected"
        if format == "terminal":
            return render_check(self.checked, width, verbose=verbose)
        return (
            document_text(self.checked)
            if format == "json"
            else render(self.checked.result, format, width=width)
        )

    def save(self, path: str | Path, format: str) -> Path:  # noqa: A002
        """Write a report in a format of `report`; return the path.

        Raises:
            InputError: the file cannot be written.
        """
        from replaydiff.replay.files import check_target, write_whole

        check_target(Path(path))
        content = self.report(format)
        if isinstance(content, str) and format == "terminal":
            content += "\n"
        write_whole(Path(path), content)
        return Path(path)

    def __repr__(self) -> str:
        if self.checked is None:
            return "Check(no case was selected)"
        counts = self.checked.counts
        return f"Check({self.checked.result.run.id!r}: {counts.passed} of {counts.items} cases passed)"
