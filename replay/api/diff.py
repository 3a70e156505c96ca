"""The result of a diff: as values, a JSON document, a table, a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replaydiff.replay.errors import ExitCode, InputError, UnknownNameError, worst_exit
from replaydiff.replay.model import Lane
from replaydiff.replay.store.connection import open_store

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from replaydiff.diff.result import Cause
    from replaydiff.diff.result import DiffResult as DiffResult
    from replaydiff.replay.settings import Settings


class Diff:
    """What changed between the lanes of a run, and whether to ship."""

    def __init__(self, result: DiffResult) -> None:
        self.result = result
        """Everything that was computed."""
        self.answer = result.answer.value
        """`SHIP`, `HOLD` or `CAN'T TELL`."""
        self.reason = result.reason
        """The reason of the answer, in a sentence."""
        self.next = result.next
        """The next command to type."""
        self.run_id = result.run.id
        """The run it was computed from."""
        self.metrics = result.metrics
        """Metric → its means, the change with its interval, and the counts of items."""
        self.causes = result.causes
        """The ways in which the new version acts differently, with counts: rejected, then open ones."""
        self.items = result.items
        """The items with their verdicts: regressed first."""
        self.lanes = result.lanes
        """How each lane ran."""
        self.gate = result.gate
        """The gate's conditions, and whether it passed."""
        self.warnings = result.warnings
        """The warnings as sentences, the most serious first."""

    def cause(self, name: str) -> Cause:
        """Return the cause of this id, or of a unique beginning of it.

        Raises:
            UnknownNameError: the run has no such cause.
        """
        matches = [cause for cause in self.causes if name and cause.id.startswith(name)]
        if len(matches) != 1:
            run, hint = f"run {self.run_id}", "" if self.causes else "it shows none"
            raise UnknownNameError("cause", name, [cause.id for cause in self.causes], hint, where=run)
        return matches[0]

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code of `replay diff`."""
        from replaydiff.diff.gate import exit_code

        return worst_exit(
            [exit_code(self.result.gate), ExitCode.PARTIAL if self.result.errors else ExitCode.OK]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document (schema `replaydiff.diff/1`)."""
        from replaydiff.diff.document import to_json

        return to_json(self.result)

    def json_parts(self, *, is_bounded: bool = False) -> Iterator[str]:
        """Yield the JSON document as text, part by part, so that one of any size fits into memory.

        Args:
            is_bounded: whether, of more than 10,000 cases, unchanged ones are counted in `cases_left_out`
                and not listed.
        """
        from replaydiff.diff.document import json_parts
        from replaydiff.replay.model.json import json_text

        return json_parts(self.result, json_text, is_bounded=is_bounded)

    def report(self, format: str = "terminal", *, width: int = 100) -> str | bytes:  # noqa: A002
        """Return a report in a format: terminal, markdown, json, csv, parquet, junit, html, or a plugin's.

        Raises:
            UnknownNameError: no format has this name.
        """
        from replaydiff.reports.registry import render

        return render(self.result, format, width=width)

    def save(self, path: str | Path, format: str | None = None, *, width: int = 100) -> Path:  # noqa: A002
        """Write a report; the file's suffix chooses the format unless one is named. Return the path.

        Raises:
            InputError: the suffix belongs to no format, or the file cannot be written.
        """
        from replaydiff.replay.files import check_target, write_whole
        from replaydiff.reports.registry import format_of, parts

        target = Path(path)
        check_target(target)
        name = format or format_of(target)
        write_whole(target, parts(self.result, name, width=width))
        return target

    def to_arrow(self) -> pyarrow.Table:
        """Return the items as an Arrow table, one row each (requires pyarrow).

        Raises:
            InputError: pyarrow is not installed.
        """
        import io

        try:
            import pyarrow.parquet
        except ImportError:
            raise InputError("to_arrow requires pyarrow; install it with `pip install pyarrow`") from None
        content = self.report("parquet")
        assert isinstance(content, bytes)  # noqa: S101 - Parquet is bytes
        return pyarrow.parquet.read_table(io.BytesIO(content))

    def to_pandas(self) -> pandas.DataFrame:
        """Return the items as a data frame, one row each (requires pandas and pyarrow).

        Raises:
            InputError: pandas or pyarrow is not installed.
        """
        table = self.to_arrow()
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise InputError("to_pandas requires pandas; install it with `pip install pandas`") from None
        frame: pandas.DataFrame = table.to_pandas()
        return frame

    def _repr_html_(self) -> str:
        from replaydiff.reports.notebook import notebook_html

        return notebook_html(self.result)

    def __repr__(self) -> str:
        return f"Diff({self.run_id!r}: {self.answer}, {self.reason})"


def diff_of(
    store: Path,
    settings: Settings,
    run: str | None,
    *,
    metrics: Sequence[str] = (),
    gate: Sequence[str] = (),
    lane: str | None = None,
    compared: bool = False,
) -> Diff:
    """Compute what changed in a run of a store; see `Project.diff`, and `chosen_run` for `compared`."""
    from replaydiff.diff.compute import compute
    from replaydiff.diff.gate import check_form
    from replaydiff.replay.store.runs import EXPERIMENT, chosen_run

    check_form(gate)
    candidate = None if lane is None else Lane.parse(lane)
    with open_store(store, read_only=True) as con:
        chosen = chosen_run(con, run, compared=compared)
        if EXPERIMENT in chosen.settings:
            from replaydiff.replay.fork.forks import refuse_fork

            refuse_fork(chosen)
        metric_names, conditions = tuple(metrics), tuple(gate) or None
        return Diff(
            compute(con, chosen.id, settings, metrics=metric_names, gate=conditions, candidate=candidate)
        )


def require_graders(settings: Settings) -> None:
    """Load the graders that the settings name, which every diff calls.

    Raises:
        SettingsError: one cannot be loaded.
        UntrustedError: the user has not trusted the folder.
    """
    from replaydiff.diff.graders.registry import require

    require(settings)
