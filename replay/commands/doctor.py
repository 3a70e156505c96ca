"""`replay doctor`."""

from __future__ import annotations

import click

from replaydiff.replay.api.diagnosis import diagnose
from replaydiff.replay.commands.options import App, command, json_option, print_json
from replaydiff.replay.errors import ExitCode

HERE = "."
"""The version that `--probe` starts where none is named: the project's folder as it is."""


@command("doctor")
@click.option(
    "--probe",
    is_flag=False,
    flag_value=HERE,
    metavar="[VERSION]",
    help="Start this version (default `.`), compare the tools that are answered with those in the store, and "
    "replay a trace; its model is asked.",
)
@json_option
def doctor(app: App, probe: str | None, as_json: bool) -> ExitCode:
    """Check versions, settings, keys, the store and the agent.

    Nothing is changed, and without --probe nothing of yours is run: entrypoint and tools are looked up in the
    source code. Keys are looked up, never printed. Exits with 2 if a check fails.

    \b
    Examples:
      replay doctor
      replay doctor --probe
      replay doctor --probe candidate
    """
    diagnosis = diagnose(lambda: app.settings, lambda: app.store_path, probe=probe)
    if as_json:
        print_json(diagnosis.to_dict())
    else:
        for finding in diagnosis.findings:
            click.echo(f"{finding.state:<6} {finding.name:<12} {finding.text}")
    return diagnosis.exit_code
