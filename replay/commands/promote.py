"""`replay promote`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaydiff.replay.errors import SettingsError
from replaydiff.replay.options import App, command, json_option, print_json, say

if TYPE_CHECKING:
    from replaydiff.cases.items import Found
    from replaydiff.cases.promote import Proposal
    from replaydiff.diff.judge.judge import Judge


@command("promote")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--run", "run_id", metavar="RUN", help="The run the items are from; default the latest.")
@click.option(
    "--expect",
    type=click.Choice(["recording", "old", "new", "better"]),
    default="recording",
    show_default=True,
    help="Whose tool calls the case expects; better: those of the lane that did better.",
)
@click.option("--trait", "traits", multiple=True, metavar="TEXT", help="What the response must show.")
@click.option(
    "--draft-traits",
    is_flag=True,
    help="Have the judge's model draft traits; they count once a person moves them to the expected ones.",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag of the case.")
@click.option("--id", "case_id", metavar="CASE", help="The case's id, for a single item.")
@click.option(
    "--cases", "path", type=click.Path(dir_okay=False, path_type=Path), help="Default [cases] path."
)
@click.option("--force", is_flag=True, help="Add a case although one like it is there already.")
@json_option
def promote(
    app: App,
    ids: tuple[str, ...],
    run_id: str | None,
    expect: str,
    traits: tuple[str, ...],
    draft_traits: bool,
    tags: tuple[str, ...],
    case_id: str | None,
    path: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Turn items into cases of the golden set.

    An ID is an item of the run, or any trace in the store. The case expects what was recorded; what the new
    version did counts only with --expect new or better. Where the trace came with a person's correction of
    its answer, that is the expected answer. The case carries its tape and where it came from. Where a case
    asks almost the same and expects the same tools, it is named and nothing is added; --force adds it.

    \b
    Example:
      replay promote 3f9a21 --run 20261120-221305-ab12 --trait "asks before it cancels"
    """
    from replaydiff.cases.desk import Desk
    from replaydiff.cases.drafting import drafts_of
    from replaydiff.cases.golden import free_id
    from replaydiff.cases.items import better_of, find_item
    from replaydiff.cases.promote import BETTER, now, person, propose
    from replaydiff.replay.errors import InputError
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.terminal.plain import one_line
    from replaydiff.replay.terminal.table import show

    if case_id is not None and len(ids) > 1:
        raise InputError("--id names one case, and several items were given; promote them one by one")
    golden = path or app.settings.golden_path
    reviewer = person(app.settings.root)
    with open_store(app.store_path, read_only=True) as con:
        found = [find_item(con, name, run_id) for name in dict.fromkeys(ids)]
        sides = [better_of(con, one, app.settings) if expect == BETTER else expect for one in found]
    for one in found:
        if expect != "recording" and one.run is None:
            raise InputError(f"--expect {expect} needs a run; name it with --run")
    judge = _judge(app) if draft_traits else None
    proposals = [
        propose(
            one.item,
            case_id=case_id or free_id(golden, one.item.id),
            reviewer=reviewer,
            at=now(),
            run=one.run,
            trials=one.trials,
            expect=side,
            traits=traits,
            tags=tags,
        )
        for one, side in zip(found, sides, strict=True)
    ]
    if judge is not None:
        proposals = [_drafted(judge, one, proposal) for one, proposal in zip(found, proposals, strict=True)]
    promoted = [(one.item, proposal.case) for one, proposal in zip(found, proposals, strict=True)]
    Desk(app.store_path, golden, reviewer).promote(promoted, force=force)
    if as_json:
        done = [
            {"case": p.case.id, "expected_from": p.expected_from, "draft_traits": list(drafts_of(p.case))}
            for p in proposals
        ]
        print_json({"cases": str(golden), "promoted": done})
        return
    for proposal in proposals:
        calls = proposal.case.expectation.tool_calls or ()
        path_text = " > ".join(call.name for call in calls) or "no call"
        corrected = ", and the corrected answer" if proposal.case.expectation.answer else ""
        origin = f"from the {proposal.expected_from}"
        click.echo(f"promoted {proposal.case.id}: expects {path_text} ({origin}){corrected}")
        for draft in drafts_of(proposal.case):
            show(f"  draft: {one_line(draft)}")
    if judge is not None:
        click.echo("drafts count for nothing: move those that hold to expected_response_traits")
    click.echo(f"next: git diff {golden}, then replay check")


def _judge(app: App) -> Judge:
    from replaydiff.diff.judge.judge import judge_from

    judge = judge_from(app.settings)
    if judge is None:
        raise SettingsError("--draft-traits asks the judge's model; name one as `model` in [judge]")
    return judge


def _drafted(judge: Judge, found: Found, proposal: Proposal) -> Proposal:
    from replaydiff.cases.drafting import draft, with_drafts

    drafts = draft(judge, found.item, found.trials, proposal.expected_from)
    cost = "" if drafts.cost_usd is None else f" for ${drafts.cost_usd:.4f}"
    say(f"{judge.model} drafted {len(drafts.traits)} traits of {found.item.id}{cost}")
    return replace(proposal, case=with_drafts(proposal.case, drafts.traits))
