"""`replay check`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaydiff.replay.commands import replaying
from replaydiff.replay.commands.replaying import Asked, some_run_options
from replaydiff.replay.errors import ExitCode, InputError, Interrupted, SettingsError
from replaydiff.replay.options import App, command, json_option, print_json, say

if TYPE_CHECKING:
    from replaydiff.cases.check import Checked
    from replaydiff.replay.commands.telling import Done
    from replaydiff.replay.settings import Settings

LATEST = ""
"""`--resume` without a run, `--changed` without a revision."""


@command("check")
@click.option("--cases", "path", metavar="PATH", help="The golden set; default cases/golden.jsonl.")
@click.option("--new", metavar="VERSION", help="The version to check; default the working tree, `.`.")
@click.option("--old", metavar="VERSION", help="Also check this one, and say which cases ended otherwise.")
@click.option("--threshold", type=float, metavar="SHARE", help="What must pass; default 0.8.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only cases with this tag (repeatable).")
@click.option(
    "--changed",
    is_flag=False,
    flag_value=LATEST,
    metavar="[REV]",
    help="Only cases that changed, or whose tools did, since REV; bare: since the default branch.",
)
@some_run_options(
    "trials", "concurrency", "timeout", "budget", "max_tokens", "retries", "on_miss", "no_network",
    "record", "replay_model", "judge", "batch",
)  # fmt: skip
@click.option(
    "--resume",
    is_flag=False,
    flag_value=LATEST,
    metavar="[RUN]",
    help="Go on with a check that was interrupted or stopped by its budget; bare: the latest run.",
)
@click.option("--junit", metavar="FILE", help="Also write JUnit XML here.")
@click.option("--markdown", metavar="FILE", help="Also write Markdown here.")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Also write a report here (repeatable); .json, .csv, .html, .md, .xml or .txt says which.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also say of each case what it took.")
@json_option
def check(
    app: App,
    asked: Asked,
    path: str | None,
    new: str | None,
    old: str | None,
    threshold: float | None,
    tags: tuple[str, ...],
    changed: str | None,
    resume: str | None,
    junit: str | None,
    markdown: str | None,
    outputs: tuple[str, ...],
    verbose: bool,
    as_json: bool,
) -> ExitCode:
    """Hold one version against the golden set.

    Every case is replayed with its tools answered from its tape. Ends with 0 where enough cases pass, 1 where
    they do not, 4 where it cannot be decided. [cases] in replay.toml has thresholds of tags and of a case's
    trials. Cases in quarantine are reported and decide nothing.

    \b
    Examples:
      replay check
      replay check --new git:main --tag smoke --junit report.xml
      replay check --changed origin/main -o report.html
      replay check --old git:main --trials 3
    """
    from replaydiff.cases import check as checking
    from replaydiff.cases.check_text import text
    from replaydiff.diff import gate as gates
    from replaydiff.replay.errors import worst_exit
    from replaydiff.replay.settings import override
    from replaydiff.replay.terminal.table import show, terminal_width

    targets = _targets(junit, markdown, outputs)
    asked = replace(asked, old=old, new=() if new is None else (new,))
    settings = asked.settings(app.settings)
    settings = replace(settings, cases=override(settings.cases, threshold=threshold))
    # [run] aa is for comparing two versions; here each is held against the cases alone.
    settings = replace(settings, run=replace(settings.run, aa=False))
    if resume is not None:
        if path or tags or changed is not None or threshold is not None:
            raise SettingsError(
                "--cases, --tag, --changed and --threshold cannot be given with --resume: the check goes on "
                "as it began; leave them out, or start a new one"
            )
        done = _resumed(app, asked, settings, resume)
    else:
        asked = replace(asked, new=asked.new or (".",))
        begun = _begun(app, asked, settings, path, tags, changed)
        if begun is None:
            if as_json:
                print_json({"check": {"cases": 0, "held": True}})
            return ExitCode.OK
        done = begun
    checked = checking.checked(app.store_path, done.report.run.id, settings)
    _write(targets, checked)
    if as_json:
        print_json(checking.document(checked))
    else:
        show(text(checked, terminal_width(), verbose=verbose))
    return worst_exit([gates.exit_code(checked.result.gate), done.code])


def _targets(junit: str | None, markdown: str | None, outputs: tuple[str, ...]) -> list[tuple[Path, str]]:
    """The files to write and their formats, refused before anything is spent where they cannot be written."""
    from replaydiff.reports import base, files

    suffixes = {known.suffix: name for name, known in base.BUILTIN.items()}
    found = [(Path(file), name) for file, name in ((junit, "junit"), (markdown, "markdown")) if file]
    for file in map(Path, outputs):
        if file.suffix not in suffixes:
            raise InputError(f"-o {file} says no format; end its name in {', '.join(sorted(suffixes))}")
        found.append((file, suffixes[file.suffix]))
    for file, _ in found:
        files.check_target(file)
    return found


def _begun(
    app: App,
    asked: Asked,
    settings: Settings,
    path: str | None,
    tags: tuple[str, ...],
    changed: str | None,
) -> Done | None:
    """A new check; None where no case is to be checked."""
    from replaydiff.cases.choosing import choose
    from replaydiff.replay.model import Lane

    judging = replaying.choose_judge(asked, settings)
    lanes = replaying.choose_lanes(asked, settings)
    golden = Path(path) if path else settings.golden_path
    choice = choose(golden, tags, changed, lanes[Lane.NEW], settings)
    if choice.note:
        say(choice.note)
    source = choice.source
    if source is None:
        return None
    with _told_as_check():
        return replaying.replay_and_judge(
            app, judging, replaying.starting(app, asked, settings, source, lanes)
        )


def _resumed(app: App, asked: Asked, settings: Settings, run_id: str) -> Done:
    from replaydiff.replay.engine.run import resume
    from replaydiff.replay.model import Lane
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.runs import get_run, latest_run

    asked.refuse_beside_resume()
    with open_store(app.store_path, read_only=True) as con:
        run = get_run(con, run_id) if run_id else latest_run(con, unfinished=True)
    if run is None:
        raise InputError("there is no unfinished check to go on with; `replay check` starts one")
    if run.golden_path is None or Lane.NEW not in run.lanes:
        raise InputError(
            f"run {run.id} is no check: it replays {'a sample' if run.sample else 'the old version alone'}; "
            f"go on with `replay run --resume {run.id}`"
        )
    judging = replaying.choose_judge(asked, settings)
    settings = replaying.with_limits(settings, asked)
    with _told_as_check():
        return replaying.replay_and_judge(
            app, judging, lambda hooks: resume(app.store_path, run.id, settings, hooks=hooks)
        )


class _told_as_check:  # noqa: N801 - read as a statement
    """An interruption says how to go on with the check, not only with its run."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Interrupted):
            text = str(error).replace("replay run --resume", "replay check --resume")
            raise Interrupted(text) from None


def _write(targets: list[tuple[Path, str]], checked: Checked) -> None:
    from replaydiff.cases.check import written
    from replaydiff.cases.check_text import text
    from replaydiff.reports import base, files

    for file, name in targets:
        report: str | bytes
        if name == "json":
            report = written(checked)
        elif name == "terminal":
            report = text(checked, 100) + "\n"
        else:
            report = base.render(checked.result, name)
        files.write_whole(file, report)
        say(f"{name} report written to {file}")
