"""`replay promote`."""

from __future__ import annotations

from pathlib import Path

import click

from replay.options import App, command, json_option, print_json


@command("promote")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--run", "run_id", metavar="RUN", help="The run the items are from; default the latest.")
@click.option(
    "--expect",
    type=click.Choice(["recording", "old", "new"]),
    default="recording",
    show_default=True,
    help="Whose tool calls the case expects.",
)
@click.option("--trait", "traits", multiple=True, metavar="TEXT", help="What the response must show.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag of the case.")
@click.option("--id", "case_id", metavar="CASE", help="The case's id, for a single item.")
@click.option(
    "--cases", "path", type=click.Path(dir_okay=False, path_type=Path), help="Default [cases] path."
)
@click.option("--force", is_flag=True, help="Add a case whose input and expectation are there already.")
@json_option
def promote(
    app: App,
    ids: tuple[str, ...],
    run_id: str | None,
    expect: str,
    traits: tuple[str, ...],
    tags: tuple[str, ...],
    case_id: str | None,
    path: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Turn items into cases of the golden set.

    An ID is an item of the run, or any trace in the store. The case expects what was recorded; what the new
    version did counts only with --expect new. Where the trace came with a person's correction of its answer,
    that is the expected answer. The case carries its tape and where it came from.

    \b
    Example:
      replay promote 3f9a21 --run 20261120-221305-ab12 --trait "asks before it cancels"
    """
    from cases.desk import Desk
    from cases.golden import free_id
    from cases.items import find_item
    from cases.promote import now, person, propose
    from replay.errors import InputError
    from replay.store.connection import open_store

    if case_id is not None and len(ids) > 1:
        raise InputError("--id names one case, and several items were given; promote them one by one")
    golden = path or app.settings.golden_path
    reviewer = person(app.settings.root)
    with open_store(app.store_path, read_only=True) as con:
        found = [find_item(con, name, run_id) for name in dict.fromkeys(ids)]
    for one in found:
        if expect != "recording" and one.run is None:
            raise InputError(f"--expect {expect} needs a run; name it with --run")
    proposals = [
        propose(
            one.item,
            case_id=case_id or free_id(golden, one.item.id),
            reviewer=reviewer,
            at=now(),
            run=one.run,
            trials=one.trials,
            expect=expect,
            traits=traits,
            tags=tags,
        )
        for one in found
    ]
    promoted = [(one.item, proposal.case) for one, proposal in zip(found, proposals, strict=True)]
    Desk(app.store_path, golden, reviewer).promote(promoted, force=force)
    if as_json:
        done = [{"case": p.case.id, "expected_from": p.expected_from} for p in proposals]
        print_json({"cases": str(golden), "promoted": done})
        return
    for proposal in proposals:
        calls = proposal.case.expectation.tool_calls or ()
        path_text = " > ".join(call.name for call in calls) or "no call"
        corrected = ", and the corrected answer" if proposal.case.expectation.answer else ""
        origin = f"from the {proposal.expected_from}"
        click.echo(f"promoted {proposal.case.id}: expects {path_text} ({origin}){corrected}")
    click.echo(f"next: git diff {golden}, then replay check")
