"""`replay accept` and `replay reject`: decisions on causes."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from replaydiff.replay.api.options import RunOptions
from replaydiff.replay.commands.options import App, candidate_option, command, json_option, print_json
from replaydiff.replay.commands.run import run_options
from replaydiff.replay.errors import InputError
from replaydiff.replay.terminal.text import show, single_line

if TYPE_CHECKING:
    from replaydiff.replay.api.review import CauseReview


def _decision_options(promote_help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the options of both commands."""

    def declared(function: Callable[..., Any]) -> Callable[..., Any]:
        options = (
            click.argument("causes", nargs=-1, required=True, metavar="CAUSE..."),
            click.option(
                "--run", metavar="RUN", help="The run that shows them; default the latest comparison."
            ),
            candidate_option,
            click.option("--promote", is_flag=True, help=promote_help),
            click.option(
                "--all",
                "everything",
                is_flag=True,
                help="With --promote: every item that shows the cause, not only its examples.",
            ),
            click.option("--undo", is_flag=True, help="Take an earlier decision back."),
            json_option,
        )
        for option in reversed(options):
            function = option(function)
        return function

    return declared


@command("accept")
@_decision_options("Add the example items as cases that expect what the new version does.")
@click.option(
    "--rerun",
    is_flag=True,
    help="With --promote: run the new version again on items that it was stopped in. Other traces answer "
    "what was never recorded.",
)
@click.option(
    "--result",
    "results",
    multiple=True,
    metavar="TOOL=VALUE",
    help="The same, with what a tool answers to calls that were never recorded: JSON, else text. Repeatable.",
)
@run_options("budget", "no_boundary")
def accept(
    app: App,
    /,
    options: RunOptions,
    causes: tuple[str, ...],
    results: tuple[str, ...],
    **decision: Any,
) -> None:
    """Accept causes as intended, and answer again.

    CAUSE is an id that `replay diff` shows, or a unique beginning of it. An accepted cause no longer
    counts: an item whose every change is accepted is unchanged on the metrics of its tool calls.

    The decision is kept in `causes.jsonl` beside the golden set, with your name and the time: commit it,
    and it counts for later runs, too.

    \b
    Examples:
      replay accept c3f9a21b0
      replay accept c3f9a21b0 --run 20261120-221305-ab12 --promote
      replay accept c3f9a21b0 --promote --all --rerun
      replay accept c3f9a21b0 --promote --result 'search_kb={"articles": []}'
    """
    review = app.project.accept(*causes, results=_results(results), **decision, **options)
    _show(app, review)


@command("reject")
@_decision_options("Add the example items as cases that expect what was recorded.")
def reject(app: App, /, causes: tuple[str, ...], **decision: Any) -> None:
    """Reject causes as regressions, and answer again.

    CAUSE is an id that `replay diff` shows, or a unique beginning of it. A rejected cause is a
    regression: the answer is HOLD for as long as a run shows it.

    The decision is kept in `causes.jsonl` beside the golden set, with your name and the time: commit it,
    and it counts for later runs, too.

    \b
    Examples:
      replay reject c3f9a21b0
      replay reject c3f9a21b0 --run 20261120-221305-ab12 --promote
    """
    _show(app, app.project.reject(*causes, **decision))


def _results(texts: tuple[str, ...]) -> dict[str, Any]:
    """Return the hand-written results by tool."""
    results: dict[str, Any] = {}
    for text in texts:
        tool, equals, value = text.partition("=")
        if not tool or not equals:
            raise InputError(f"--result {text!r} names no tool", hint="write it as TOOL=VALUE")
        try:
            results[tool] = json.loads(value)
        except ValueError:
            results[tool] = value
    return results


def _show(app: App, review: CauseReview) -> None:
    """Print what was decided about causes, and the answer that follows."""
    diff = review.diff
    promoted = [promotion.case.id for promotion in review.promoted]
    if app.as_json:
        document = diff.to_dict()
        chosen = {cause.id for cause in review.causes}
        print_json(
            {
                **{key: document[key] for key in ("answer", "reason", "next")},
                "run": diff.run_id,
                "causes": [cause for cause in document["causes"] if cause["id"] in chosen],
                "promoted": promoted,
                "not_promoted": [{"id": item, "reason": reason} for item, reason in review.not_promoted],
                "file": str(review.path),
            }
        )
        return
    for cause in review.causes:
        show(f"{cause.state} {cause.id}: {single_line(cause.text)} ({cause.counts})")
    for case in promoted:
        show(f"promoted {single_line(case)}")
    for item, reason in review.not_promoted:
        show(f"not promoted {single_line(item)}: {single_line(reason)}")
    if review.not_promoted and review.unfinished:
        show(
            f"stopped at a call that was never recorded: {', '.join(map(single_line, review.unfinished))}; "
            "`replay accept --promote` completes them with --rerun (--set run.on_miss=simulate) or --result"
        )
    if not promoted and (items := [example.item for cause in review.causes for example in cause.examples]):
        show(f"items that show it: {', '.join(single_line(item) for item in dict.fromkeys(items))}")
    show(f"{diff.answer}: {single_line(diff.reason)}")
    file = shlex.quote(os.path.relpath(review.path))
    show(f"next: git add {file}; {single_line(diff.next)}")
