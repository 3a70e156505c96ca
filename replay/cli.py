"""The door: a table of commands, imported one at a time, and errors turned into sentences and exit codes."""

from __future__ import annotations

import keyword
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from replaydiff.replay.commands.options import App, common_options
from replaydiff.replay.errors import ExitCode, Interrupted, ReplayError
from replaydiff.replay.version import VERSION

COMMANDS: dict[str, dict[str, str]] = {
    "Start": {
        "demo": "Do the whole job on bundled traces, with no credentials.",
        "init": "Write replay.toml, a golden set and a CI workflow.",
        "doctor": "Check versions, settings, keys and the store.",
        "completion": "Print the script that completes commands in your shell.",
    },
    "Traces": {
        "import": "Bring production traces into the store.",
        "traces": "List the traces in the store.",
        "show": "Show a trace, trial or case as a readable transcript.",
        "sample": "Draw a stratified, reproducible sample of traces.",
        "export": "Write traces, samples, runs, grades or recorded model calls to a file.",
        "store": "Maintain the store file: info, merge, prune, compact.",
    },
    "Compare versions": {
        "run": "Replay a sample or golden set against two versions.",
        "diff": "Report which items improved or regressed, and whether to ship.",
        "report": "Write a run's report: terminal, HTML, Markdown, JSON, JUnit.",
        "view": "Show runs, traces and trends in a browser; triage there.",
        "compare": "Sample, run, diff and report in one.",
        "calibrate": "Compare the judge with hand labels.",
        "trend": "Report a metric over runs, and which runs drifted.",
        "plan": "Report how many items and trials detect a change, at what price.",
    },
    "Cases": {
        "triage": "Review what changed or looks odd.",
        "promote": "Turn items into cases of the golden set.",
        "dismiss": "Set items aside, with a reason.",
        "check": "Check one version against the golden set.",
        "cases": "Maintain the golden set: list, show, edit, lint, stats, …",
        "push": "Send the golden set or a run's result to Langfuse.",
    },
}
"""Commands by their heading: the name and its line in `replay --help`.

The command NAME is the function of that name in `replay.commands.NAME`, imported when it is called.
"""


class LazyGroup(click.Group):
    """Lists commands from the table and imports one only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if not any(cmd_name in section for section in COMMANDS.values()):
            return None
        name = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        found = getattr(import_module(f"replaydiff.replay.commands.{name}"), name)
        assert isinstance(found, click.Command)  # noqa: S101 - the table is ours
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from replaydiff.replay.errors import UnknownNameError

            raise UnknownNameError("command", args[0], self.list_commands(ctx), "see replay --help")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl(list(section.items()), col_max=12)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with `replay demo`, or in your agent's repository with `replay init`.",
)
@click.version_option(VERSION, prog_name="replay")
@common_options
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Replay production traces of your agent against two versions; see what got better or worse."""
    ctx.ensure_object(App)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; every way out is an exit code of `replay.errors.ExitCode`."""
    app = App()
    try:
        result = cli.main(args=args, prog_name="replay", standalone_mode=False, obj=app)
        code = int(result) if isinstance(result, int) else ExitCode.OK
    except ReplayError as error:
        code = _fail(error, app, error.exit_code)
    except click.ClickException as error:
        error.show()
        code = ExitCode.WRONG_INPUT
    except (click.Abort, KeyboardInterrupt):
        code = _fail(Interrupted("interrupted"), app, ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader of stdout went away (`replay traces | head`); Python would complain once more at exit.
        sys.stderr.close()
        code = ExitCode.OK
    except OSError as error:
        if app.debug:
            raise
        place = f" ({error.filename})" if error.filename else ""
        code = _fail(
            ReplayError(f"the system refused: {error.strerror or error}{place}"), app, ExitCode.WRONG_INPUT
        )
    sys.exit(code)


def _fail(error: ReplayError, app: App, code: ExitCode) -> ExitCode:
    if app.debug:
        import traceback

        traceback.print_exc()
    click.echo(f"error: {error}" if code != ExitCode.INTERRUPTED else str(error), err=True)
    return code
