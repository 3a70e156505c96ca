"""`replay doctor`."""

from __future__ import annotations

from dataclasses import asdict

import click

from replaydiff.replay.api.diagnosis import State, diagnose
from replaydiff.replay.commands.options import App, command, json_option, print_json
from replaydiff.replay.errors import ExitCode


@command("doctor")
@json_option
def doctor(app: App, as_json: bool) -> ExitCode:
    """Check versions, settings, keys and the store.

    Nothing is changed and nothing is called. Keys are looked up, never printed. Exits with 2 if a check
    fails.

    \b
    Example:
      replay doctor
    """
    checks = diagnose(lambda: app.settings, lambda: app.store_path)
    wrong = any(check.state is State.WRONG for check in checks)
    if as_json:
        print_json({"ok": not wrong, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            click.echo(f"{check.state:<6} {check.name:<12} {check.text}")
    return ExitCode.WRONG_INPUT if wrong else ExitCode.OK
