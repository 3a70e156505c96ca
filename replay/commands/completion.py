"""`replay completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from replaydiff.replay.commands.options import App, command


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(_app: App, shell: str) -> None:
    """Print the script that completes commands in your shell.

    \b
    Example:
      replay completion bash >> ~/.bashrc
      replay completion fish > ~/.config/fish/completions/replay.fish
    """
    from replaydiff.replay.cli import cli

    shells = get_completion_class(shell)
    assert shells is not None  # noqa: S101 - the choice lists only what click has
    click.echo(shells(cli, {}, "replay", "_REPLAY_COMPLETE").source())
