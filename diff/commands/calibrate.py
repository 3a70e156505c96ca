"""`replay calibrate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replay.errors import ExitCode, InputError
from replay.options import App, command, json_option, print_json, say

if TYPE_CHECKING:
    from diff.judge.sheet import Judged
    from diff.result import DiffResult
    from diff.statistics.agreement import Agreement

_SHOWN = 10


@command("calibrate")
@click.argument("run", required=False)
@click.option("--draw", metavar="FILE", help="Write a sheet to label: CSV; .jsonl makes JSON Lines.")
@click.option("--size", type=click.IntRange(1), default=50, show_default=True, help="Rows of the sheet.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draw.")
@click.option(
    "--read",
    "filled",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read a filled sheet; one for each person who labelled (repeatable).",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Where the calibration goes; default [judge] calibration.",
)
@json_option
def calibrate(
    app: App,
    run: str | None,
    draw: str | None,
    size: int,
    seed: int,
    filled: tuple[Path, ...],
    output: str | None,
    as_json: bool,
) -> ExitCode:
    """Hold the judge against labels by hand.

    First --draw a sheet of responses that the judge has graded in RUN (default: the latest run), blind to its
    scores, and give each a label: 1 poor, 2 fair, 3 good, by the same rubric. Then --read it back: agreement,
    Cohen's kappa, and what to look at first. The calibration it writes is bound to the judge's model, prompt
    and rubric; with enough of it ([gate] agreement, labels) the judge may gate. It belongs under version
    control.

    \b
    Examples:
      replay calibrate --draw sheet.csv
      replay calibrate --read sheet.csv
      replay calibrate --read ada.csv --read bo.csv
    """
    from diff.calibration import judge_hash
    from diff.compute import compute
    from diff.judge import sheet
    from diff.stored import JUDGE
    from replay.store.connection import open_store
    from replay.store.runs import chosen_run

    if bool(draw) == bool(filled):
        raise InputError("say either --draw FILE, to write a sheet, or --read FILE, to read a filled one")
    with open_store(app.store_path, read_only=True) as con:
        run = chosen_run(con, run).id
        result = compute(con, run, app.settings)
    found = sheet.judged(result)
    if not found:
        raise InputError(
            f"run {run} has no response with a score of the judge; name a model in [judge], then `replay run`"
        )
    if draw:
        _draw(found, draw, size, seed)
        return ExitCode.OK
    document = _read(result, found, filled)
    name = judge_hash(*(str(document[part]) for part in ("model", "prompt_hash", "rubric_hash")))
    target = Path(output) if output else app.settings.root / app.settings.judge.calibration / f"{name}.json"
    _write(target, {key: value for key, value in document.items() if key not in ("disagreements", JUDGE)})
    if as_json:
        print_json(document)
    else:
        _show(app, document, target)
    return ExitCode.OK


def _draw(found: Sequence[Judged], target: str, size: int, seed: int) -> None:
    from diff.judge import sheet
    from reports.files import write_whole

    path = Path(target)
    if path.exists():
        raise InputError(f"{path} is there already, and may hold labels; name another file")
    drawn = sheet.draw(found, size, seed)
    write_whole(path, sheet.sheet_text(drawn, lines=path.suffix == ".jsonl"))
    if len(drawn) < size:
        say(f"the judge has graded {len(drawn)} responses of this run, so the sheet has no more")
    click.echo(f"{path}: {len(drawn)} responses; write 1 (poor), 2 (fair) or 3 (good) into the column label")
    click.echo(f"next: replay calibrate --read {path}")


def _read(result: DiffResult, found: Sequence[Judged], filled: Sequence[Path]) -> dict[str, Any]:
    """The calibration as a document; `disagreements` lists where judge and person part, the widest first."""
    from diff.judge import sheet
    from diff.judge.prompt import POINTS
    from diff.statistics.agreement import agreement

    known = {one.key: one for one in found}
    sheets = {path.stem: sheet.read_sheet(path) for path in filled}
    strange = {key for labels in sheets.values() for key in labels} - known.keys()
    if strange:
        raise InputError(
            f"{len(strange)} labelled rows are not of run {result.run.id}; name the run the sheet was drawn "
            "from: `replay calibrate RUN --read FILE`"
        )
    labels = _agreed(sheets)
    if not labels:
        raise InputError(f"no row of {', '.join(map(str, filled))} has a label; write 1, 2 or 3 there")
    keys = sorted(labels)
    held: Agreement = agreement([labels[key] for key in keys], [known[key].points for key in keys], POINTS)
    detail = known[keys[0]].grade.detail
    people = list(sheets)
    between = {}
    for place, one in enumerate(people):
        for other in people[place + 1 :]:
            shared = sorted(sheets[one].keys() & sheets[other].keys())
            if shared:
                pair = agreement([sheets[one][k] for k in shared], [sheets[other][k] for k in shared], POINTS)
                between[f"{one} and {other}"] = {
                    "labels": pair.labels, "agreement": pair.share, "kappa": pair.kappa
                }  # fmt: skip
    apart = sorted(keys, key=lambda key: (-abs(labels[key] - known[key].points), key))
    return {
        **{name: detail.get(name) for name in ("model", "prompt_hash", "rubric_hash")},
        "agreement": held.share,
        "labels": held.labels,
        "kappa": held.kappa,
        "kappa_ci": held.kappa_ci,
        "constant": held.constant,
        "confusion": held.confusion,
        "labelled_by": people,
        "between": between,
        "run": result.run.id,
        "disagreements": [
            {
                "item": known[key].item.item.id,
                "lane": known[key].graded.trial.lane.value,
                "trial": known[key].graded.trial.index + 1,
                "label": labels[key],
                "judge": known[key].points,
                "reason": known[key].grade.reason,
            }
            for key in apart
            if labels[key] != known[key].points
        ],
    }


def _agreed(sheets: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """One label for each row: what all who labelled it gave; rows they differ on are no measure."""
    given: dict[str, set[int]] = {}
    for labels in sheets.values():
        for key, label in labels.items():
            given.setdefault(key, set()).add(label)
    return {key: next(iter(labels)) for key, labels in given.items() if len(labels) == 1}


def _write(target: Path, document: Mapping[str, Any]) -> None:
    import json

    from reports.files import write_whole

    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, json.dumps(document, ensure_ascii=False, indent=1) + "\n")


def _show(app: App, document: Mapping[str, Any], target: Path) -> None:
    from replay.terminal.plain import one_line
    from replay.terminal.table import Column, show, table, terminal_width
    from reports import numbers

    gate = app.settings.gate
    kappa = numbers.score(document["kappa"])
    if document["kappa_ci"]:
        low, high = document["kappa_ci"]
        kappa += f" (95 % interval {numbers.score(low)} to {numbers.score(high)})"
    lines = [
        f"{one_line(str(document['model']), 60)} agrees with {document['agreement']:.0%} of "
        f"{document['labels']} labels; kappa {kappa}",
        f"a judge that always gave the most frequent label would agree with {document['constant']:.0%}",
        "",
    ]
    columns = [Column("LABEL"), *(Column(f"JUDGE {point}", right=True) for point in (1, 2, 3))]
    rows = [[str(point), *map(str, row)] for point, row in zip((1, 2, 3), document["confusion"], strict=True)]
    lines.append(table(columns, rows, terminal_width()))
    for names, pair in document["between"].items():
        lines.append(
            f"{names}: {pair['agreement']:.0%} of {pair['labels']} labels alike, kappa "
            f"{numbers.score(pair['kappa'])}"
        )
    apart = document["disagreements"]
    if apart:
        lines += ["", "read these first"]
        for one in apart[:_SHOWN]:
            lines.append(
                one_line(
                    f"  {one['item']} {one['lane']} {one['trial']}: label {one['label']}, "
                    f"judge {one['judge']}: {one['reason'] or ''}",
                    terminal_width(),
                )
            )
    enough = document["agreement"] >= gate.agreement and document["labels"] >= gate.labels
    lines += [
        "",
        f"written to {target}; "
        + (
            "the judge may gate"
            if enough
            else f"to gate it takes {gate.agreement:.0%} of at least {gate.labels} labels"
        ),
    ]
    show("\n".join(lines))
