"""The golden set and a run's result back to Langfuse, for a team that looks there.

What is there already is asked for first and not sent again, so a second push changes nothing. A record that
is refused is named and the others go on; once nothing comes through any more, the push ends, and says what
was taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from replaydiff.cases.push.client import PAGE, LangfuseClient, PushStopped, RecordRefused
from replaydiff.cases.push.records import (
    ARCHIVED,
    ITEMS,
    LINKS,
    SCORES,
    TRACES,
    DatasetItem,
    Experiment,
    Pushed,
    TrialTrace,
    experiment,
    is_edited,
    item_id,
    run_scores,
    trial_scores,
    trial_trace,
    trial_trace_id,
)
from replaydiff.diff.result import DiffResult
from replaydiff.replay.errors import CredentialsError, ReplayError, UnavailableError
from replaydiff.replay.model import JsonObject, Lane

if TYPE_CHECKING:
    from langfuse.api import CreateScoreRequest

_SCORES = 50
_TRACES = 25
_BATCH_CHARACTERS = 1_000_000
"""Payload of one request of traces; Langfuse takes a few megabytes."""


def push(
    channel: LangfuseClient,
    dataset: str,
    rows: Sequence[DatasetItem],
    result: DiffResult | None = None,
    *,
    project: str | None = None,
) -> Pushed:
    """Send a dataset with these rows and, over it, a run's result; the rows cover the run's items.

    Args:
        channel: to the server.
        dataset: its name.
        rows: its items.
        result: of a run over them.
        project: the rows are the whole golden set of this project: what is there of the project beside them
            left the set, and is archived.

    Raises:
        CredentialsError: the keys are refused.
        UnavailableError: nothing at all could be sent, but it may be later.
        ReplayError: nothing can be sent there.
    """
    pushed = Pushed()
    try:
        project_id, dataset_id = _dataset(channel, dataset)
        present = _push_rows(channel, dataset, rows, pushed)
        if project is not None:
            _archive(channel, dataset, project, {row.id for row in rows}, present, pushed)
        if result is not None:
            _push_run(channel, result, {row.id: row for row in rows}, dataset, project_id, dataset_id, pushed)
    except (PushStopped, CredentialsError) as stop:
        # Keys may be good for one route and not for another: what went before has been taken all the same.
        if pushed.sent or pushed.unchanged:
            pushed.stopped = str(stop)
        elif isinstance(stop, CredentialsError):
            raise
        else:
            kind = UnavailableError if stop.passing else ReplayError
            raise kind(str(stop), hint="nothing was sent") from None
    return pushed


def _dataset(channel: LangfuseClient, name: str) -> tuple[str, str]:
    """Return the ids of project and dataset, creating the dataset if missing."""
    datasets = channel.client.datasets
    dataset = channel.read(lambda: datasets.get(quote(name, safe=""), request_options=channel.options))
    if dataset is None:
        try:
            dataset = channel.write(lambda: datasets.create(name=name, request_options=channel.options))
        except RecordRefused as refused:
            raise PushStopped(f"Langfuse does not take the dataset {name!r} ({refused})") from None
    return (dataset.project_id, dataset.id) if dataset is not None else ("", name)


Present = tuple[Any, Any, Any, str | None]
"""Input, expected output, metadata and source trace of an item that is there."""


def _push_rows(
    channel: LangfuseClient, dataset: str, rows: Sequence[DatasetItem], pushed: Pushed
) -> dict[str, Present]:
    present = _present_rows(channel, dataset)
    for row in rows:
        if present.get(row.id) == (row.input, row.expected_output, row.metadata, row.source_trace_id):
            pushed.unchanged[ITEMS] += 1
            continue
        if present and row.id not in present and _is_archived(channel, row.id):
            # Somebody archived it there, which a push does not undo.
            pushed.left_archived.append(row.label)
            continue
        if row.id in present and is_edited(*present[row.id][:3], row):
            # An edit there is brought back by `replay cases pull langfuse`, and not overwritten.
            pushed.left_edited.append(row.label)
            continue
        try:
            channel.write(
                lambda row=row: channel.client.dataset_items.create(  # type: ignore[misc]
                    dataset_name=dataset,
                    id=row.id,
                    input=row.input,
                    expected_output=row.expected_output,
                    metadata=row.metadata,
                    source_trace_id=row.source_trace_id,
                    request_options=channel.options,
                )
            )
            pushed.sent[ITEMS] += 1
        except RecordRefused as refused:
            pushed.refused.append((row.label, str(refused)))
    return present


def _is_archived(channel: LangfuseClient, item_id: str) -> bool:
    items = channel.read(
        lambda: channel.client.dataset_items.get(quote(item_id, safe=""), request_options=channel.options)
    )
    return items is not None and str(getattr(items.status, "value", items.status)).upper() == "ARCHIVED"


def _archive(
    channel: LangfuseClient,
    dataset: str,
    project: str,
    current_ids: set[str],
    present: Mapping[str, Present],
    pushed: Pushed,
) -> None:
    """Archive the items of cases of this project that are in its golden set no more."""
    from langfuse.api import DatasetStatus

    for key, (item_input, expected, metadata, trace_id) in present.items():
        is_ours = isinstance(metadata, dict) and metadata.get("project") == project and "case" in metadata
        if not is_ours or key in current_ids:
            continue
        archived: dict[str, Any] = {
            "dataset_name": dataset,
            "id": key,
            "input": item_input,
            "expected_output": expected,
            "metadata": metadata,
            "status": DatasetStatus.ARCHIVED,
            **({} if trace_id is None else {"source_trace_id": trace_id}),
        }
        try:
            channel.write(
                lambda fields=archived: channel.client.dataset_items.create(  # type: ignore[misc]
                    **fields, request_options=channel.options
                )
            )
            pushed.sent[ARCHIVED] += 1
        except RecordRefused as refused:
            pushed.refused.append((f"item {key!r}", str(refused)))


def _present_rows(channel: LangfuseClient, dataset: str) -> dict[str, Present]:
    return {
        item.id: (item.input, item.expected_output, item.metadata, item.source_trace_id)
        for item in channel.dataset_items(dataset)
    }


def _push_run(
    channel: LangfuseClient,
    result: DiffResult,
    rows: dict[str, DatasetItem],
    dataset: str,
    project_id: str,
    dataset_id: str,
    pushed: Pushed,
) -> None:
    lanes = {lane: experiment(result, lane, project_id, dataset_id) for lane in result.run.lanes}
    pushed.experiments = [of.name for of in lanes.values()]
    missing: set[str] = set()
    has_experiments = True
    for of in lanes.values():
        present = _present_traces(channel, of, result)
        has_experiments = has_experiments and present is not None
        traces = (
            trial_trace(result, of, verdict, graded, rows[item_id(dataset, verdict.item.id)])
            for verdict in result.items
            for graded in verdict.lanes.get(of.lane, ())
        )
        linked = None if present is not None else _linked_traces(channel, dataset, of.name)
        missing |= _push_traces(channel, traces, present if linked is None else linked, pushed)
        if linked is not None:
            _link_traces(channel, result, dataset, of, linked | missing, pushed)
    scores = (
        score
        for verdict in result.items
        for lane, graded_trials in verdict.lanes.items()
        for graded in graded_trials
        for score in trial_scores(result, lanes[lane], verdict, graded)
        if score.trace_id not in missing
    )
    _push_scores(channel, scores, pushed)
    if Lane.NEW in lanes and has_experiments:
        _push_scores(channel, run_scores(result, lanes[Lane.NEW]), pushed)


_RUN_ITEMS = "/api/public/dataset-run-items"


def _linked_traces(channel: LangfuseClient, dataset: str, run_name: str) -> set[str]:
    """Return the traces of a run of a dataset, on a server without experiments (Langfuse 3 and older)."""
    path = f"/api/public/datasets/{quote(dataset, safe='')}/runs/{quote(run_name, safe='')}"
    answer = channel.read(lambda: channel.plain("GET", path))
    listed = answer.get("datasetRunItems") if isinstance(answer, dict) else None
    rows = listed if isinstance(listed, list) else []
    return {str(row["traceId"]) for row in rows if isinstance(row, dict) and "traceId" in row}


def _link_traces(
    channel: LangfuseClient,
    result: DiffResult,
    dataset: str,
    of: Experiment,
    skipped: set[str],
    pushed: Pushed,
) -> None:
    """Make the lane a run of the dataset, on a server without experiments: one link for each trace."""
    for verdict in result.items:
        for graded in verdict.lanes.get(of.lane, ()):
            trace_id = trial_trace_id(of, graded)
            if trace_id in skipped:
                continue
            body: JsonObject = {
                "runName": of.name,
                "metadata": of.metadata,
                "datasetItemId": item_id(dataset, verdict.item.id),
                "traceId": trace_id,
            }
            try:
                channel.plain("POST", _RUN_ITEMS, body)
                pushed.sent[LINKS] += 1
            except RecordRefused as refused:
                pushed.refused.append(
                    (f"link of trial {graded.trial.index + 1} of {verdict.item.id!r}", str(refused))
                )


def _present_traces(channel: LangfuseClient, of: Experiment, result: DiffResult) -> set[str] | None:
    """Return the stored traces of the experiment; None where the server has no experiments.

    What a trial did never changes, so they are not sent again.
    """
    starts = [
        graded.trial.started_at
        for verdict in result.items
        for graded in verdict.lanes.get(of.lane, ())
        if graded.trial.started_at
    ]
    since = (min(starts, default=result.run.created_at) - timedelta(days=1)).replace(tzinfo=UTC)
    present: set[str] = set()
    cursor: str | None = None
    while True:
        page = channel.read(
            lambda cursor=cursor: channel.client.experiments.list_items(  # type: ignore[misc]
                from_start_time=since,
                experiment_id=of.id,
                limit=PAGE,
                cursor=cursor,
                request_options=channel.options,
            )
        )
        if page is None:
            return present if cursor else None
        present |= {item.trace_id for item in page.data}
        following = page.meta.cursor
        if not following or following == cursor:
            return present
        cursor = following


def _push_traces(
    channel: LangfuseClient, traces: Iterable[TrialTrace], present: set[str] | None, pushed: Pushed
) -> set[str]:
    """Send traces by batches; returns the ids of those that were not taken."""
    missing: set[str] = set()
    for batch in _batches(traces, present or set(), pushed):
        try:
            _send_traces(channel, batch)
            pushed.sent[TRACES] += len(batch)
            continue
        except RecordRefused as refused:
            if len(batch) == 1:
                pushed.refused.append((batch[0].label, str(refused)))
                missing.add(batch[0].trace_id)
                continue
        # One of them spoils the batch: each alone says which.
        for trace in batch:
            try:
                _send_traces(channel, [trace])
                pushed.sent[TRACES] += 1
            except RecordRefused as refused:
                pushed.refused.append((trace.label, str(refused)))
                missing.add(trace.trace_id)
    return missing


def _batches(traces: Iterable[TrialTrace], present: set[str], pushed: Pushed) -> Iterator[list[TrialTrace]]:
    batch: list[TrialTrace] = []
    size = 0
    for trace in traces:
        if trace.trace_id in present:
            pushed.unchanged[TRACES] += 1
            continue
        if batch and (len(batch) == _TRACES or size + trace.size > _BATCH_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(trace)
        size += trace.size
    if batch:
        yield batch


def _send_traces(channel: LangfuseClient, traces: Sequence[TrialTrace]) -> None:
    from langfuse.api.opentelemetry.types.otel_resource import OtelResource
    from langfuse.api.opentelemetry.types.otel_resource_span import OtelResourceSpan
    from langfuse.api.opentelemetry.types.otel_scope import OtelScope
    from langfuse.api.opentelemetry.types.otel_scope_span import OtelScopeSpan

    from replaydiff.replay.version import VERSION

    spans = [span for trace in traces for span in trace.spans]
    scope = OtelScopeSpan(scope=OtelScope(name="replaydiff", version=VERSION), spans=spans)
    sent = [OtelResourceSpan(resource=OtelResource(attributes=[]), scope_spans=[scope])]
    channel.write(
        lambda: channel.client.opentelemetry.export_traces(
            resource_spans=sent, request_options=channel.options
        )
    )


def _push_scores(channel: LangfuseClient, scores: Iterable[CreateScoreRequest], pushed: Pushed) -> None:
    remaining = iter(scores)
    while batch := list(islice(remaining, _SCORES)):
        present = _present_scores(channel, [score.id or "" for score in batch])
        changed = [score for score in batch if present.get(score.id or "") != (score.value, score.comment)]
        if len(batch) > len(changed):
            pushed.unchanged[SCORES] += len(batch) - len(changed)
        if changed:
            _send_scores(channel, changed, pushed)


def _present_scores(channel: LangfuseClient, ids: list[str]) -> dict[str, tuple[Any, str | None]]:
    page = channel.read(
        lambda: channel.client.scores.get_many(
            id=",".join(ids), limit=PAGE, fields="details", request_options=channel.options
        )
    )
    return {score.id: (score.value, score.comment) for score in page.data} if page is not None else {}


def _send_scores(channel: LangfuseClient, scores: Sequence[CreateScoreRequest], pushed: Pushed) -> None:
    from langfuse.api.scores.types.create_score_batch_results import CreateScoreBatchResults

    if not channel.takes_score_lists:
        _send_each(channel, scores, pushed)
        return
    try:
        answer = channel.write(
            lambda: channel.client.scores.create(request=list(scores), request_options=channel.options)
        )
    except RecordRefused:
        # Servers before the lists of SDK 5 take one score at a time, and others say no to a list as a whole.
        channel.takes_score_lists = False
        _send_each(channel, scores, pushed)
        return
    if isinstance(answer, CreateScoreBatchResults):
        pushed.sent[SCORES] += answer.accepted
        reasons = "; ".join(dict.fromkeys(error.message for error in answer.errors)) or "no reason given"
        if answer.rejected:
            pushed.refused.append((f"{answer.rejected} of {len(scores)} scores", reasons))
    else:
        pushed.sent[SCORES] += len(scores)


def _send_each(channel: LangfuseClient, scores: Sequence[CreateScoreRequest], pushed: Pushed) -> None:
    for score in scores:
        # The SDK declares the list alone, and sends what it is given.
        single = cast("list[CreateScoreRequest]", score)
        try:
            channel.write(
                lambda single=single: channel.client.scores.create(  # type: ignore[misc]
                    request=single, request_options=channel.options
                )
            )
            pushed.sent[SCORES] += 1
        except RecordRefused as refused:
            where = f"trace {score.trace_id}" if score.trace_id else "the experiment"
            pushed.refused.append((f"score {score.name!r} of {where}", str(refused)))
