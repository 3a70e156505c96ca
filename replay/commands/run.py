"""`replay run`."""

from __future__ import annotations

import click

from replaydiff.replay.commands import replaying, telling
from replaydiff.replay.commands.replaying import GOLDEN, Asked, run_options
from replaydiff.replay.errors import ExitCode, SettingsError
from replaydiff.replay.options import App, command, json_option, log_option, print_json, say

LATEST = ""
"""`--resume` without a run."""


@command("run")
@click.option("--sample", metavar="NAME", help="The sample to replay; default the one drawn last.")
@click.option(
    "--cases",
    is_flag=False,
    flag_value=GOLDEN,
    metavar="[PATH]",
    help="Replay a golden set instead; bare: cases/golden.jsonl, or [cases] path.",
)
@click.option(
    "--resume",
    is_flag=False,
    flag_value=LATEST,
    metavar="[RUN]",
    help="Go on with a run that was interrupted or stopped by its budget; bare: the latest such run.",
)
@run_options
@log_option
@json_option
def run(
    app: App, asked: Asked, sample: str | None, cases: str | None, resume: str | None, as_json: bool
) -> ExitCode:
    """Replay a sample or golden set against two versions.

    Every item runs in both versions, tool calls answered from its recording, in worker processes of their
    own. A VERSION is a name of [versions] in replay.toml, git:REF, a folder such as `.`, model=NAME, observed
    (what production recorded) or observed:CONDITION; also http://…, cmd:PROGRAM and messages, for agents in
    other languages and for none at all. An interrupted run loses nothing: --resume goes on.

    With --mode step each recorded decision of the model is asked again as it stood, and the next action
    compared: no agent code is needed, and the run says at which decision two models part.

    \b
    Examples:
      replay run --sample october --old prod --new candidate --trials 3 --aa
      replay run --cases --old git:v1.4.0 --new .
      replay run --old prod --new candidate --new model=claude-sonnet-5-5 --trials 3
      replay run --mode step --old observed --new model=claude-sonnet-5-5
      replay run --resume
    """
    from replaydiff.replay.engine.run import resume as resume_run

    settings = asked.settings(app.settings)
    if resume is not None:
        asked.refuse_beside_resume()
        if sample is not None or cases is not None:
            raise SettingsError("--resume goes on with the items of its run; leave --sample and --cases out")
        # Limits of the settings are for new runs; a resumed one has its own.
        settings = replaying.with_limits(settings, asked)
    judge = replaying.choose_judge(asked, settings)
    if resume is not None:
        done = replaying.replay_and_judge(
            app,
            judge,
            lambda hooks: resume_run(app.store_path, resume or None, settings, hooks=hooks),
        )
    else:
        lanes = replaying.choose_lanes(asked, settings)
        source = replaying.choose_items(app, asked, settings, sample, cases)
        done = replaying.replay_and_judge(app, judge, replaying.starting(app, asked, settings, source, lanes))
    if as_json:
        print_json(telling.document(done, telling.partings_of(app, done.report)))
    else:
        from replaydiff.replay.terminal.table import show

        show(telling.summary(done, telling.partings_of(app, done.report)))
        say(f"next: replay diff {done.report.run.id}")
    return done.code
