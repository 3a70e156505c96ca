"""What a bisection found: as a value, a JSON document, a text and Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from replaydiff.replay.errors import ExitCode, InputError
from replaydiff.replay.files import write_whole
from replaydiff.replay.terminal.text import Column, single_line, table

SCHEMA = "replaydiff.bisect/1"
_BAR = 10
"""Columns of a full bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedCommit:
    """A commit of the history, and what was seen at it."""

    __test__ = False
    commit: str
    subject: str
    trials: int
    failures: int
    probability: float
    """Of having made the change."""
    skipped: str | None = None
    """Why it could not be tested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedHunk:
    """A hunk of the commit that was found."""

    __test__ = False
    file: str
    lines: str
    reproduces: bool
    """Whether it belongs to the smallest set of hunks that reproduces the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedSetting:
    """A setting that differs between the good and the bad version."""

    __test__ = False
    name: str
    """`args.model`, `env.NAME`."""
    good: str | None
    """Its value as JSON; None where it is not set. The values of environment variables are not shown."""
    bad: str | None
    reproduces: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectResult:
    """Which commit made the items worse, how sure that is, and which of its hunks or settings did."""

    run: str
    """The run that holds every trial."""
    commit: str | None
    confidence: float
    reason: str
    trials: int
    cost_usd: float | None
    metric: str
    history: tuple[TestedCommit, ...]
    """Oldest first; the first one is the good revision."""
    hunks: tuple[TestedHunk, ...] | None = None
    settings: tuple[TestedSetting, ...] | None = None
    finished: bool = True
    """False where the budget or the limit of trials stopped the search."""

    @property
    def exit_code(self) -> ExitCode:
        """Return 0 where a commit or setting was found, else 4."""
        has_culprit = self.commit is not None or any(setting.reproduces for setting in self.settings or ())
        return ExitCode.OK if has_culprit else ExitCode.CANNOT_TELL

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document, `replaydiff.bisect/1`."""
        return {
            "schema": SCHEMA,
            "commit": self.commit,
            "confidence": round(self.confidence, 6),
            "reason": self.reason,
            "trials": self.trials,
            "cost_usd": self.cost_usd,
            "metric": self.metric,
            "history": [
                asdict(commit) | {"probability": round(commit.probability, 6)} for commit in self.history
            ],
            "hunks": None if self.hunks is None else [*map(asdict, self.hunks)],
            "settings": None if self.settings is None else [*map(asdict, self.settings)],
        }

    def to_text(self, width: int = 100) -> str:
        """Return the report for a terminal of so many columns."""
        columns = [
            Column("commit"),
            Column("failed", right=True),
            Column("", least=_BAR),
            Column("probability", right=True),
            Column("subject", grows=True, least=12),
        ]
        rows = [
            (commit.commit[:12], counts, _bar(commit), share, shown)
            for commit, counts, share, shown in self._rows()
        ]
        parts = [self.headline(), "", table(columns, rows, width)]
        for title, listed in self._details():
            parts += ["", title, *(f"  {line}" for line in listed)]
        cost = "" if self.cost_usd is None else f", ${self.cost_usd:.2f}"
        parts += ["", f"{self.trials} trials{cost}; metric {self.metric}; run {self.run}"]
        return "\n".join(parts)

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        lines = [f"**{_escaped(self.headline())}**", ""]
        lines += ["| commit | failed | probability | subject |", "| --- | ---: | ---: | --- |"]
        for commit, counts, share, shown in self._rows():
            subject = _escaped(single_line(shown, 200))
            lines.append(f"| `{commit.commit[:12]}` | {counts} | {share} | {subject} |")
        for title, listed in self._details():
            lines += ["", _escaped(title), "", *(f"- {_escaped(line)}" for line in listed)]
        lines += ["", f"{self.trials} trials; metric `{self.metric}`."]
        return "\n".join(lines) + "\n"

    def _rows(self) -> Iterator[tuple[TestedCommit, str, str, str]]:
        """Yield each commit with how many trials failed, its probability and its subject, in words."""
        for number, commit in enumerate(self.history):
            yield (
                commit,
                f"{commit.failures} of {commit.trials}" if commit.trials else "-",
                _percent(commit.probability) if number else "-",
                commit.subject if commit.skipped is None else f"skipped: {commit.skipped}",
            )

    def headline(self) -> str:
        """Return what was found, in one sentence."""
        reproducing = [setting.name for setting in self.settings or () if setting.reproduces]
        if self.commit is None and reproducing:
            return f"{', '.join(reproducing)} made the change ({self.reason})"
        if self.commit is None:
            return f"CAN'T TELL: {self.reason}"
        subject = next(setting.subject for setting in self.history if setting.commit == self.commit)
        share = _percent(self.confidence)
        commit = f'{self.commit[:12]} "{single_line(subject, 72)}"'
        return f"{commit} made the change ({share} certain): {self.reason}"

    def save(self, path: str | Path) -> None:
        """Write the report to a file; `.json`, `.md` or `.txt` says in which format.

        Raises:
            InputError: the name ends otherwise, or the file cannot be written.
        """
        target = Path(path)
        if target.suffix == ".json":
            content = json.dumps(self.to_dict(), ensure_ascii=False, indent=1, allow_nan=False) + "\n"
        elif target.suffix == ".md":
            content = self.to_markdown()
        elif target.suffix == ".txt":
            content = self.to_text() + "\n"
        else:
            raise InputError(f"{target} names no format", hint="end its name in .json, .md or .txt")
        write_whole(target, content)

    def _details(self) -> list[tuple[str, list[str]]]:
        details = []
        if self.hunks is not None:
            named = [f"{single_line(hunk.file)}:{hunk.lines}" for hunk in self.hunks if hunk.reproduces]
            together = "reproduces" if len(named) == 1 else "together reproduce"
            title = f"{len(named)} of its {len(self.hunks)} hunks {together} the change:"
            details.append((title, named) if named else ("No set of its hunks is known to reproduce it.", []))
        if self.settings is not None:
            lines = [
                f"{single_line(hunk.name)}: {single_line(hunk.good or '-', 60)}"
                f" → {single_line(hunk.bad or '-', 60)}"
                + ("  reproduces the change" if hunk.reproduces else "")
                for hunk in self.settings
            ]
            details.append(("Settings that differ:", lines))
        return details


def _percent(share: float) -> str:
    return ">99.9%" if share > 0.999 else "<0.1%" if 0 < share < 0.001 else f"{share:.1%}"


def _bar(commit: TestedCommit) -> str:
    if not commit.trials:
        return ""
    return "●" * round(_BAR * commit.failures / commit.trials)


def _escaped(text: str) -> str:
    """Return text that Markdown and HTML show as it is."""
    for sign in "\\`*_[]|#~":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("@", "@\u200b")
