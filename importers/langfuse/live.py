"""Langfuse, asked over its public API: newer endpoints where the server has them, else the older ones.

Everything that is answered goes into a file of the query's folder, with the place where to go on, and traces
are made of it at the end: an import that was stopped, however hard, goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from replaydiff.importers import fields
from replaydiff.importers.base import InputFile, Item, Query, Skipped, Told
from replaydiff.importers.convert import guarded
from replaydiff.importers.http import HttpError, JsonClient
from replaydiff.importers.langfuse.answers import Answers
from replaydiff.importers.langfuse.client import GONE, PREFIX, access, connect
from replaydiff.importers.langfuse.events import Events
from replaydiff.importers.langfuse.files import NAME
from replaydiff.importers.langfuse.spool import Group
from replaydiff.importers.langfuse.tables import Tables
from replaydiff.importers.langfuse.trace import DEFAULT_ENVIRONMENT, NOT_PRODUCTION, environment, items
from replaydiff.importers.langfuse.walk import Span
from replaydiff.importers.reading import Record
from replaydiff.replay.model import Trace

_API, _EVENTS, _TABLES = "api", "events", "tables"
_BEGINNING = datetime(2023, 1, 1)
"""Before Langfuse was there: where a query begins that does not say when."""


def origin(query: Query) -> str:  # noqa: ARG001 - a key belongs to one project, which no query can choose
    """Where a query is asked, and with which public key.

    Raises:
        CredentialsError: a key is not in the environment.
        SettingsError: the address in the environment is none.
    """
    keys = access()
    return f"{keys.base_url} ({keys.public_key})"


def read_live(query: Query, folder: Path, told: Told) -> Iterator[Item]:
    """Ask for the traces of `query`; see `LiveImporter`."""
    keys = access()
    answers = Answers(folder)
    try:
        with connect(keys, told) as http:
            _fetch(http, answers, query, told)
        address = keys.base_url + PREFIX
        yield from answers.rejects(address)
        file = InputFile(path="", name=address, size=0, modified=0.0)
        for group in answers.traces():
            yield from _chosen(group, query, file)
    finally:
        answers.close()


def _fetch(http: JsonClient, answers: Answers, query: Query, told: Told) -> None:
    span = Span(start=query.start or _BEGINNING, end=query.end)
    known = answers.marked(_API)
    if known != _TABLES:
        try:
            Events(http, answers, query, span, told).fetch()
        except HttpError as error:
            if error.status not in GONE or known or http.answers:
                raise
        else:
            return
        answers.mark(_API, _TABLES)
    try:
        Tables(http, answers, query, span, told).fetch()
    except HttpError as error:
        if error.status not in GONE or known or http.answers:
            raise
        raise HttpError(
            f"{error}; a newer address, /v2/observations, is not there either: LANGFUSE_BASE_URL must be "
            "the address of a Langfuse server, without a path of its pages",
            status=error.status,
        ) from None


def _chosen(group: Group, query: Query, file: InputFile) -> Iterator[Item]:
    """What is to be said of a trace, where the query asks for it."""
    if not group.observations and not group.traces:
        return
    record = Record(group.line, (group.observations or group.traces)[0])
    made = list(guarded(NAME, file, record, lambda _value, _file: items(group, NAME)))
    trace = next((item for item in made if isinstance(item, Trace)), None)
    if trace is None:
        yield from made
        return
    began = fields.time(group.traces[-1], "timestamp") if group.traces else None
    began = began or trace.started_at
    early = query.start is not None and began < query.start and not query.updates
    if early or began >= query.end or not _matches(trace, query):
        return
    name = environment(group)
    asked_for = query.all_environments or name in query.environments
    if name is not None and name.startswith(NOT_PRODUCTION) and not asked_for:
        yield Skipped(f"traces of evaluations and experiments (environment {name})")
        return
    yield from made


def _matches(trace: Trace, query: Query) -> bool:
    """Whether a trace passes the filters, those that the server knows too: not every version of it does."""
    return (
        (not query.environments or (trace.environment or DEFAULT_ENVIRONMENT) in query.environments)
        and (not query.releases or trace.release in query.releases)
        and (not query.names or trace.name in query.names)
        and (not query.users or trace.user_id in query.users)
        and set(query.tags) <= set(trace.tags)
    )
