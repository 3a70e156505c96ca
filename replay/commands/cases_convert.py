"""`replay cases convert`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from replaydiff.replay.api.golden import convert as api_convert
from replaydiff.replay.commands.options import App, command, json_option, print_json, say


@command("convert")
@click.argument("source", type=click.Path(path_type=Path), metavar="IN")
@click.argument("target", type=click.Path(path_type=Path), metavar="OUT")
@click.option("--from", "from_", metavar="FORMAT", help="Format of IN; default detected from its content.")
@click.option("--to", metavar="FORMAT", help="Format of OUT; default jsonl, json, yaml or csv by suffix.")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@json_option
def convert(
    app: App,  # noqa: ARG001
    source: Path,
    target: Path,
    from_: str | None,
    to: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Convert a golden set between file formats, and to and from those of other tools.

    FORMAT is jsonl, json, yaml, csv, promptfoo, inspect, deepeval, pydantic-evals, langfuse or openai-evals.
    What the other format has no field for is reported, and carried in its metadata, so that converting back
    gives the same cases. OUT may be - for stdout.

    \b
    Examples:
      replay cases convert cases/golden.jsonl cases/golden.yaml
      replay cases convert cases/golden.jsonl tests.yaml --to promptfoo
      replay cases convert goldens.json cases/golden.jsonl --from deepeval
    """
    done = api_convert(source, target, from_=from_, to=to, force=force)
    if str(target) == "-":
        sys.stdout.write(done.text)
    elif as_json:
        rows = {"cases": done.cases, "from": done.source, "to": str(target), "remarks": dict(done.remarks)}
        print_json(rows)
        return
    for remark, count in sorted(done.remarks.items(), key=lambda pair: (-pair[1], pair[0])):
        say(f"{count:>5} × {remark}")
    say(f"{done.cases} cases of {source} (read as {done.source}) are in {target}")
