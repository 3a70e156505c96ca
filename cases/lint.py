"""What is wrong with a golden set, and what makes it less worth than it looks.

errors    a line that is no case · an id or a content that comes twice · one input with two expectations
warnings  nothing is expected · the tape cannot answer an expected call · near-duplicates · never reviewed, or
          not for long · quarantined without an owner · keys that nothing reads
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path

from replay.align import same
from replay.errors import InputError
from replay.golden import content_id, each_case
from replay.model import Case, Expectation, ExpectedCall

STALE_DAYS = 180
QUARANTINE = "quarantine"
"""Cases with this tag are known to be unreliable; someone should own them."""
_ALIKE = 0.95
_READ_ELSEWHERE = {"x", "notes", "comment", "description"}
"""Keys people write for each other."""


class Level(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing about one case."""

    level: Level
    line: int
    case: str | None
    """Its id; None where the line could not be read."""
    text: str


def lint(path: Path, today: date, stale_days: int = STALE_DAYS) -> list[Finding]:
    """Everything there is to say about a golden set, by line.

    Raises:
        InputError: the file cannot be read as a whole.
    """
    findings: list[Finding] = []
    read: list[tuple[int, Case]] = []
    for line, found in each_case(path):
        if isinstance(found, InputError):
            text = str(found).removeprefix(f"{path}:{line}: ")
            findings.append(Finding(level=Level.ERROR, line=line, case=None, text=text))
        else:
            read.append((line, found))
    findings += _twice(read)
    for line, case in read:
        findings += [
            Finding(level=Level.WARNING, line=line, case=case.id, text=text)
            for text in _about(case, today, stale_days)
        ]
    findings += _alike(read)
    return sorted(findings, key=lambda finding: (finding.line, finding.level))


def _twice(read: Sequence[tuple[int, Case]]) -> Iterator[Finding]:
    ids: dict[str, int] = {}
    contents: dict[str, int] = {}
    inputs: dict[str, tuple[int, Expectation]] = {}
    for line, case in read:
        said = (
            f"id {case.id!r} is already that of line {ids[case.id]}; rename one" if case.id in ids else None
        )
        content, asked = content_id(case), repr((case.input, [m.text for m in case.messages]))
        if said is None and content in contents:
            said = f"the same input and expectation as line {contents[content]}; remove one"
        elif asked in inputs and inputs[asked][1] != case.expectation:
            said = f"the same input as line {inputs[asked][0]} with another expectation; decide which holds"
        if said:
            yield Finding(level=Level.ERROR, line=line, case=case.id, text=said)
        ids.setdefault(case.id, line)
        contents.setdefault(content, line)
        inputs.setdefault(asked, (line, case.expectation))


def _about(case: Case, today: date, stale_days: int) -> Iterator[str]:
    expected = case.expectation
    if expected == Expectation(match=expected.match, extra=expected.extra):
        yield "nothing is expected, so it always passes; say expected_tool_calls, traits or an answer"
    for call in expected.tool_calls or ():
        if not _answered(call, case):
            yield (
                f"the tape has no answer for the expected call of {call.name}, so an agent that makes it "
                "diverges; promote the trace again, or mend the tape"
            )
            break
    reviewed = case.provenance.last_reviewed
    if reviewed is not None:
        try:
            age = today - date.fromisoformat(reviewed[:10])
        except ValueError:
            yield f"metadata.last_reviewed is no date: {reviewed[:20]!r}; write it as 2026-11-20"
        else:
            if age > timedelta(days=stale_days):
                yield f"not reviewed for {age.days} days; look at it, and set metadata.last_reviewed"
    if QUARANTINE in case.tags and not case.provenance.owner:
        yield "quarantined without an owner; set metadata.owner"
    unread = sorted(expected.extra.keys() - _READ_ELSEWHERE)
    if unread:
        yield f"nothing reads {', '.join(unread[:5])}; is a key misspelt?"


def _answered(call: ExpectedCall, case: Case) -> bool:
    return any(
        taped.name == call.name
        and taped.answered
        and all(
            key in taped.args and same(taped.args[key], value) for key, value in (call.args or {}).items()
        )
        for taped in case.tape
    )


def _alike(read: Sequence[tuple[int, Case]]) -> Iterator[Finding]:
    from cases.similarity import groups, vectors

    leaders = groups(vectors([case.input for _, case in read]), _ALIKE)
    for index, leader in enumerate(leaders):
        (line, case), (other, first) = read[index], read[leader]
        if leader != index and case.input != first.input:
            text = f"asks almost the same as {first.id!r} on line {other}; one may be enough"
            yield Finding(level=Level.WARNING, line=line, case=case.id, text=text)
