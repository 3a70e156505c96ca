"""The door: a table of commands, imported one at a time, and errors turned into sentences and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, NoReturn

import click

from replay import __version__
from replay.errors import ExitCode, Interrupted, ReplayError
from replay.options import App, common_options


class Entry(NamedTuple):
    """Where a command lives, and its line in `replay --help`."""

    target: str
    """`module:attr`, imported when the command is called."""
    summary: str


COMMANDS: dict[str, dict[str, Entry]] = {
    "Start": {
        "demo": Entry(
            "replay.commands.demo:demo", "Do the whole job on bundled traces, with no credentials."
        ),
        "init": Entry("replay.commands.init:init", "Write replay.toml, a golden set and a CI workflow."),
        "doctor": Entry("replay.commands.doctor:doctor", "Check versions, settings, keys and the store."),
        "completion": Entry(
            "replay.commands.completion:completion", "Print the script that completes commands in your shell."
        ),
    },
    "Traces": {
        "import": Entry("importers.commands.import_:import_", "Bring production traces into the store."),
        "traces": Entry("replay.commands.traces:traces", "List the traces in the store."),
        "show": Entry("replay.commands.show:show", "Show a trace, trial or case as a readable transcript."),
        "sample": Entry("replay.commands.sample:sample", "Draw a stratified, reproducible sample of traces."),
        "export": Entry(
            "replay.commands.export:export",
            "Write traces, samples, runs, grades or recorded model calls to a file.",
        ),
        "store": Entry(
            "replay.commands.store:store", "Care for the store file: info, merge, prune, compact."
        ),
    },
    "Compare versions": {
        "run": Entry("replay.commands.run:run", "Replay a sample or golden set against two versions."),
        "diff": Entry(
            "diff.commands.diff:diff", "Say which items improved or regressed, and whether to ship."
        ),
        "report": Entry(
            "reports.commands.report:report", "Write a run's report: terminal, HTML, Markdown, JSON, JUnit."
        ),
        "view": Entry(
            "reports.commands.view:view", "Show runs, traces and trends in a browser; triage there."
        ),
        "compare": Entry("replay.commands.compare:compare", "Sample, run, diff and report in one."),
        "calibrate": Entry("diff.commands.calibrate:calibrate", "Hold the judge against labels by hand."),
        "trend": Entry("diff.commands.trend:trend", "Follow a metric over runs; name what left the noise."),
        "plan": Entry(
            "diff.commands.plan:plan", "Say how many items and trials show a change, at what price."
        ),
    },
    "Cases": {
        "triage": Entry("cases.commands.triage:triage", "Go through what changed or looks odd."),
        "promote": Entry("cases.commands.promote:promote", "Turn items into cases of the golden set."),
        "dismiss": Entry("cases.commands.dismiss:dismiss", "Put items aside, with a reason."),
        "check": Entry("cases.commands.check:check", "Hold one version against the golden set."),
        "cases": Entry(
            "cases.commands.cases:cases", "Care for the golden set: list, show, edit, lint, stats, …"
        ),
        "push": Entry("cases.commands.push:push", "Send the golden set or a run's result to Langfuse."),
    },
}
"""Commands by the heading they stand under."""


class LazyGroup(click.Group):
    """Lists commands from the table and imports one only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = next((section[cmd_name] for section in COMMANDS.values() if cmd_name in section), None)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        found = getattr(import_module(module), attribute)
        assert isinstance(found, click.Command)  # noqa: S101 - the table is ours
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from replay.errors import UnknownNameError

            raise UnknownNameError("command", args[0], self.list_commands(ctx), "see replay --help")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.summary) for name, entry in section.items()], col_max=12)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with `replay demo`, or in your agent's repository with `replay init`.",
)
@click.version_option(__version__, prog_name="replay")
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
