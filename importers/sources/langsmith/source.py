"""Import from LangSmith: dumps of runs, bulk exports, or a server over its API.

The trace of a run is only known once all runs were read, so runs are grouped on disk.

A server is asked for runs by their start, in windows of a day or more, a page at a time. A trace belongs to a
query if its root started in the query's time range: one that began earlier is left to the import of that
range, and one that may have continued past the end is fetched by its id. The folder keeps the rows of each
page together with the cursor of the next one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Query, RecordError, ShowStatus, Skipped
from replaydiff.importers.convert import Group, Spool, grouped, guarded
from replaydiff.importers.http import HttpError
from replaydiff.importers.reading import Record
from replaydiff.importers.sources.langsmith.api import (
    DONE,
    Api,
    RunQuery,
    address,
    client,
    environment,
    key,
    roots_filter,
)
from replaydiff.importers.sources.langsmith.runs import (
    FEEDBACK,
    RUN,
    UPDATE,
    UPDATED,
    LangsmithRun,
    add_row,
    began,
    is_feedback,
    read_run,
    rows,
    whole_runs,
)
from replaydiff.importers.sources.langsmith.trace import trace_items
from replaydiff.replay.model import Json, JsonObject

LOOK_BACK = timedelta(days=1)
"""How far back traces are read again that may have gone on, or been rated, since."""
_EVALUATORS = "evaluators"
"""The project into which LangSmith writes the runs of its own evaluators: no production traffic."""
_OLDEST = datetime(2023, 1, 1)
"""LangSmith itself is not older."""
_MOST_WINDOWS = 60
_FEEDBACK_RUNS = 50
"""Runs whose feedback is asked for at once: each is a parameter of the address."""


def origin(query: Query) -> str:
    """Return the server, the workspace and the project."""
    key()
    workspace, project = environment("WORKSPACE_ID"), _project(query)
    where = f", workspace {workspace}" if workspace else ""
    return f"LangSmith at {address()}{where}, {f'project {project}' if project else 'all projects'}"


def gathered(query: Query, folder: Path, show_status: ShowStatus) -> Iterator[Group]:
    """Yield the traces of a query, each as its rows, after all were fetched."""
    if query.updates and query.start is not None:
        query = replace(query, start=query.start - LOOK_BACK)
    with closing(Spool(folder / "langsmith.sqlite")) as spool:
        with client(show_status) as http:
            _Fetch(Api(http), query, spool, show_status).all()
        yield from (group for group in spool.groups() if _is_of(group, query))


def _project(query: Query) -> str | None:
    return query.project or environment("PROJECT") or None


class _Fetch:
    """Fills a spool, without fetching what it already contains."""

    def __init__(self, api: Api, query: Query, spool: Spool, show_status: ShowStatus) -> None:
        self._api, self._query, self._spool, self._show_status = api, query, spool, show_status
        self._roots = roots_filter(query)
        self._runs = 0

    def all(self) -> None:
        """Ask for all runs of the query's time, the rest of traces that were cut, and their feedback."""
        for project, since in self._projects():
            for start, end in _windows(self._query.start or since, self._query.end):
                run_query = RunQuery(project=project, start=start, end=end, roots=self._roots)
                self._pages(f"{project} {start}", run_query)
        for run_query in list(self._cut()):
            self._pages(f"trace {run_query.trace_id}", run_query)
        rated = list(self._rated())
        for first_run in range(0, len(rated), _FEEDBACK_RUNS):
            self._feedback(rated[first_run : first_run + _FEEDBACK_RUNS])

    def _projects(self) -> list[tuple[str, datetime]]:
        """Return projects to read, and when each was begun."""
        marked = self._spool.marked("projects")
        if marked is None:
            project_name = _project(self._query)
            projects = self._api.projects(project_name)
            if project_name is None and not self._query.all_environments:
                projects = [row for row in projects if row.get("name") != _EVALUATORS]
            marked = json.dumps([(str(row["id"]), _begun(row).isoformat()) for row in projects])
            self._spool.mark("projects", marked)
            self._spool.commit()
        return [(project, datetime.fromisoformat(since)) for project, since in json.loads(marked)]

    def _pages(self, mark: str, run_query: RunQuery) -> None:
        """Continue at `mark`; each page and its mark are written together."""
        cursor = self._spool.marked(mark) or ""
        resumed = bool(cursor)
        while cursor != DONE:
            try:
                rows, cursor = self._api.runs(run_query, cursor)
            except HttpError as error:
                if not (resumed and error.status in (400, 422)):
                    raise
                # The cursor of an earlier try has gone stale.
                cursor, resumed = "", False
                continue
            resumed = False
            for row in rows:
                self._keep(row)
            self._runs += len(rows)
            self._spool.mark(mark, cursor)
            self._spool.commit()
            self._show_status(f"{self._runs:,} runs")

    def _keep(self, row: JsonObject) -> None:
        try:
            add_row(self._spool, row)
        except RecordError:
            # It is rejected where traces are made, with what is wrong.
            row_id = str(row.get("id"))
            self._spool.add(str(row.get("trace_id") or row_id), RUN, row_id, row)

    def _cut(self) -> Iterator[RunQuery]:
        """Yield the rest of traces whose root ran past the end of the query, or had not ended."""
        for group in self._spool.groups():
            root = _root(group) if _is_of(group, self._query) else None
            if root and root.project and (root.ended_at is None or root.ended_at > self._query.end):
                yield RunQuery(project=root.project, start=root.started_at, trace_id=root.trace_id)

    def _rated(self) -> Iterator[str]:
        """Yield ids of the runs that have feedback."""
        for group in self._spool.groups():
            if _is_of(group, self._query):
                yield from (str(row.get("id")) for row in group.objects(RUN) if row.get("feedback_stats"))

    def _feedback(self, runs: list[str]) -> None:
        mark = f"feedback {runs[0]} {len(runs)}"
        if self._spool.marked(mark) is None:
            for row in self._api.feedback(runs):
                add_row(self._spool, row)
            self._spool.mark(mark, DONE)
            self._spool.commit()


def _begun(project: JsonObject) -> datetime:
    try:
        return fields.time(project, "start_time") or _OLDEST
    except RecordError:
        return _OLDEST


def _windows(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield spans of a day or more, oldest first."""
    step = max(timedelta(days=1), (end - start) / _MOST_WINDOWS)
    while start < end:
        yield start, min(start + step, end)
        start += step


def _root(group: Group) -> LangsmithRun | None:
    """Return the root of a trace, else the run that comes first; None where none can be read."""
    roots = []
    for row in group.objects(RUN):
        with suppress(RecordError):
            roots.append(read_run(row))
    return min(roots, key=lambda run: run.order, default=None)


def _is_of(group: Group, query: Query) -> bool:
    """Return whether a trace started within the query's time and matches it."""
    if not group.of(RUN):
        return False
    first = _root(group)
    if first is None:
        # It is rejected where traces are made.
        return True
    start = began(first)
    if start >= query.end or (query.start is not None and start < query.start):
        return False
    return query.matches(first.environment, first.release, first.name, first.user, first.tags)


NAME = "langsmith"
RECOGNISED_BY = "records are runs of LangSmith, with run_type and dotted_order"
CONTENT_SETTING = "LANGSMITH_HIDE_INPUTS and LANGSMITH_HIDE_OUTPUTS not true"


def recognises(record: Json) -> float:
    """Recognise a record by the first run or feedback in it."""
    try:
        row = next(rows(record), {})
    except RecordError:
        return 0.0
    updated = row.get(UPDATED)
    row = updated if isinstance(updated, dict) else row
    if is_feedback(row):
        return 0.7
    return 0.95 if "dotted_order" in row else 0.75 if "run_type" in row else 0.0


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """Yield one trace for each trace id in the files."""
    return grouped(NAME, files, _keep, _trace, unpack=rows, numbered=False)


def _keep(spool: Spool, number: int, _file: InputFile, record: Record) -> Iterator[Imported]:
    assert isinstance(record.value, dict)  # noqa: S101 - `rows` yields objects
    add_row(spool, record.value, file=number, line=record.line)
    return iter(())


def _trace(group: Group, _value: Json, file: InputFile) -> Iterator[Imported]:
    runs = list(whole_runs(group.of(RUN), group.of(UPDATE)))
    if not runs:
        yield Skipped("feedback on runs that are not in these files")
        return
    feedback = group.objects(FEEDBACK)
    yield from trace_items(group.key, runs, feedback, NAME, all_environments=file.all_environments)


def read_live(query: Query, folder: Path, show_status: ShowStatus) -> Iterator[Imported]:
    """Yield the traces of a server."""
    server = InputFile(
        path="", name=origin(query), size=0, modified=0.0, all_environments=query.all_environments
    )
    for group in gathered(query, folder, show_status):
        record = Record(group.line, group.rows[0].value)
        yield from guarded(NAME, server, record, partial(_trace, group))
