"""`replay cases`: care for the golden set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replaydiff.replay.commands.cases_convert import convert
from replaydiff.replay.commands.cases_edit import edit, golden_set, show
from replaydiff.replay.errors import ExitCode, InputError, StoreError
from replaydiff.replay.options import App, command, common_options, json_option, print_json, say

if TYPE_CHECKING:
    from replaydiff.cases.coverage import Coverage
    from replaydiff.cases.lint import Finding
    from replaydiff.replay.model import Case

_SHOWN = 15
_path = click.option(
    "--cases", "path", type=click.Path(path_type=Path), help="The golden set; default [cases] path."
)


@click.group("cases")
@common_options
def cases() -> None:
    """Care for the golden set: list, show, edit, lint, stats, …

    It is a file under version control: JSON lines, a JSON array, or YAML; a table (CSV) is read only.

    \b
    Examples:
      replay cases lint
      replay cases stats --month 2026-10
    """


def _read(app: App, path: Path | None) -> tuple[Path, list[Case]]:
    from replaydiff.replay.golden import read_golden

    golden = golden_set(app, path)
    return golden, read_golden(golden)


@command("list")
@_path
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only cases with this tag (repeatable).")
@json_option
def list_(app: App, path: Path | None, tags: tuple[str, ...], as_json: bool) -> None:
    """List the cases: what each expects, its tags, when it was reviewed."""
    from replaydiff.cases.coverage import path_of
    from replaydiff.replay.golden import case_to_json
    from replaydiff.replay.terminal.table import Column, show, table, terminal_width

    _, found = _read(app, path)
    chosen = [case for case in found if not tags or set(tags) & set(case.tags)]
    if as_json:
        print_json([case_to_json(case) for case in chosen])
        return
    columns = [
        Column("CASE", least=8, most=24),
        Column("EXPECTS", most=40),
        Column("TAGS", most=24),
        Column("REVIEWED"),
        Column("INPUT", grows=True, least=12),
    ]
    rows = [
        [
            case.id,
            path_of(case) or "-",
            ", ".join(case.tags) or "-",
            (case.provenance.last_reviewed or "-")[:10],
            case.input,
        ]
        for case in chosen
    ]
    show(table(columns, rows, terminal_width()))


@command("lint")
@_path
@click.option(
    "--stale-days",
    type=click.IntRange(1),
    help="Older reviews are a warning; default [cases] stale_days.",
)
@click.option("--strict", is_flag=True, help="Warnings fail, too.")
@json_option
def lint(app: App, path: Path | None, stale_days: int | None, strict: bool, as_json: bool) -> ExitCode:
    """Say what is wrong with the golden set, by line.

    Errors (a line that is no case, an id or a content that comes twice, one input with two expectations, an
    expectation that contradicts itself) end with 1; warnings (nothing expected, a tape that cannot answer
    what is expected, near-duplicates, stale reviews, cases that flip with one version in stored runs,
    quarantine without an owner or for long, keys that nothing reads) with 0, unless --strict.

    \b
    Example:
      replay cases lint --strict
    """
    from datetime import UTC, datetime

    from replaydiff.cases.lint import Level
    from replaydiff.cases.lint import lint as check

    golden = golden_set(app, path)
    days = stale_days or app.settings.cases.stale_days
    findings = check(golden, datetime.now(UTC).date(), days, _flaky(app, golden))
    failing = [one for one in findings if one.level is Level.ERROR or (strict and one.level is Level.WARNING)]
    if as_json:
        print_json({"cases": str(golden), "findings": [asdict(one) for one in findings], "held": not failing})
    else:
        _show_findings(golden, findings)
    return ExitCode.GATE_FAILED if failing else ExitCode.OK


def _flaky(app: App, golden: Path) -> dict[str, str]:
    """What stored runs say of the cases; nothing where there is no store, or it cannot be read now."""
    if not app.store_path.exists():
        return {}
    from replaydiff.cases.flaky import flaky
    from replaydiff.replay.golden import each_case
    from replaydiff.replay.model import Case
    from replaydiff.replay.store.connection import open_store

    ids = {found.id for _, found in each_case(golden) if isinstance(found, Case)}
    try:
        with open_store(app.store_path, read_only=True) as con:
            return flaky(con, app.settings, ids)
    except StoreError as error:
        say(f"flaky cases are not looked for: {error}")
        return {}


def _show_findings(golden: Path, findings: Sequence[Finding]) -> None:
    from replaydiff.replay.terminal.plain import one_line
    from replaydiff.replay.terminal.table import show

    for one in findings:
        named = f" {one_line(one.case, 40)}" if one.case else ""
        show(f"{golden}:{one.line}: {one.level.value}:{named} {one_line(one.text)}")
    errors, warnings = (sum(one.level.value == level for one in findings) for level in ("error", "warning"))
    click.echo(f"{errors} errors, {warnings} warnings" if findings else "nothing to complain of")


@command("stats")
@_path
@click.option("--month", metavar="YYYY-MM", help="The month to hold it against; default the latest there is.")
@json_option
def stats(app: App, path: Path | None, month: str | None, as_json: bool) -> None:
    """Count the cases, and say which ways of a month's traces have none.

    \b
    Example:
      replay cases stats --month 2026-10
    """
    from replaydiff.cases.coverage import counted, coverage
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.traces import trace_months
    from replaydiff.replay.store.where import month_range

    _, found = _read(app, path)
    covered = None
    if app.store_path.exists():
        with open_store(app.store_path, read_only=True) as con:
            months = [name for name, _ in trace_months(con)]
            if month is not None:
                month_range(month)
            chosen = month or (months[-1] if months else None)
            if chosen is not None:
                covered = coverage(con, found, chosen)
    by = counted(found)
    if as_json:
        print_json({"cases": len(found), "by": by, "coverage": None if covered is None else asdict(covered)})
    else:
        _show_stats(found, by, covered)


def _show_stats(found: Sequence[Case], by: dict[str, dict[str, int]], covered: Coverage | None) -> None:
    from replaydiff.replay.terminal.plain import one_line
    from replaydiff.replay.terminal.table import Column, show, table, terminal_width

    click.echo(f"{len(found)} cases")
    for name, counts in by.items():
        shown = ", ".join(f"{one_line(value, 40)} {count}" for value, count in counts.items())
        show(f"  by {name}: {shown}")
    if covered is None or not covered.traces:
        click.echo("no traces to hold them against; `replay import` brings some in")
        return
    share = covered.covered / covered.traces
    click.echo(
        f"{share:.0%} of the {covered.traces:,} traces of {covered.month} go a way through the tools that a "
        "case expects"
    )
    if covered.missing:
        columns = [
            Column("WITHOUT A CASE", grows=True, least=16), Column("TRACES", right=True), Column("LOOK AT")
        ]  # fmt: skip
        rows = [
            [one.tool_path, f"{one.traces:,}", ", ".join(one.examples)] for one in covered.missing[:_SHOWN]
        ]
        show("\n" + table(columns, rows, terminal_width()))
        if len(covered.missing) > _SHOWN:
            click.echo(f"… and {len(covered.missing) - _SHOWN} more")
        show(f"next: replay show {one_line(covered.missing[0].examples[0], 60)}, then replay promote it")


@command("retire")
@click.argument("ids", nargs=-1, required=True, metavar="CASE...")
@click.option("--reason", required=True, metavar="TEXT", help="Why it is no longer held against.")
@_path
def retire(app: App, ids: tuple[str, ...], reason: str, path: Path | None) -> None:
    """Take cases out, and keep them in retired.jsonl beside the golden set.

    \b
    Example:
      replay cases retire cancel-17 --reason "we no longer ship to Norway"
    """
    from replaydiff.cases.golden import retire_cases
    from replaydiff.cases.promote import now, person

    golden, _ = _read(app, path)
    kept = retire_cases(golden, ids, reason=reason, by=person(app.settings.root), at=now())
    click.echo(f"retired {', '.join(ids)}: kept in {kept}")


@command("merge")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@_path
@click.option(
    "--base",
    type=click.Path(path_type=Path),
    help="What both came from: FILE's changes and removals since are taken over, too.",
)
@json_option
def merge(app: App, files: tuple[Path, ...], path: Path | None, base: Path | None, as_json: bool) -> ExitCode:
    """Add the cases of other golden sets to this one, or merge another branch's.

    Without --base, a case that is there already, with the same input and expectation, is left out; an id
    that another case has is refused, and nothing is changed. With --base, cases that the branch changed or
    took out are changed or taken out here; where both sides did so in different ways, the case stays, is
    named, and the exit code is 1. Git merges golden sets so with two settings (docs/cases.md).

    \b
    Examples:
      replay cases merge ../checkout/cases/golden.jsonl
      replay cases merge theirs.jsonl --base base.jsonl
    """
    from replaydiff.cases.golden import add_cases
    from replaydiff.replay.golden import content_id, read_golden

    golden = path or app.settings.golden_path
    if base is not None:
        return _merge_branches(golden_set(app, path), base, files, as_json)
    present = {content_id(case) for case in read_golden(golden)} if golden.exists() else set()
    added: list[Case] = []
    total = 0
    for file in files:
        for case in read_golden(file):
            total += 1
            if content_id(case) not in present:
                present.add(content_id(case))
                added.append(case)
    add_cases(golden, added, force=True)
    done: dict[str, Any] = {"cases": str(golden), "added": [case.id for case in added]}
    done["there_already"] = total - len(added)
    if as_json:
        print_json(done)
    else:
        click.echo(f"{len(added)} cases added to {golden}, {done['there_already']} were there already")
    return ExitCode.OK


def _merge_branches(golden: Path, base: Path, files: tuple[Path, ...], as_json: bool) -> ExitCode:
    from replaydiff.cases.merging import merge_branches

    if len(files) != 1:
        raise InputError("--base is what two sides came from; name one FILE")
    done = merge_branches(golden, base, files[0])
    if as_json:
        print_json({"cases": str(golden), **asdict(done)})
    else:
        counts = f"{len(done.added)} added, {len(done.changed)} changed, {len(done.removed)} taken out"
        click.echo(f"{golden}: {counts}, {len(done.conflicts)} conflicts")
    for name, said in done.conflicts.items():
        say(f"conflict: {name}: {said}; it is as it was here, decide and edit it")
    return ExitCode.GATE_FAILED if done.conflicts else ExitCode.OK


for _one in (list_, show, edit, lint, stats, retire, merge, convert):
    cases.add_command(_one)
