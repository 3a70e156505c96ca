"""`replay check`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaydiff.replay.api.options import RunOptions
from replaydiff.replay.commands.options import App, command, json_option, say
from replaydiff.replay.commands.run import LATEST, resume_option, run_options
from replaydiff.replay.errors import ExitCode, SettingsError
from replaydiff.replay.terminal.text import show, terminal_width

if TYPE_CHECKING:
    from replaydiff.replay.api.results import Check


@command("check")
@click.option("--cases", "path", metavar="PATH", help="The golden set; default cases/golden.jsonl.")
@click.option("--new", metavar="VERSION", help="The version to check; default the working tree, `.`.")
@click.option(
    "--old", metavar="VERSION", help="Also check this one, and list the cases that ended differently."
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only cases with this tag (repeatable).")
@click.option(
    "--changed",
    is_flag=False,
    flag_value=LATEST,
    metavar="[REV]",
    help="Only cases that changed since REV, or whose tools did; without a value: since the default branch.",
)
@run_options(
    "trials", "until_known", "concurrency", "budget", "no_boundary", "judge",
)  # fmt: skip
@resume_option
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Also write a report here (repeatable): .xml is JUnit; .md, .html, .json, .csv, .parquet, .txt.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also print the time, tokens and cost of each case.")
@json_option
def check(
    app: App,
    options: RunOptions,
    path: str | None,
    new: str | None,
    old: str | None,
    tags: tuple[str, ...],
    changed: str | None,
    resume: str | None,
    outputs: tuple[str, ...],
    verbose: bool,
) -> ExitCode:
    """Check one version against the golden set.

    Every case is replayed with its tools answered from its tape. Ends with 0 if enough cases pass, 1 if they
    do not, 4 if that cannot be decided. [cases] in replay.toml has the threshold (0.8), those for tags and
    for a case's trials. Cases in quarantine are reported and decide nothing.

    \b
    Examples:
      replay check
      replay check --new git:main --tag smoke -o report.xml
      replay check --changed origin/main -o report.html
      replay check --old git:main --trials 3 --set cases.threshold=0.9
    """
    targets = list(_targets(outputs))
    chosen: RunOptions = {**options, "old": old, "new": new}
    if resume is not None:
        if path or tags or changed is not None:
            raise SettingsError(
                "--cases, --tag and --changed cannot be used with --resume: a check keeps its own options",
                hint="leave them out, or start a new one",
            )
        checked = app.project.check(resume=resume or True, **chosen)
    else:
        checked = app.project.check(path, tags=tags, changed=changed, **chosen)
    if checked.checked is not None:
        _write(targets, checked)
    if not app.printed_json(checked.to_dict) and checked.checked is not None:
        show(str(checked.report("terminal", width=terminal_width(), verbose=verbose)))
    return checked.exit_code


def _targets(outputs: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    """Yield the files to write and their formats; refuse what cannot be written before anything is spent."""
    from replaydiff.replay.files import check_target
    from replaydiff.reports import registry

    for file, name in [(Path(output), registry.format_of(Path(output))) for output in outputs]:
        check_target(file)
        yield file, name


def _write(targets: list[tuple[Path, str]], checked: Check) -> None:
    for file, name in targets:
        checked.save(file, name)
        say(f"{name} report written to {file}")
