"""Triage from a program: promote items to cases, dismiss them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from replaydiff.replay.clock import utc_now
from replaydiff.replay.errors import InputError, SettingsError
from replaydiff.replay.settings import Settings

if TYPE_CHECKING:
    from replaydiff.cases.promote import FoundItem, Proposal
    from replaydiff.diff.judge.judge import Judge
    from replaydiff.replay.model import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A case that was added to the golden set."""

    case: Case
    expected_from: str
    """`recording`, `old` or `new`."""
    drafts: tuple[str, ...] = ()
    """Traits that a model drafted; they count once a person moves them to the expected ones."""


def promote(
    store: Path,
    settings: Settings,
    ids: Sequence[str],
    message: Callable[[str], None],
    *,
    run_id: str | None,
    golden: Path,
    expect: str,
    traits: tuple[str, ...],
    draft_traits: bool,
    tags: tuple[str, ...],
    case_id: str | None,
    force: bool,
) -> list[Promotion]:
    """Turn items into cases of the golden set, all or none.

    Raises:
        InputError: an item is not there, or a case of that id is there already.
        DuplicateError: a case like it is there already (without `force`).
    """
    from replaydiff.cases.drafting import drafts_of
    from replaydiff.cases.golden import free_id
    from replaydiff.cases.promote import BETTER, better_lane_of, find_item, person, propose
    from replaydiff.cases.triage.decisions import Decisions
    from replaydiff.replay.store.connection import open_store

    if case_id is not None and len(ids) > 1:
        raise InputError("--id names one case, and several items were given; promote them one by one")
    reviewer = person(settings.root)
    with open_store(store, read_only=True) as con:
        found = [find_item(con, name, run_id) for name in dict.fromkeys(ids)]
        sides = [better_lane_of(con, one, settings) if expect == BETTER else expect for one in found]
    for one in found:
        if expect != "recording" and one.run is None:
            raise InputError(f"--expect {expect} needs a run; name it with --run")
    judge = _judge(settings) if draft_traits else None
    proposals = [
        propose(
            one.item,
            case_id=case_id or free_id(golden, one.item.id),
            reviewer=reviewer,
            at=utc_now(),
            run=one.run,
            trials=one.trials,
            expect=side,
            traits=traits,
            tags=tags,
        )
        for one, side in zip(found, sides, strict=True)
    ]
    if judge is not None:
        proposals = [
            _with_drafts(judge, one, proposal, message)
            for one, proposal in zip(found, proposals, strict=True)
        ]
    promoted = [(one.item, proposal.case) for one, proposal in zip(found, proposals, strict=True)]
    Decisions(store, golden, reviewer).promote(promoted, force=force)
    return [
        Promotion(case=one.case, expected_from=one.expected_from, drafts=tuple(drafts_of(one.case)))
        for one in proposals
    ]


def dismiss(
    store: Path, settings: Settings, ids: Sequence[str], *, reason: str, run_id: str | None
) -> list[str]:
    """Set items aside, with a reason; return their ids.

    Raises:
        InputError: an item is not there.
    """
    from replaydiff.cases.promote import find_item, person
    from replaydiff.cases.triage.decisions import Decisions
    from replaydiff.replay.store.connection import open_store

    with open_store(store, read_only=True) as con:
        found = [find_item(con, name, run_id) for name in dict.fromkeys(ids)]
    desk = Decisions(store, settings.golden_path, person(settings.root))
    for one in found:
        desk.dismiss([one.item], one.run.id if one.run else None, reason)
    return [one.item.id for one in found]


def _judge(settings: Settings) -> Judge:
    from replaydiff.diff.judge.judge import judge_from

    judge = judge_from(settings)
    if judge is None:
        raise SettingsError("--draft-traits asks the judge's model; name one as `model` in [judge]")
    return judge


def _with_drafts(
    judge: Judge, found: FoundItem, proposal: Proposal, message: Callable[[str], None]
) -> Proposal:
    from replaydiff.cases.drafting import draft, with_drafts

    drafts = draft(judge, found.item, found.trials, proposal.expected_from)
    cost = "" if drafts.cost_usd is None else f" for ${drafts.cost_usd:.4f}"
    message(f"{judge.model} drafted {len(drafts.traits)} traits of {found.item.id}{cost}")
    return replace(proposal, case=with_drafts(proposal.case, drafts.traits))
