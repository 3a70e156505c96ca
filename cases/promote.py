"""An item and a decision → a case: what it expects is proposed from what is known, and said."""

from __future__ import annotations

import getpass
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from replaydiff.diff.result import ItemVerdict, Verdict
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import (
    CORRECTION,
    Case,
    Expectation,
    ExpectedCall,
    Item,
    Json,
    Lane,
    Match,
    Provenance,
    Rule,
    Run,
    Status,
    ToolCall,
    Trial,
)

RECORDING = "recording"
BETTER = "better"
"""The lane that did better, as far as the run tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A case, and where its expectation was taken from."""

    case: Case
    expected_from: str
    """`recording`, `old` or `new`."""


def better(item: ItemVerdict) -> str:
    """Whose tool calls are proposed for an item: the new lane's where it improved; where it regressed the old
    one's, if that did not do as recorded; else the recording."""
    if item.verdict is Verdict.IMPROVED:
        return Lane.NEW.value
    if item.verdict is Verdict.REGRESSED:
        good = [one.trial for one in item.lanes.get(Lane.OLD, ()) if one.trial.status is Status.OK]
        made = [(one.call.name, one.call.args) for one in good[0].served] if good else None
        if made is not None and made != [(call.name, call.args) for call in item.item.tape]:
            return Lane.OLD.value
    return RECORDING


def propose(
    item: Item,
    *,
    case_id: str,
    reviewer: str,
    at: datetime,
    run: Run | None = None,
    trials: tuple[Trial, ...] = (),
    expect: str = RECORDING,
    traits: tuple[str, ...] = (),
    tags: tuple[str, ...] = (),
) -> Proposal:
    """The case an item would become.

    The expectation is the recording unless the person names a lane: what the new version did is never taken
    silently. Where somebody wrote down what the response should have been, that is the expected answer. The
    tape is the recording and, for a lane, the answers that lane got.

    Raises:
        InputError: the lane has no trial that ended `ok`.
    """
    calls: tuple[ToolCall, ...] = item.tape
    tape = item.tape
    if expect != RECORDING:
        good = [trial for trial in trials if trial.lane.value == expect and trial.status is Status.OK]
        if not good:
            raise InputError(
                f"item {item.id!r} has no trial of lane {expect} that ended ok; "
                "leave --expect out to take the recording"
            )
        served = good[0].served
        calls = tuple(one.call for one in served)
        # What was answered from elsewhere than the recording, the case must be able to answer, too.
        tape += tuple(one.call for one in served if one.rule not in (Rule.TAPE, Rule.MISS))
    corrected = item.metadata.get(CORRECTION)
    answer = corrected if isinstance(corrected, str) and corrected else None
    expectation = Expectation(
        tool_calls=tuple(ExpectedCall(name=call.name, args=call.args) for call in calls),
        match=item.expectation.match if item.expectation else Match(),
        response_traits=traits,
        answer=answer,
        tolerance="semantic_similar" if answer else None,
    )
    provenance = Provenance(
        source="replay promote",
        trace_id=item.trace_id,
        sample=run.sample if run else None,
        run=run.id if run else None,
        old=_version(run, Lane.OLD),
        new=_version(run, Lane.NEW),
        reviewer=reviewer,
        promoted_at=at.replace(microsecond=0),
        last_reviewed=at.date().isoformat(),
    )
    case = Case(
        id=case_id,
        input=item.input,
        messages=item.messages if len([m for m in item.messages if m.role != "system"]) > 1 else (),
        expectation=expectation,
        tape=tape,
        tags=tags,
        provenance=provenance,
    )
    return Proposal(case=case, expected_from=expect)


def person(folder: Path) -> str:
    """Git's user of that folder, `Name <address>`, else the login name."""
    found = []
    for key in ("user.name", "user.email"):
        done = subprocess.run(
            ["git", "-C", str(folder), "config", key], capture_output=True, text=True, check=False
        )
        found.append(done.stdout.strip())
    name, address = found
    return f"{name} <{address}>" if name and address else name or address or getpass.getuser()


def now() -> datetime:
    """Now, naive UTC."""
    return datetime.now(UTC).replace(tzinfo=None)


def _version(run: Run | None, lane: Lane) -> Json:
    version = run.lanes.get(lane) if run else None
    if version is None:
        return None
    known: dict[str, Json] = {"name": version.name, "commit": version.commit, "model": version.model}
    return {key: value for key, value in known.items() if value is not None}
