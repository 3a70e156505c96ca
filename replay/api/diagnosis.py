"""What `replay doctor` checks: the installation, settings, keys and the store."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from replaydiff.replay.errors import ReplayError, StoreError
from replaydiff.replay.settings import RedactSection, Settings
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
    """How a check of `replay doctor` ended."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One check, and what it found."""

    name: str
    state: State
    text: str


def diagnose(load: Callable[[], Settings], store: Callable[[], Path]) -> list[Diagnosis]:
    """Check versions, settings, keys and the store; nothing is changed and nothing is called.

    Args:
        load: reads the settings; may raise.
        store: gives the store's path; may raise where the settings cannot be read.
    """
    found = [*_packages(), *_libraries(), *_settings(load), *_keys()]
    try:
        path = store()
    except ReplayError:
        return found
    return [*found, *_store(path)]


def _packages() -> Iterator[Diagnosis]:
    """Check that no other distribution installed files into our package."""
    from importlib.metadata import packages_distributions

    yield Diagnosis("replay", State.OK, f"{VERSION}, Python {sys.version.split()[0]}")
    strangers = sorted(set(packages_distributions().get("replaydiff", ())) - {"replaydiff"})
    if strangers:
        text = f"'replaydiff' also belongs to {', '.join(strangers)}; uninstall that and reinstall"
        yield Diagnosis("packages", State.WRONG, text)


def _libraries() -> Iterator[Diagnosis]:
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            yield Diagnosis("libraries", State.WRONG, f"{name} is not installed; reinstall replaydiff")
    yield Diagnosis("libraries", State.OK, ", ".join(found))


def _settings(load: Callable[[], Settings]) -> Iterator[Diagnosis]:
    try:
        settings = load()
    except ReplayError as error:
        yield Diagnosis("settings", State.WRONG, str(error))
        return
    yield _redaction(settings.import_.redaction)
    if settings.file is None:
        yield Diagnosis("settings", State.NOTE, "no replay.toml here or above; `replay init` writes one")
        return
    yield Diagnosis("settings", State.OK, str(settings.file))
    agent = settings.agent
    if agent.entrypoint is None:
        yield Diagnosis("agent", State.NOTE, "no entrypoint in [agent]; Python versions cannot run")
    elif agent.tools is None:
        text = "tools is not set in [agent]: Python versions are refused, as their tools would run"
        yield Diagnosis("agent", State.NOTE, text)
    else:
        where = ", ".join(agent.tools) or "nowhere: there are no tools, or they run for real"
        yield Diagnosis("agent", State.OK, f"{agent.entrypoint}, tools answered at {where}")
    calls = f"{settings.judge.model}, {settings.judge.votes} votes a trial" if settings.judge.model else "off"
    yield Diagnosis("judge", State.OK, calls)


def _redaction(section: RedactSection | None) -> Diagnosis:
    if section is None:
        text = "off: texts are stored as they were recorded; [import.redact] turns it on"
        return Diagnosis("redaction", State.NOTE, text)
    hook = [f"hook {section.hook}"] if section.hook else []
    return Diagnosis("redaction", State.OK, f"on: {', '.join([*section.kinds, *section.patterns, *hook])}")


def _keys() -> Iterator[Diagnosis]:
    for name, purpose in KEYS:
        text = f"{name} is set" if os.environ.get(name) else f"{name} is not set; needed for {purpose}"
        yield Diagnosis("keys", State.OK if os.environ.get(name) else State.NOTE, text)
    base = os.environ.get("ANTHROPIC_BASE_URL")
    if base:
        yield Diagnosis("keys", State.NOTE, f"ANTHROPIC_BASE_URL is {base}: models are called there")


def _store(path: Path) -> Iterator[Diagnosis]:
    from replaydiff.replay.store.connection import open_store, verify
    from replaydiff.replay.store.traces import count_traces

    if not path.exists():
        yield Diagnosis("store", State.NOTE, f"none yet at {path}; `replay import` creates it")
        return
    try:
        with open_store(path, read_only=True) as con:
            traces = count_traces(con)
            verify(con)
    except StoreError as error:
        yield Diagnosis("store", State.WRONG, str(error))
        return
    size = path.stat().st_size / 1e6
    yield Diagnosis("store", State.OK, f"{path}, {size:.1f} MB, {traces:,} traces")
