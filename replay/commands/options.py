"""What the commands share: the `App` that each receives, and options that several take."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

if TYPE_CHECKING:
    import logging

    from replaydiff.replay.api.project import Project
    from replaydiff.replay.commands.log_file import LogFile
    from replaydiff.replay.settings import Settings

    _Integer = click.ParamType[int]
else:
    _Integer = click.ParamType  # before click 8.4 it takes no type

P = ParamSpec("P")
R = TypeVar("R")
_INT64 = 2**63
_SECONDS_BETWEEN_LINES = 5
_logs: list[LogFile] = []
"""The log of the command that runs, where it has one."""


class Seed(_Integer):
    """An integer that the store can keep. Not an `IntRange`, whose help would show nothing but its limits."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seed.

        Args:
            value: what was given.
            param: the option.
            ctx: of the command.
        """
        number: int = click.INT.convert(value, param, ctx)
        if not -_INT64 <= number < _INT64:
            self.fail(f"{number} is not between {-_INT64} and {_INT64 - 1}", param, ctx)
        return number


@dataclass
class App:
    """The state of one invocation: the common options, and the project, opened at first use."""

    db: str | None = None
    debug: bool = False
    assignments: tuple[str, ...] = ()
    log: LogFile | None = None
    as_json: bool = False

    @cached_property
    def settings(self) -> Settings:
        """Return the settings: replay.toml, environment, `--set`; read when used."""
        from replaydiff.replay.settings import load

        return load(assignments=self.assignments)

    @property
    def store_path(self) -> Path:
        """Return the store: `--db`, else `REPLAY_DB`, else what the settings name."""
        return Path(self.db) if self.db else self.settings.store_path

    @cached_property
    def project(self) -> Project:
        """Return the project of the current folder, which every command calls."""
        from replaydiff.replay.api.channel import Channel
        from replaydiff.replay.api.project import Project
        from replaydiff.replay.terminal.progress import progress

        channel = Channel(message=say, progress=progress, status=status)
        return Project(self.settings, self.store_path, channel=channel)

    def printed_json(self, document: Any) -> bool:
        """Print a document (or what this function returns) if `--json` was given; return whether it was."""
        if self.as_json:
            print_json(document() if callable(document) else document)
        return self.as_json


def _set(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if value not in (None, False, ()):
            app = ctx.ensure_object(App)
            setattr(app, name, (*app.assignments, *value) if name == "assignments" else value)

    return callback


def _debug(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if not value:
        return
    import logging

    ctx.ensure_object(App).debug = True

    class StderrHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            at = time.strftime("%H:%M:%S", time.localtime(record.created))
            _print(f"{at} {record.getMessage()}")

    _listen(ctx, StderrHandler())


def _log(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    from replaydiff.replay.commands.log_file import LogFile
    from replaydiff.replay.version import described

    app = ctx.ensure_object(App)
    app.log = LogFile(value)
    app.log.write("begin", f"replay {ctx.info_name}", version=described())
    _listen(ctx, app.log)
    _logs.append(app.log)
    ctx.call_on_close(_logs.clear)


def _listen(ctx: click.Context, handler: logging.Handler) -> None:
    """Give a handler what the library logs, until the command has ended."""
    import logging

    log = logging.getLogger("replaydiff")
    level, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False

    @ctx.call_on_close
    def reset() -> None:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate


def common_options(command: Callable[..., Any], *, hidden: bool = True) -> Callable[..., Any]:
    """Add `--db`, `--set` and `--debug`, which are accepted before and after a command's name.

    Args:
        command: what gets them.
        hidden: leave them out of its help: `replay --help` shows them once for all.
    """
    options = (
        click.option(
            "--db", metavar="FILE", expose_value=False, callback=_set("db"), hidden=hidden,
            help="The store; default .replay/replay.duckdb beside replay.toml, or REPLAY_DB.",
        ),
        click.option(
            "--set", metavar="SECTION.KEY=VALUE", multiple=True, expose_value=False,
            callback=_set("assignments"), hidden=hidden,
            help="Another value of a setting for this command (repeatable), such as run.retries=0.",
        ),
        click.option(
            "--debug", is_flag=True, expose_value=False, callback=_debug, hidden=hidden,
            help="Log checkouts, workers, each trial and attempt to stderr, and show tracebacks of errors.",
        ),
        click.option(
            "--log", metavar="FILE", expose_value=False, callback=_log, hidden=hidden,
            help="Append the same to a file as JSON lines, with messages and agents' tracebacks.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def command(name: str, **kwargs: Any) -> Callable[[Callable[Concatenate[App, P], Any]], click.Command]:
    """Declare a command: its function gets the App first, then its options.

    The first line of the docstring is the command's line in `replay --help` (`COMMANDS` in replay/cli.py).
    """

    def declare(function: Callable[Concatenate[App, P], Any]) -> click.Command:
        @functools.wraps(function)
        def invoke(*args: P.args, **options: P.kwargs) -> Any:
            return function(click.get_current_context().ensure_object(App), *args, **options)

        declare_click: Callable[[Callable[..., Any]], click.Command] = click.command(name, **kwargs)
        declared = declare_click(common_options(invoke))
        return declared

    return declare


json_option = click.option(
    "--json", is_flag=True, expose_value=False, callback=_set("as_json"),
    help="Print one JSON document on stdout.",
)  # fmt: skip
metrics_option = click.option(
    "--metric",
    "metrics",
    metavar="NAME",
    multiple=True,
    help="Show this metric (repeatable): tool_calls, judge, score:NAME …; default all that have grades.",
)
gate_option = click.option(
    "--gate",
    metavar="EXPR",
    multiple=True,
    help="'default', or a condition such as 'regressed<=2' (repeatable): decides the exit code.",
)
golden_option = click.option(
    "--cases", "path", type=click.Path(path_type=Path), help="The golden set; default [cases] path."
)
candidate_option = click.option(
    "--lane",
    metavar="LANE",
    help="In a run with several --new: the one to show (new, new2 …); default the one that ranks first.",
)


def print_json(document: Any) -> None:
    """Write one JSON document to stdout, and nothing else."""
    from replaydiff.replay.model.json import json_text
    from replaydiff.replay.terminal.text import shown_json

    sys.stdout.write(f"{shown_json(json_text(document))}\n")


def print_json_parts(parts: Iterable[str]) -> None:
    """Write one JSON document in parts, each of whole lines, to stdout, and nothing else."""
    from replaydiff.replay.terminal.text import shown_json

    for part in parts:
        sys.stdout.write(shown_json(part))
    sys.stdout.write("\n")


def say(text: str) -> None:
    """Print a line for people: always to stderr, so that stdout carries data alone."""
    _print(text)
    for log in _logs:
        log.write("message", text)


@contextmanager
def status(work: str) -> Iterator[Callable[[str], None]]:
    """Show the progress of requests to a server, by text that begins with `work`.

    One line that changes on a terminal, a line now and then elsewhere.
    """
    from rich.console import Console

    from replaydiff.replay.terminal.text import single_line

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(work) as shown:
            yield lambda text: shown.update(single_line(text))
        return
    last = time.monotonic()

    def print_sometimes(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            say(single_line(text))

    yield print_sometimes


def _print(text: str) -> None:
    # Not click.echo: it writes past what a progress bar puts in front of stderr, and into the bar.
    from replaydiff.replay.masking import masked
    from replaydiff.replay.terminal.text import visible

    print(visible(masked(text)), file=sys.stderr)  # noqa: T201
