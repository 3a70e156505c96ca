"""`replay push langfuse`."""

from __future__ import annotations

from pathlib import Path

import click

from replay.errors import InputError
from replay.options import App, command, json_option, print_json


@command("push")
@click.argument("target", type=click.Choice(["langfuse"]))
@click.option("--dataset", required=True, metavar="NAME", help="The Langfuse dataset to create or update.")
@click.option(
    "--cases",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The golden set; default [cases] path.",
)
@json_option
def push(app: App, target: str, dataset: str, path: Path | None, as_json: bool) -> None:
    """Send the golden set to Langfuse as a dataset.

    Cases become dataset items, linked to the trace they were promoted from. Sending them again updates the
    items and makes no doubles. The keys are LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY and LANGFUSE_BASE_URL.

    \b
    Example:
      replay push langfuse --dataset golden
    """
    from cases.push import client_of, push_cases
    from replay.golden import read_golden
    from replay.langfuse_keys import LangfuseKeys

    keys = LangfuseKeys.from_environment()
    golden = path or app.settings.golden_path
    cases = read_golden(golden)
    if not cases:
        raise InputError(f"{golden} has no cases; make some with `replay promote`")
    sent = push_cases(client_of(keys), dataset, cases)
    if as_json:
        print_json({"target": target, "dataset": dataset, "items": sent})
    else:
        click.echo(f"sent {sent} cases to dataset {dataset!r} at {keys.base_url}")
