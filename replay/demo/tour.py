"""The demo: the commands of a whole comparison, run one after the other, each with its purpose.

Every command is run through `replay.cli` in the demo's folder, exactly as a user would type it. Only files
are prepared beforehand; no result is.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from replaydiff.replay.demo import repository
from replaydiff.replay.demo.repository import DemoJudge
from replaydiff.replay.demo.stand_in import HOST, StandIn, answers_at
from replaydiff.replay.errors import ExitCode, InputError, ReplayError, worst_exit
from replaydiff.replay.terminal.text import encodable
from replaydiff.replay.trust import VARIABLE as TRUST

FOLDER = "replay-demo"
PORT = 8764
"""Default port of the stand-in."""
MONTH = "2026-10"
SAMPLE = "october"
REPORT = "report.html"
MAX_COLUMNS = 100
"""Width of a paragraph."""
STAND_IN_JUDGE = DemoJudge(model="claude-opus-5-5", votes=3)


@dataclass(frozen=True, slots=True)
class DemoCommand:
    """One command of the demo."""

    purpose: str
    args: tuple[str, ...]


def demo_commands(run_options: Sequence[str] = (), size: int = 50) -> list[DemoCommand]:
    """Return the commands of the demo in order.

    Args:
        run_options: added to `replay run`.
        size: of the sample.
    """
    versions = ("--old", "git:v1", "--new", "git:v2")
    return [
        DemoCommand(
            "Import two months of production traces into the store, a file in .replay/.",
            ("import", "jsonl", "traces.jsonl"),
        ),
        DemoCommand(
            f"Draw a sample of October: {size} traces, with every tool path.",
            ("sample", "--month", MONTH, "--size", str(size), "--name", SAMPLE),
        ),
        DemoCommand(
            "Run both versions on the sample, three times each, and the old version once more to measure "
            "the noise. Tools answer from the recordings, so nothing is cancelled. The judge grades every "
            "answer.",
            ("run", "--sample", SAMPLE, *versions, "--trials", "3", "--aa", *run_options),
        ),
        DemoCommand(
            "Write the report as a web page.",
            ("report", "--format", "html", "-o", REPORT),
        ),
        DemoCommand("Show what changed, and whether to ship.", ("diff",)),
    ]


def default_folder() -> Path:
    """Return the current folder if it is a demo, else `./replay-demo`."""
    current = Path()
    return current if repository.is_demo(current) else Path(FOLDER)


def serve(folder: Path) -> None:
    """Run the stand-in of a demo folder until interrupted, or until the parent process ends.

    Raises:
        InputError: the folder is not a demo, or its demo uses the real API.
        ReplayError: the port is taken.
    """
    if not repository.is_demo(folder):
        raise InputError(f"{folder} was not made by `replay demo`; make one with: replay demo {folder}")
    if repository.is_live(folder):
        raise InputError(f"the demo in {folder} uses the real API and needs no stand-in")
    with StandIn(port=repository.port_of(folder)) as stand_in, contextlib.suppress(KeyboardInterrupt):
        click.echo(
            f"The model stand-in of {folder.resolve()} listens at {stand_in.url}. Stop it with Ctrl-C."
        )
        stand_in.serve_until_orphaned()
    with contextlib.suppress(OSError):
        click.echo(f"Answered {stand_in.answered} requests.")


def run_with_stand_in(folder: Path, port: int | None = None) -> ExitCode:
    """Run the demo with the model stand-in.

    Args:
        folder: of the demo; made if it does not exist.
        port: of the stand-in in a new folder; None for the default port, or a free one if that is taken.

    Raises:
        InputError: the folder holds other files, or a demo with another port or the real API.
        ReplayError: the port is taken, or git is missing.
    """
    with _stand_in_port(folder, port) as stand_in_port:
        is_new = repository.prepare(folder, live=False, port=stand_in_port, judge=STAND_IN_JUDGE)
        _print_introduction(folder, is_new)
        _print_paragraph(
            f"The model is a stand-in: a small program at http://{HOST}:{stand_in_port} on this machine that "
            "implements the Messages API. The agents and the judge call it through the real SDK. It needs no "
            "key and costs nothing.",
            bold=True,
        )
        code = _run(folder, demo_commands())
        _print_summary(folder, code, live=False)
        return code


def run_live(folder: Path, judge: DemoJudge, size: int, budget_usd: float) -> ExitCode:
    """Run the demo with the real API. The caller has confirmed the cost with the user."""
    is_new = repository.prepare(folder, live=True, port=0, judge=judge)
    _print_introduction(folder, is_new)
    _print_paragraph("The model is the real API: its answers cost money.", bold=True)
    code = _run(folder, demo_commands(("--budget", f"{budget_usd:g}"), size))
    _print_summary(folder, code, live=True)
    return code


@contextlib.contextmanager
def _stand_in_port(folder: Path, requested: int | None) -> Iterator[int]:
    """Yield the port of a stand-in for the folder; starts one unless `replay demo --serve` is running."""
    if repository.is_demo(folder) and not repository.is_live(folder) and (folder / "replay.toml").is_file():
        port = repository.port_of(folder)
        if requested not in (None, port):
            raise InputError(
                f"the stand-in of {folder} uses port {port}, as its replay.toml says; change the port there"
            )
        if answers_at(port):
            yield port
            return
        with StandIn(port=port) as stand_in:
            yield stand_in.port
        return
    repository.check_folder(folder)
    with StandIn(port=requested) if requested else _at_default_or_free_port() as stand_in:
        yield stand_in.port


def _at_default_or_free_port() -> StandIn:
    try:
        return StandIn(port=PORT)
    except ReplayError:
        return StandIn()


def _print_introduction(folder: Path, is_new: bool) -> None:
    shown = folder if folder != Path() else folder.resolve()
    _print_paragraph(
        f"{'Made' if is_new else 'Found'} {shown}: the git repository of a support agent that looks up and "
        "cancels orders. Production runs v1. v2 has a new prompt: it should stop the agent from cancelling "
        "orders without a confirmation when customers press for it. Does it, and what else does it change?"
    )
    click.echo()


def _run(folder: Path, commands: Sequence[DemoCommand]) -> ExitCode:
    codes = []
    with contextlib.chdir(folder), _without_replay_variables():
        for number, command in enumerate(commands, start=1):
            click.echo()
            _print_paragraph(f"{number}. {command.purpose}", dim=True)
            click.secho(f"$ replay {shlex.join(command.args)}", bold=True)
            sys.stdout.flush()
            codes.append(_invoke(command.args))
            sys.stdout.flush()
    return worst_exit(codes)


def _invoke(args: Sequence[str]) -> ExitCode:
    from replaydiff.replay.cli import cli
    from replaydiff.replay.commands.options import App

    result = cli.main(args=list(args), prog_name="replay", standalone_mode=False, obj=App())
    return ExitCode(result) if isinstance(result, int) else ExitCode.OK


@contextlib.contextmanager
def _without_replay_variables() -> Iterator[None]:
    """Remove the user's settings (`REPLAY_…` variables), which are for their own project."""
    names = [name for name in os.environ if name.startswith("REPLAY_") and name != TRUST]
    removed = {name: os.environ.pop(name) for name in names}
    try:
        yield
    finally:
        os.environ.update(removed)


def _print_summary(folder: Path, code: ExitCode, *, live: bool) -> None:
    diff = _latest_diff(folder)
    items = {
        verdict: [case["id"] for case in diff["cases"] if case["verdict"] == verdict]
        for verdict in ("regressed", "mixed", "improved")
    }
    click.echo()
    _print_paragraph(f"{diff['answer']}: {diff['reason']}", bold=True)
    for verdict, ids in items.items():
        if ids:
            _print_paragraph(f"{verdict}: {len(ids)}, for example {_example(diff, ids[0])}")
    click.echo(f"Report: {(folder / REPORT).resolve().as_uri()}")
    if code is not ExitCode.OK:
        click.echo("Some trials ended in an error; the bounds of the metrics include them.")
    click.echo("\nNext steps:")
    _print_commands(_next_steps(folder, diff["run"]["id"], items, live=live))


def _next_steps(
    folder: Path, run_id: str, items: dict[str, list[str]], *, live: bool
) -> list[tuple[str, str]]:
    """Return the commands to continue with, each with its purpose."""
    worse, better = (items["regressed"] or items["mixed"]), items["improved"]
    commands = [(f"cd {shlex.quote(str(folder))}", "")] if folder.resolve() != Path.cwd() else []
    if activate := _activate_command():
        commands.insert(0, (activate, "puts `replay` on PATH"))
    commands.append(("git diff v1 v2", "what the new version changed"))
    if worse:
        commands += [
            (f"replay show {worse[0]} --run {run_id}", "a regressed item: every trial, and the reason"),
            (f"replay promote {worse[0]} --run {run_id}", "add it to the golden set as recorded"),
        ]
    if better:
        commands.append(
            (
                f"replay promote {better[0]} --run {run_id} --expect new",
                "add an improved item as v2 answers it",
            )
        )
    if not live:
        commands.append(("replay demo --serve &", "start the stand-in for commands that run the agent"))
    commands.append(("replay check --new v2", "check v2 against the golden set, as CI would"))
    return commands


def _example(diff: dict[str, Any], case_id: str) -> str:
    """Return an item with the reason of its verdict, from the first metric that has that verdict."""
    case = next(case for case in diff["cases"] if case["id"] == case_id)
    name, metric = next(
        (name, metric)
        for name, metric in case["metrics"].items()
        if metric["verdict"] in (case["verdict"], "regressed")
    )
    return f"{case_id} on {name}: {metric['reason']}"


def _print_commands(commands: Sequence[tuple[str, str]]) -> None:
    """Print commands with their purpose: beside the command if it fits, else above it."""
    longest = max(len(line) for line, _ in commands)
    fits = _columns() - longest - 4 >= max(len(purpose) + 2 for _, purpose in commands)
    for line, purpose in commands:
        comment = click.style(f"# {purpose}", dim=True) if purpose else ""
        if not fits and comment:
            click.echo(f"  {comment}")
        click.echo(f"  {line:<{longest}}  {comment}".rstrip() if fits else f"  {line}")


def _latest_diff(folder: Path) -> dict[str, Any]:
    """Return the document of `replay diff --json` for the latest run."""
    out = io.StringIO()
    with contextlib.chdir(folder), _without_replay_variables(), contextlib.redirect_stdout(out):
        _invoke(("diff", "--json"))
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


def _activate_command() -> str | None:
    """Return the command that puts `replay` on this shell's PATH; None if it is there already."""
    program = shutil.which("replay")
    script = Path(sys.prefix) / "bin" / "activate"
    if program and Path(program).parent == script.parent:
        return None
    return f"source {shlex.quote(str(_relative(script)))}" if script.is_file() else None


def _relative(path: Path) -> Path:
    """Return the path relative to the current folder if it lies inside."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _print_paragraph(text: str, **style: bool) -> None:
    """Print a paragraph wrapped to the terminal's width."""
    shown = encodable(click.wrap_text(text, min(_columns(), MAX_COLUMNS)), sys.stdout.encoding)
    click.secho(shown, **style)  # type: ignore[arg-type]


def _columns() -> int:
    return shutil.get_terminal_size((MAX_COLUMNS, 24)).columns
