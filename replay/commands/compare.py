"""`replay compare`."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaydiff.replay.commands import replaying, telling
from replaydiff.replay.commands.replaying import GOLDEN, Asked, run_options
from replaydiff.replay.commands.sample import LATEST, draw_as_asked
from replaydiff.replay.errors import ExitCode, InputError, SettingsError
from replaydiff.replay.options import App, command, json_option, log_option, print_json, say

if TYPE_CHECKING:
    from replaydiff.replay.engine.items import Source
    from replaydiff.replay.sampling import Draw

_EPILOG = """\b
Examples:
  replay compare --month --old prod --new candidate --trials 3 --aa
  replay compare --cases --old git:v1.4.0 --new . --gate default --html report.html
  replay compare --cases golden.jsonl --pair-by metadata.task_id --metric tool_calls \\
      --old "observed:release = '2.0'" --new "observed:release = '2.1'"
"""


@command("compare", epilog=_EPILOG)
@click.option("--sample", metavar="NAME", help="Compare on this sample, drawn before.")
@click.option(
    "--cases",
    is_flag=False,
    flag_value=GOLDEN,
    metavar="[PATH]",
    help="Compare on a golden set; bare: cases/golden.jsonl, or [cases] path.",
)
@click.option(
    "--month",
    is_flag=False,
    flag_value=LATEST,
    metavar="[YYYY-MM]",
    help="Draw a sample of this month first; bare (and default): the latest complete month.",
)
@click.option("--size", type=int, help="How many traces to draw; default 50.")
@click.option("--by", multiple=True, metavar="FIELD", help="Field whose values make the strata; repeatable.")
@click.option("--where", metavar="COND", help="Draw only traces that fit, like \"release = '2.1'\".")
@click.option("--name", help="Name of the sample that is drawn; default the month.")
@click.option("--new-only", is_flag=True, help="Leave out what is in the golden set or was triaged already.")
@click.option(
    "--metric", "metrics", metavar="NAME", multiple=True, help="Show this metric (repeatable): score:NAME …"
)
@click.option(
    "--gate",
    metavar="EXPR",
    multiple=True,
    help="'default', or a condition such as 'regressed<=2' (repeatable): decides the exit code.",
)
@click.option("-o", "--html", metavar="FILE", help="Also write the HTML report here.")
@run_options
@log_option
@json_option
def compare(
    app: App,
    asked: Asked,
    sample: str | None,
    cases: str | None,
    month: str | None,
    size: int | None,
    by: tuple[str, ...],
    where: str | None,
    name: str | None,
    new_only: bool,
    metrics: tuple[str, ...],
    gate: tuple[str, ...],
    html: str | None,
    as_json: bool,
) -> ExitCode:
    """Sample, run, diff and report in one.

    The comparison before a release: both versions replay the same items, and the report says what changed
    and whether to ship. The run stays in the store for `replay diff`, `report` and `show`. With observed
    versions on both sides nothing is run: what was recorded is compared.
    """
    from replaydiff.diff import gate as gates
    from replaydiff.reports import files

    gates.check_form(gate)
    if html is not None:
        files.check_target(Path(html))
    settings = asked.settings(app.settings)
    judge = replaying.choose_judge(asked, settings)
    lanes = replaying.choose_lanes(asked, settings)
    drawing = {"month": month, "size": size, "by": by, "where": where, "name": name, "new_only": new_only}
    source: Source
    if sample is not None or cases is not None:
        for flag, value in drawing.items():
            if value:
                raise SettingsError(
                    f"--{flag.replace('_', '-')} is for drawing a sample; leave it out beside "
                    f"--{'sample' if sample is not None else 'cases'}"
                )
        source = replaying.choose_items(app, asked, settings, sample, cases)
    else:
        source = _draw(app, asked, month, size, by, where, name, new_only)
    done = replaying.replay_and_judge(app, judge, replaying.starting(app, asked, settings, source, lanes))
    return _tell(app, done, metrics, gate, html, as_json)


def _draw(
    app: App,
    asked: Asked,
    month: str | None,
    size: int | None,
    by: tuple[str, ...],
    where: str | None,
    name: str | None,
    new_only: bool,
) -> Source:
    """A sample drawn now; it is stored with the run, once the run can begin."""
    from replaydiff.replay.engine.items import SampleSource

    drawn = draw_as_asked(
        app,
        month=month or LATEST,
        size=size,
        by=by,
        seed=asked.seed,
        where=where,
        name=name,
        new_only=new_only,
    )
    chosen = _free_name(app, drawn, given=name is not None)
    unsaved = SampleSource(chosen, drawn.items, unsaved=replace(drawn.sample, name=chosen))
    return replaying.as_asked(app, asked, unsaved)


def _free_name(app: App, drawn: Draw, *, given: bool) -> str:
    """The sample's name, or `NAME-2`, `NAME-3` … where that is another sample's and nobody insists on it."""
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.samples import is_kept, list_samples

    def usable(name: str) -> bool:
        items = [replace(item, sample=name) for item in drawn.items]
        return name not in taken or is_kept(con, replace(drawn.sample, name=name), items)

    wanted = drawn.sample.name
    others = (f"{wanted}-{number}" for number in itertools.count(2))
    with open_store(app.store_path, read_only=True) as con:
        taken = {sample.name for sample in list_samples(con)}
        if given and not usable(wanted):
            raise InputError(
                f"there is another sample {wanted!r} already, and a sample is never changed; "
                "choose another --name"
            )
        return next(name for name in itertools.chain([wanted], others) if usable(name))


def _tell(
    app: App,
    done: telling.Done,
    metrics: tuple[str, ...],
    gate: tuple[str, ...],
    html: str | None,
    as_json: bool,
) -> ExitCode:
    """The diff of the run that was made, as `replay diff` tells it."""
    from replaydiff.diff import gate as gates
    from replaydiff.diff.compute import compute
    from replaydiff.diff.document import to_json
    from replaydiff.replay.errors import worst_exit
    from replaydiff.replay.store.connection import open_store
    from replaydiff.reports import base, files, terminal

    with open_store(app.store_path, read_only=True) as con:
        result = compute(con, done.report.run.id, app.settings, metrics=metrics, gate=gate or None)
    if html is not None:
        files.write_whole(Path(html), base.render(result, "html"))
        say(f"HTML report of run {result.run.id} written to {html}")
    if as_json:
        print_json(to_json(result))
    else:
        terminal.show(result)
    return worst_exit([gates.exit_code(result.gate), done.code])
