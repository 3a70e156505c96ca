"""`replay check`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from replay.errors import ExitCode
from replay.options import App, command, json_option, print_json, say


@command("check")
@click.option("--cases", "path", metavar="PATH", help="The golden set; default cases/golden.jsonl.")
@click.option("--new", metavar="VERSION", default=".", show_default=True, help="The version to check.")
@click.option("--threshold", type=float, metavar="SHARE", help="What must pass; default 0.8.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only cases with this tag (repeatable).")
@click.option("--trials", type=int, help="Trials a case; default 1, or [run] trials.")
@click.option("--concurrency", type=int, metavar="N", help="Trials in flight at once; default 4.")
@click.option("--timeout", type=float, metavar="SECONDS", help="For one trial; default 120.")
@click.option("--budget", type=float, metavar="USD", help="No new case starts once this is spent.")
@click.option("--judge/--no-judge", default=None, help="Grade with the judge; default where it has a model.")
@click.option("--junit", metavar="FILE", help="Also write JUnit XML here.")
@click.option("--markdown", metavar="FILE", help="Also write Markdown here.")
@json_option
def check(
    app: App,
    path: str | None,
    new: str,
    threshold: float | None,
    tags: tuple[str, ...],
    trials: int | None,
    concurrency: int | None,
    timeout: float | None,
    budget: float | None,
    judge: bool | None,
    junit: str | None,
    markdown: str | None,
    as_json: bool,
) -> ExitCode:
    """Hold one version against the golden set.

    Every case is replayed with its tools answered from its tape. Ends with 0 where enough cases pass, 1 where
    they do not, 4 where it cannot be decided.

    \b
    Examples:
      replay check
      replay check --new git:main --tag smoke --junit report.xml
    """
    from cases import check as checking
    from diff import gate as gates
    from diff.compute import compute
    from diff.document import to_json
    from replay.commands import replaying
    from replay.engine.items import GoldenSource, from_golden
    from replay.engine.run import execute
    from replay.errors import InputError, worst_exit
    from replay.golden import read_golden
    from replay.model import Lane
    from replay.settings import override
    from replay.store.connection import open_store
    from replay.terminal.table import show, terminal_width
    from reports import base, files

    for target in (junit, markdown):
        if target is not None:
            files.check_target(Path(target))
    asked = replaying.Asked(
        old=None, new=(new,), trials=trials, aa=None, concurrency=concurrency, budget=budget, timeout=timeout,
        seed=None, retries=None, on_miss=None, no_network=None, pair_by=None, mode=None, judge=judge,
        max_tokens=None, record=None, replay_model=None,
    )  # fmt: skip
    settings = asked.settings(app.settings)
    settings = replace(settings, cases=override(settings.cases, threshold=threshold))
    # [run] aa is for comparing two versions; a check has one.
    settings = replace(settings, run=replace(settings.run, aa=False))
    golden = Path(path) if path else settings.golden_path
    source = from_golden(golden)
    if tags:
        chosen = [case for case in read_golden(golden) if set(tags) & set(case.tags)]
        if not chosen:
            raise InputError(f"no case of {golden} has the tag {' or '.join(tags)}")
        source = GoldenSource(str(golden), chosen)
    judging = replaying.choose_judge(asked, settings)
    lanes = {Lane.NEW: replaying.choose_lanes(asked, settings)[Lane.NEW]}
    done = replaying.replay_and_judge(
        app, judging, lambda hooks: execute(app.store_path, source, lanes, settings, hooks=hooks)
    )
    with open_store(app.store_path, read_only=True) as con:
        result = compute(con, done.report.run.id, settings, gate=(gates.DEFAULT,))
    for target, format_ in ((junit, "junit"), (markdown, "markdown")):
        if target is not None:
            files.write_whole(Path(target), base.render(result, format_))
            say(f"{format_} report written to {target}")
    counted = checking.tally(result, settings.cases.threshold)
    if as_json:
        print_json(to_json(result) | {"check": checking.document(result, counted)})
    else:
        show(checking.text(result, counted, terminal_width()))
    return worst_exit([gates.exit_code(result.gate), done.code])
