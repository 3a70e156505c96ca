"""The demo itself: the commands a person would type, run one after the other, with what each is for.

Every command goes through the same door as a typed one (`replay.cli`), in the demo's folder. Nothing is
prepared for them but files, and no result is known beforehand.
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
from replaydiff.replay.demo.repository import Judging
from replaydiff.replay.demo.stand_in import HOST, StandIn, answers_at
from replaydiff.replay.errors import ExitCode, InputError, ReplayError, worst_exit
from replaydiff.replay.terminal.plain import encodable

FOLDER = "replay-demo"
PORT = 8764
"""Of the stand-in, unless something else listens there."""
MONTH = "2026-10"
SAMPLE = "october"
REPORT = "report.html"
WIDEST = 100
"""Columns of a paragraph."""
WITH_STAND_IN = Judging(model="claude-opus-5-5", votes=3)


@dataclass(frozen=True, slots=True)
class Step:
    """One command of the demo."""

    why: str
    args: tuple[str, ...]


def steps(run_options: Sequence[str] = (), size: int = 50) -> list[Step]:
    """The whole job."""
    return [
        Step(
            "Two months of production traces go into the store, a file in .replay/.",
            ("import", "jsonl", "traces.jsonl"),
        ),
        Step(
            f"A sample of October: {size} traces, every tool path among them.",
            ("sample", "--month", MONTH, "--size", str(size), "--name", SAMPLE),
        ),
        Step(
            "Both versions answer them again, three times, and the old one once more to learn the noise. "
            "Tools answer from the recordings; nothing is cancelled. The judge reads every answer.",
            (
                "run",
                "--sample",
                SAMPLE,
                "--old",
                "git:v1",
                "--new",
                "git:v2",
                "--trials",
                "3",
                "--aa",
                *run_options,
            ),
        ),
        Step("The same report as a page for the browser.", ("report", "--format", "html", "-o", REPORT)),
        Step("What changed, and whether to ship.", ("diff",)),
    ]


def default_folder() -> Path:
    """The current folder where it is a demo, else `./replay-demo`."""
    here = Path()
    return here if repository.is_demo(here) else Path(FOLDER)


def serve(folder: Path) -> None:
    """Run the stand-in that the folder's settings name, until interrupted.

    Raises:
        InputError: the folder is no demo, or one that uses the real API.
        ReplayError: its port is taken.
    """
    if not repository.is_demo(folder):
        raise InputError(f"{folder} was not made by `replay demo`; make one with: replay demo {folder}")
    if repository.is_live(folder):
        raise InputError(f"the demo in {folder} uses the real API and needs no stand-in")
    with StandIn(port=repository.port_of(folder)) as stand_in:
        click.echo(f"The model stand-in of {folder.resolve()} listens at {stand_in.url}. Ctrl-C ends it.")
        with contextlib.suppress(KeyboardInterrupt):
            stand_in.wait()
    click.echo(f"{stand_in.answered} requests were answered.")


def with_stand_in(folder: Path, port: int | None = None) -> ExitCode:
    """The demo with the model stand-in, which in a new folder listens at `port`, or where it can.

    Raises:
        InputError: the folder holds something else, or a demo with another port or the real API.
        ReplayError: the port is taken, or git is missing.
    """
    with _listening(folder, port) as found:
        made = repository.prepare(folder, live=False, port=found, judging=WITH_STAND_IN)
        _introduce(folder, made)
        _tell(
            f"The model is a stand-in: a small program at http://{HOST}:{found} on this machine that speaks "
            "the Messages API. Agents and judge ask it through the real SDK. It takes no key and no money.",
            bold=True,
        )
        code = _run(folder, steps())
        _close(folder, code, live=False)
        return code


def live(folder: Path, judging: Judging, size: int, budget_usd: float) -> ExitCode:
    """The demo with the real API; whoever calls has asked the person."""
    made = repository.prepare(folder, live=True, port=0, judging=judging)
    _introduce(folder, made)
    _tell("The model is the real API: what it answers is paid for.", bold=True)
    code = _run(folder, steps(("--budget", f"{budget_usd:g}"), size))
    _close(folder, code, live=True)
    return code


@contextlib.contextmanager
def _listening(folder: Path, wanted: int | None) -> Iterator[int]:
    """The stand-in's port, with something listening there."""
    if repository.is_demo(folder) and not repository.is_live(folder) and (folder / "replay.toml").is_file():
        port = repository.port_of(folder)
        if wanted not in (None, port):
            raise InputError(
                f"the stand-in of {folder} listens at {port}, as its replay.toml says; mend it there"
            )
        if answers_at(port):
            # `replay demo --serve` is running.
            yield port
            return
        with StandIn(port=port) as stand_in:
            yield stand_in.port
        return
    repository.refuse_foreign(folder)
    with StandIn(port=wanted) if wanted else _at_a_free_port() as stand_in:
        yield stand_in.port


def _at_a_free_port() -> StandIn:
    try:
        return StandIn(port=PORT)
    except ReplayError:
        return StandIn()


def _introduce(folder: Path, made: bool) -> None:
    shown = folder if folder != Path() else folder.resolve()
    _tell(
        f"{'Made' if made else 'Found'} {shown}: the git repository of a support agent that looks orders up "
        "and cancels them. Production runs v1. v2 has a new prompt: it is to stop cancelling orders unasked "
        "when customers press for it. Does it, and what else does it do?"
    )
    click.echo()


def _run(folder: Path, job: Sequence[Step]) -> ExitCode:
    codes = []
    with contextlib.chdir(folder), _without_overrides():
        for number, step in enumerate(job, start=1):
            click.echo()
            _tell(f"{number}. {step.why}", dim=True)
            click.secho(f"$ replay {shlex.join(step.args)}", bold=True)
            sys.stdout.flush()
            codes.append(_invoke(step.args))
            sys.stdout.flush()
    return worst_exit(codes)


def _invoke(args: Sequence[str]) -> ExitCode:
    from replaydiff.replay.cli import cli
    from replaydiff.replay.options import App

    result = cli.main(args=list(args), prog_name="replay", standalone_mode=False, obj=App())
    return ExitCode(result) if isinstance(result, int) else ExitCode.OK


@contextlib.contextmanager
def _without_overrides() -> Iterator[None]:
    """Settings of the person's own environment (REPLAY_…) are for their project, not for the demo's."""
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("REPLAY_")}
    try:
        yield
    finally:
        os.environ.update(kept)


def _close(folder: Path, code: ExitCode, *, live: bool) -> None:
    found = _found(folder)
    run = found["run"]["id"]
    of = {
        verdict: [case["id"] for case in found["cases"] if case["verdict"] == verdict]
        for verdict in ("regressed", "mixed", "improved")
    }
    click.echo()
    _tell(f"{found['answer']}: {found['reason']}", bold=True)
    for verdict, ids in of.items():
        if ids:
            _tell(f"{verdict} {len(ids)}: {_example(found, ids[0])}")
    click.echo(f"The report: {(folder / REPORT).resolve().as_uri()}")
    if code is not ExitCode.OK:
        click.echo("Some trials ended in an error; they stand in the bounds of the figures.")
    click.echo("\nGo on from here:")
    worse, better = (of["regressed"] or of["mixed"]), of["improved"]
    commands = [(f"cd {shlex.quote(str(folder))}", "")] if folder.resolve() != Path.cwd() else []
    if activate := _activate():
        commands.insert(0, (activate, "so that `replay` is found"))
    commands.append(("git diff v1 v2", "what the new version changed"))
    if worse:
        commands += [
            (f"replay show {worse[0]} --run {run}", "one that got worse: every trial, and why"),
            (f"replay promote {worse[0]} --run {run}", "make it a case, as it was recorded"),
        ]
    if better:
        commands.append(
            (f"replay promote {better[0]} --run {run} --expect new", "one that got better, as v2 does it")
        )
    if not live:
        commands.append(("replay demo --serve &", "the stand-in again, for what runs the agent"))
    commands.append(("replay check --new v2", "hold v2 against the golden set, as CI would"))
    _list(commands)


def _example(found: dict[str, Any], case_id: str) -> str:
    """Why one of the cases that changed did, on the first metric that says so."""
    case = next(case for case in found["cases"] if case["id"] == case_id)
    name, metric = next(
        (name, metric)
        for name, metric in case["metrics"].items()
        if metric["verdict"] in (case["verdict"], "regressed")
    )
    return f"{case_id}, for one, on {name}: {metric['reason']}"


def _list(commands: Sequence[tuple[str, str]]) -> None:
    """Commands with what each does: beside it where there is room, else above it."""
    longest = max(len(line) for line, _ in commands)
    room = _columns() - longest - 4 >= max(len(what) + 2 for _, what in commands)
    for line, what in commands:
        told = click.style(f"# {what}", dim=True) if what else ""
        if not room and told:
            click.echo(f"  {told}")
        click.echo(f"  {line:<{longest}}  {told}".rstrip() if room else f"  {line}")


def _found(folder: Path) -> dict[str, Any]:
    """The diff of the latest run, as any program would read it."""
    out = io.StringIO()
    with contextlib.chdir(folder), _without_overrides(), contextlib.redirect_stdout(out):
        _invoke(("diff", "--json"))
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def _activate() -> str | None:
    """What makes `replay` a command of this shell, where it is none."""
    found = shutil.which("replay")
    script = Path(sys.prefix) / "bin" / "activate"
    if found and Path(found).parent == script.parent:
        return None
    return f"source {shlex.quote(str(_near(script)))}" if script.is_file() else None


def _near(path: Path) -> Path:
    """Relative to the current folder where it lies in it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _tell(text: str, **style: bool) -> None:
    """A paragraph in the terminal's width."""
    shown = encodable(click.wrap_text(text, min(_columns(), WIDEST)), sys.stdout.encoding)
    click.secho(shown, **style)  # type: ignore[arg-type]


def _columns() -> int:
    return shutil.get_terminal_size((WIDEST, 24)).columns
