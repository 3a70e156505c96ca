"""`replay cases convert`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click

from replaydiff.replay.errors import InputError
from replaydiff.replay.options import App, command, json_option, print_json, say

_NAMES = "jsonl, json, yaml, csv, promptfoo, inspect, deepeval, pydantic-evals, langfuse or openai-evals"


@command("convert")
@click.argument("source", type=click.Path(path_type=Path), metavar="IN")
@click.argument("target", type=click.Path(path_type=Path), metavar="OUT")
@click.option("--from", "from_", metavar="FORMAT", help="What IN is; default what its content looks like.")
@click.option("--to", metavar="FORMAT", help="What OUT is; default jsonl, json, yaml or csv by its ending.")
@click.option("--force", is_flag=True, help="Replace OUT if it is there.")
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
    """Write a golden set in another form, or in another tool's format, and read those.

    FORMAT is jsonl, json, yaml, csv, promptfoo, inspect, deepeval, pydantic-evals, langfuse or openai-evals.
    What the other format has no words for is told, and carried in the part of it that is free for that
    (metadata), so that the way back gives the same cases. OUT may be - for stdout.

    \b
    Examples:
      replay cases convert cases/golden.jsonl cases/golden.yaml
      replay cases convert cases/golden.jsonl tests.yaml --to promptfoo
      replay cases convert goldens.json cases/golden.jsonl --from deepeval
    """
    from replaydiff.cases import convert as converting
    from replaydiff.replay.files import replacing

    for named in (from_, to):
        if named is not None and named not in converting.NAMES:
            raise InputError(f"there is no format {named!r}; known are {_NAMES}")
    stdout = str(target) == "-"
    if not stdout and target.is_file() and not force:
        raise InputError(f"{target} is there already; --force replaces it, or name another file")
    taken = converting.read(source, from_)
    if not taken.cases:
        raise InputError(f"{source} has no cases; name a file that has some, or what it is with --from")
    text, told = converting.write(taken.cases, Path() if stdout else target, to)
    if stdout:
        sys.stdout.write(text)
    else:
        with replacing(target, "golden.jsonl") as file:
            file.write_bytes(text.encode("utf-8"))
    told = Counter(taken.told) + told
    if as_json and not stdout:
        print_json({"cases": len(taken.cases), "from": taken.source, "to": str(target), "told": dict(told)})
        return
    for said, count in sorted(told.items(), key=lambda pair: (-pair[1], pair[0])):
        say(f"{count:>5} × {said}")
    say(f"{len(taken.cases)} cases of {source} (read as {taken.source}) are in {target}")
