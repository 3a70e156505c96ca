"""`replay mcp`."""

from __future__ import annotations

import click

from replaydiff.replay.commands.options import App, command
from replaydiff.replay.errors import InputError


@command("mcp")
@click.option(
    "--budget",
    type=click.FloatRange(min=0),
    metavar="USD",
    help="The most that all calls together may be given as budgets; default no limit.",
)
def mcp(app: App, budget: float | None) -> None:
    """Serve these operations to a coding agent over MCP.

    Speaks the Model Context Protocol on stdin and stdout until the client closes them; a client starts this
    command itself. The tools import, sample, run, check and bisect; diff, causes and show read. A tool that
    runs your agent requires a budget, and accept, reject and promote require your confirmation in the client.

    Requires the packages of the extra `mcp`.

    \b
    Examples:
      replay mcp --budget 20
      claude mcp add replay -- replay mcp --budget 20
    """
    try:
        from replaydiff.replay.commands.mcp_server import serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise InputError(
            "replay mcp requires the MCP SDK, which is not installed",
            hint="install it again as 'replaydiff[mcp]', in place of 'replaydiff'",
        ) from None
    try:
        serve(app, budget)
    except KeyboardInterrupt:
        # This is how a person ends it.
        return
