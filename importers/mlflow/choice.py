"""Which traces a query asks for, by what MLflow says of them."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from replaydiff.importers import fields
from replaydiff.importers.base import Query
from replaydiff.importers.mlflow.records import Info

LOOK_BACK = timedelta(days=30)
"""How far back traces are looked through for what came to them since."""


def project(query: Query) -> str | None:
    """Name or id of the experiment; None for all."""
    named = os.environ.get("MLFLOW_EXPERIMENT_NAME") or os.environ.get("MLFLOW_EXPERIMENT_ID")
    return query.project or named or None


def bounds(query: Query) -> tuple[int, int]:
    """Between which starts to search, in milliseconds since 1970; the second is no longer of it."""
    since = query.start
    if since is not None and query.updates:
        since -= LOOK_BACK
    return 0 if since is None else _milliseconds(since), _milliseconds(query.end)


def is_asked_for(info: Info, query: Query) -> bool:
    """Whether a trace within `bounds` is one that the query asks for."""
    said = {**info.tags, **info.metadata}
    has = {*(str(key) for key in info.tags), *(f"{key}={value}" for key, value in info.tags.items())}
    return (
        (not query.names or str(info.tags.get("mlflow.traceName")) in query.names)
        and (not query.users or str(said.get("mlflow.trace.user")) in query.users)
        and (not query.releases or str(said.get("mlflow.source.git.commit")) in query.releases)
        and (not query.environments or str(said.get("environment")) in query.environments)
        and has.issuperset(query.tags)
        and _since(info, query.start)
    )


def _since(info: Info, start: datetime | None) -> bool:
    """Whether a trace is of this time: it began, ended or was assessed in it."""
    if start is None or info.started_at >= start:
        return True
    if info.ended_at is not None and info.ended_at >= start:
        return True
    changes = (
        fields.time(one, "last_update_time", "create_time")
        for one in info.assessments
        if isinstance(one, dict)
    )
    return any(moment is not None and moment >= start for moment in changes)


def _milliseconds(moment: datetime) -> int:
    return round(moment.replace(tzinfo=UTC).timestamp() * 1000)
