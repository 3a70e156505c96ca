"""`replay doctor`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum

import click

from replaydiff.replay.commands.options import App, command, json_option, print_json
from replaydiff.replay.errors import ExitCode, ReplayError, StoreError
from replaydiff.replay.settings import RedactSection
from replaydiff.replay.version import VERSION

LIBRARIES = (
    "anthropic",
    "click",
    "duckdb",
    "jinja2",
    "langfuse",
    "msgspec",
    "numpy",
    "phonenumberslite",
    "rich",
    "scipy",
)
KEYS = (
    ("ANTHROPIC_API_KEY", "the judge"),
    ("OPENAI_API_KEY", 'the judge with provider = "openai"'),
    ("LANGFUSE_PUBLIC_KEY", "Langfuse"),
    ("LANGFUSE_SECRET_KEY", "Langfuse"),
)


class State(StrEnum):
    """How a check ended."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    name: str
    state: State
    text: str


@command("doctor")
@json_option
def doctor(app: App, as_json: bool) -> ExitCode:
    """Check versions, settings, keys and the store.

    Nothing is changed and nothing is called. Keys are looked for, never printed. Ends with 2 where
    something is wrong.

    \b
    Example:
      replay doctor
    """
    checks = [*_packages(), *_libraries(), *_settings(app), *_keys(), *_store(app)]
    wrong = any(check.state is State.WRONG for check in checks)
    if as_json:
        print_json({"ok": not wrong, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            click.echo(f"{check.state:<6} {check.name:<12} {check.text}")
    return ExitCode.WRONG_INPUT if wrong else ExitCode.OK


def _packages() -> Iterator[Check]:
    """Check that no other distribution installed files into our package."""
    from importlib.metadata import packages_distributions

    yield Check("replay", State.OK, f"{VERSION}, Python {sys.version.split()[0]}")
    strangers = sorted(set(packages_distributions().get("replaydiff", ())) - {"replaydiff"})
    if strangers:
        text = f"'replaydiff' also belongs to {', '.join(strangers)}; uninstall that and reinstall"
        yield Check("packages", State.WRONG, text)


def _libraries() -> Iterator[Check]:
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            yield Check("libraries", State.WRONG, f"{name} is not installed; install replaydiff anew")
    yield Check("libraries", State.OK, ", ".join(found))


def _settings(app: App) -> Iterator[Check]:
    try:
        settings = app.settings
    except ReplayError as error:
        yield Check("settings", State.WRONG, str(error))
        return
    yield _redaction(settings.import_.redaction)
    if settings.file is None:
        yield Check("settings", State.NOTE, "no replay.toml here or above; `replay init` writes one")
        return
    yield Check("settings", State.OK, str(settings.file))
    agent = settings.agent
    if agent.entrypoint is None:
        yield Check("agent", State.NOTE, "no entrypoint in [agent]; Python versions cannot run")
    elif agent.tools is None:
        text = "tools is not said in [agent]; a Python version is refused, since its tools would run for real"
        yield Check("agent", State.NOTE, text)
    else:
        where = ", ".join(agent.tools) or "nowhere: tools run for real, or there are none"
        yield Check("agent", State.OK, f"{agent.entrypoint}, tools answered at {where}")
    calls = f"{settings.judge.model}, {settings.judge.votes} votes a trial" if settings.judge.model else "off"
    yield Check("judge", State.OK, calls)


def _redaction(section: RedactSection | None) -> Check:
    if section is None:
        text = "off: texts are stored as they were recorded; [import.redact] turns it on"
        return Check("redaction", State.NOTE, text)
    hook = [f"hook {section.hook}"] if section.hook else []
    return Check("redaction", State.OK, f"on: {', '.join([*section.kinds, *section.patterns, *hook])}")


def _keys() -> Iterator[Check]:
    for name, purpose in KEYS:
        text = f"{name} is set" if os.environ.get(name) else f"{name} is not set; needed for {purpose}"
        yield Check("keys", State.OK if os.environ.get(name) else State.NOTE, text)
    base = os.environ.get("ANTHROPIC_BASE_URL")
    if base:
        yield Check("keys", State.NOTE, f"ANTHROPIC_BASE_URL is {base}: models are called there")


def _store(app: App) -> Iterator[Check]:
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.traces import count_traces

    try:
        path = app.store_path
    except ReplayError:
        return
    if not path.exists():
        yield Check("store", State.NOTE, f"none yet at {path}; `replay import` makes it")
        return
    try:
        with open_store(path, read_only=True) as con:
            traces = count_traces(con)
    except StoreError as error:
        yield Check("store", State.WRONG, str(error))
        return
    size = path.stat().st_size / 1e6
    yield Check("store", State.OK, f"{path}, {size:.1f} MB, {traces:,} traces")
