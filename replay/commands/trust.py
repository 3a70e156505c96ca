"""`replay trust`."""

from __future__ import annotations

from pathlib import Path

import click

from replaydiff.replay.commands.options import App, command
from replaydiff.replay.errors import ExitCode, InputError
from replaydiff.replay.settings import find
from replaydiff.replay.terminal.text import visible


@command("trust")
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option("--undo", is_flag=True, help="Trust the folder no longer.")
@click.option("--all", "shows", is_flag=True, help="Print all trusted folders and change nothing.")
def trust(_app: App, folder: Path, undo: bool, shows: bool) -> ExitCode:
    """Let commands run the functions that a project's folder names.

    The settings and the golden set of a project may name functions: graders, a redaction hook, a judge. Most
    commands only read, so they run such functions only in a folder that you trust. Commands that run the
    agent (run, check, compare, bisect, fork, doctor --probe) trust the folder they are used in. Read what the
    folder names before you trust it.

    FOLDER is the project's folder or one below it; the list is in your home. REPLAY_TRUST=1 in the
    environment trusts every folder, for CI.

    \b
    Examples:
      replay trust
      replay trust ../other-project
      replay trust --undo
    """
    from replaydiff.replay import trust as trusted

    if shows:
        for trusted_folder in trusted.trusted_folders():
            click.echo(visible(str(trusted_folder)))
        return ExitCode.OK
    if not folder.is_dir() and not undo:
        raise InputError(f"there is no folder {folder}", hint="name the folder of a project")
    file = find(folder)
    root = file.parent if file is not None else folder
    shown = visible(str(root.resolve()))
    if undo:
        was_trusted = trusted.distrust(root)
        click.echo(f"{shown} is trusted no longer" if was_trusted else f"{shown} was not trusted")
        return ExitCode.OK
    if not trusted.trust(root):
        raise InputError(
            f"{trusted.list_path()} cannot be written", hint="make it writable, or set REPLAY_TRUST=1"
        )
    click.echo(f"{shown} is trusted")
    return ExitCode.OK
