"""The golden set and a run's result to MLflow, and its evaluation datasets as cases.

| MLflow | case |
|---|---|
| `inputs` | `input` or `messages` |
| `expected_response` | `expected_answer` |
| `expected_facts`, `guidelines` | `expected_response_traits` |
| `expected_tool_calls`, `expected_tools` | `expected_tool_calls`, `expected_tools` |
| other expectations, tags, inputs beside the text | `metadata.mlflow` |

MLflow gives a record its id, and keeps one record of each input. So a record that was pushed names its case
in a tag, and two cases with one input cannot both be there. A record that somebody made is a case with the
record's id, so a second pull shows only what differs since.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from replaydiff.cases.formats.bridge import input_of
from replaydiff.cases.push import mlflow_runs
from replaydiff.cases.push.mlflow_runs import PushTarget
from replaydiff.cases.push.pull import DatasetChange, PulledItem, changes
from replaydiff.cases.push.records import ARCHIVED, ITEMS, DatasetItem, Pushed, content_hash, is_edited
from replaydiff.cases.push.writes import keeping_what_was_sent, write_rows
from replaydiff.diff.result import DiffResult
from replaydiff.importers.http import HttpError, JsonClient, read_url
from replaydiff.importers.sources.mlflow.source import KEYS, URI, tracking_headers, tracking_uri
from replaydiff.replay.errors import InputError, SettingsError
from replaydiff.replay.messages import canonical_args, parse
from replaydiff.replay.model import Case, Json, JsonObject

_PAGE = 500
_BATCH = 100
_API = "/api/3.0/mlflow/datasets"
_ID = "replay_id"
"""The tag of a record that names its item."""


@contextmanager
def connect() -> Iterator[tuple[JsonClient, str]]:
    """Create a client for the tracking server that the environment names; return its address, too.

    Raises:
        SettingsError: no server is named.
    """
    uri = tracking_uri()
    if not uri.startswith(("http://", "https://")):
        raise SettingsError(
            f"{URI} must be the address of a tracking server here", hint="start one with `mlflow server`"
        )
    url = read_url(URI, uri)
    with JsonClient(url, headers=tracking_headers(), service="MLflow", keys=KEYS) as client:
        yield client, url


def push(
    client: JsonClient,
    dataset: str,
    rows: Sequence[DatasetItem],
    result: DiffResult | None = None,
    *,
    project: str | None = None,
) -> Pushed:
    """Send an evaluation dataset with these rows and, over it, a run's result.

    Args:
        client: to the server.
        dataset: its name.
        rows: its records; they cover the run's items.
        result: of a run over them.
        project: the rows are the whole golden set of this project: records of the project beside them left
            the set, and are deleted.

    Raises:
        CredentialsError: the keys are refused.
        HttpError: nothing at all could be sent.
        InputError: there are several datasets of this name.
    """
    pushed = Pushed()
    with keeping_what_was_sent(pushed):
        target = _target(client, dataset)
        held = [_Held.read(row) for row in _records(client, target.dataset_id)]
        _push_rows(client, target.dataset_id, held, rows, pushed)
        if project is not None:
            _remove(client, target.dataset_id, project, held, {row.id for row in rows}, pushed)
        if result is not None:
            expected = {
                verdict.item.id: _expectations(row, None)
                for verdict, row in zip(result.items, rows, strict=True)
            }
            mlflow_runs.push(client, target, result, expected, pushed)
    return pushed


def pull(client: JsonClient, dataset: str, project: str, cases: Sequence[Case]) -> list[DatasetChange]:
    """Return the records of a dataset that the golden set does not have, or has otherwise.

    Args:
        client: to the server.
        dataset: its name.
        project: the project whose golden set it is.
        cases: the golden set.

    Raises:
        CredentialsError: the keys are refused.
        HttpError: the server cannot be reached.
        InputError: there is no dataset of this name, or several.
    """
    found = _dataset_of(client, dataset)
    if found is None:
        raise InputError(f"no dataset is named {dataset!r} in MLflow", hint="name another dataset")
    items = [_Held.read(row).item for row in _records(client, str(found["dataset_id"]))]
    return changes(items, dataset, project, cases, is_archived=lambda _key: False)


def _target(client: JsonClient, name: str) -> PushTarget:
    """Return the dataset of this name and the experiment that runs over it are in; create what is missing."""
    experiment = _experiment(client, name)
    found = _dataset_of(client, name)
    if found is None:
        made = client.post(f"{_API}/create", {"name": name, "experiment_ids": [experiment]})
        held = made.get("dataset") if isinstance(made, dict) else None
        found = held if isinstance(held, dict) else {}
    if not isinstance(found.get("dataset_id"), str):
        raise HttpError("MLflow created a dataset without an id")
    digest = str(found.get("digest") or "")
    return PushTarget(experiment=experiment, dataset=name, dataset_id=str(found["dataset_id"]), digest=digest)


def _experiment(client: JsonClient, dataset: str) -> str:
    """Return the id of the experiment that the environment names, else of one named as the dataset."""
    own = os.environ.get("MLFLOW_EXPERIMENT_ID")
    if own:
        return own
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or dataset
    try:
        found = client.get("/api/2.0/mlflow/experiments/get-by-name", {"experiment_name": name})
        held = found.get("experiment") if isinstance(found, dict) else None
    except HttpError as error:
        if error.status != 404:
            raise
        held = client.post("/api/2.0/mlflow/experiments/create", {"name": name})
    if not isinstance(held, dict) or "experiment_id" not in held:
        raise HttpError(f"MLflow has no id for the experiment {name!r}")
    return str(held["experiment_id"])


def _dataset_of(client: JsonClient, name: str) -> JsonObject | None:
    if "'" in name:
        raise InputError(f"the dataset {name!r} cannot be searched for: MLflow has no way to write a quote")
    found = [
        row
        for row in _pages(client, "POST", f"{_API}/search", "datasets", filter_string=f"name = '{name}'")
        if row.get("name") == name
    ]
    if len(found) > 1:
        raise InputError(f"{len(found)} datasets are named {name!r} in MLflow", hint="name another dataset")
    return found[0] if found else None


def _path(dataset_id: str) -> str:
    return f"{_API}/{quote(dataset_id, safe='')}/records"


def _records(client: JsonClient, dataset_id: str) -> Iterator[JsonObject]:
    return _pages(client, "GET", _path(dataset_id), "records")


def _pages(client: JsonClient, method: str, path: str, key: str, **more: str) -> Iterator[JsonObject]:
    token: Json = None
    while True:
        parameters: dict[str, str | int] = {"max_results": _PAGE, **more}
        if isinstance(token, str):
            parameters["page_token"] = token
        page = client.post(path, dict(parameters)) if method == "POST" else client.get(path, parameters)
        held = page.get(key) if isinstance(page, dict) else None
        # Records come as a list, or as the text of one.
        listed = parse(held) if isinstance(held, str) else held
        if listed is not None and not isinstance(listed, list):
            raise InputError(f"MLflow answered {path} without a list of {key}")
        yield from (row for row in listed or () if isinstance(row, dict))
        following = page.get("next_page_token") if isinstance(page, dict) else None
        if not following or following == token:
            return
        token = following


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A record as the server has it."""

    record_id: str
    inputs: JsonObject
    expectations: JsonObject
    tags: JsonObject
    item: PulledItem

    @classmethod
    def read(cls, record: JsonObject) -> _Held:
        """Read a record, one that was pushed by the tags that a push writes."""
        inputs, wanted, tags = (
            value if isinstance(value := record.get(key), dict) else {}
            for key in ("inputs", "expectations", "tags")
        )
        record_id = str(record.get("dataset_record_id"))
        wanted = {name: value for name, value in wanted.items() if value is not None}
        expected, rest = _expected(wanted)
        if _ID in tags:
            given = inputs["input"] if set(inputs) == {"input"} else inputs
            item = PulledItem(str(tags[_ID]), given, expected, tags, None)
        else:
            item = _made_there(record_id, inputs, expected, rest, tags)
        return cls(record_id=record_id, inputs=inputs, expectations=wanted, tags=tags, item=item)


def _made_there(
    record_id: str, inputs: JsonObject, expected: JsonObject, rest: JsonObject, tags: JsonObject
) -> PulledItem:
    taken = input_of(inputs)
    messages = taken.get("messages")
    given: Json = {"messages": messages} if messages else taken.get("input", "")
    beside = {
        "tags": {name: value for name, value in tags.items() if not name.startswith("mlflow.")},
        "expectations": rest,
        "inputs": inputs if len(inputs) > 1 else {},
    }
    kept: JsonObject = {name: value for name, value in beside.items() if value}
    return PulledItem(record_id, given, expected, {"mlflow": kept} if kept else {}, None)


def _expected(wanted: JsonObject) -> tuple[JsonObject, JsonObject]:
    """The expected output of an item, and the expectations that it has no words for."""
    expected: JsonObject = {}
    rest = dict(wanted)
    calls = _calls(rest.get("expected_tool_calls"))
    if calls is not None:
        expected["tool_calls"] = calls
        del rest["expected_tool_calls"]
    tools = rest.get("expected_tools")
    if isinstance(tools, list) and all(isinstance(name, str) for name in tools):
        expected["tools"] = rest.pop("expected_tools")
    traits: list[Json] = []
    for name in ("expected_facts", "guidelines"):
        value = rest.get(name)
        texts = [value] if isinstance(value, str) else value
        if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
            traits += texts
            rest.pop(name, None)
    if traits:
        expected["response_traits"] = traits
    if isinstance(rest.get("expected_response"), str):
        expected["answer"] = rest.pop("expected_response")
    return expected, rest


def _calls(value: Json) -> list[Json] | None:
    """Expected calls; None where they are no list of names with arguments."""
    if not isinstance(value, list):
        return None
    found: list[Json] = []
    for call in value:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return None
        args = call.get("arguments", call.get("args"))
        if args is not None and not isinstance(args, dict):
            return None
        found.append({"name": call["name"], "args": args})
    return found


def _inputs(row: DatasetItem, before: _Held | None) -> JsonObject:
    """What goes in; a record that somebody made keeps its own names."""
    if before is not None and _ID not in before.tags:
        if before.item.input == row.input:
            return before.inputs
        if isinstance(row.input, str) and len(before.inputs) == 1:
            return dict.fromkeys(before.inputs, row.input)
    return row.input if isinstance(row.input, dict) else {"input": row.input}


def _expectations(row: DatasetItem, before: _Held | None) -> JsonObject:
    """What is expected, in MLflow's names; traits that are guidelines there stay guidelines."""
    expected = row.expected_output if isinstance(row.expected_output, dict) else {}
    found: JsonObject = {}
    if "answer" in expected:
        found["expected_response"] = expected["answer"]
    if "tools" in expected:
        found["expected_tools"] = expected["tools"]
    calls, traits = expected.get("tool_calls"), expected.get("response_traits")
    if isinstance(calls, list):
        found["expected_tool_calls"] = [
            {"name": call["name"], "arguments": call["args"]} for call in calls if isinstance(call, dict)
        ]
    if isinstance(traits, list):
        there = before.expectations.get("guidelines") if before else None
        there = there if isinstance(there, list) else [there]
        for name, guides in (("expected_facts", False), ("guidelines", True)):
            if texts := [trait for trait in traits if (trait in there) is guides]:
                found[name] = list(texts)
    return found


def _tags(row: DatasetItem) -> JsonObject:
    """Where a record comes from; tags are texts."""
    named = {_ID: row.id, **row.metadata, "sent": content_hash(row.input, row.expected_output)}
    return {
        name: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in named.items()
        if value not in (None, [], "")
    }


def _push_rows(
    client: JsonClient, dataset_id: str, held: Sequence[_Held], rows: Sequence[DatasetItem], pushed: Pushed
) -> None:
    own = {one.item.id: one for one in held}
    by_input = {canonical_args(one.inputs): one for one in held}
    taken: dict[str, str] = {}
    changed: list[tuple[DatasetItem, JsonObject]] = []
    replaced: dict[str, str] = {}
    for row in rows:
        before = own.get(row.id) or own.get(str(row.metadata.get("case")))
        inputs, wanted, tags = _inputs(row, before), _expectations(row, before), _tags(row)
        key = canonical_args(inputs)
        there = by_input.get(key)
        if key in taken:
            pushed.refused.append((row.label, f"its input is that of {taken[key]}, and MLflow keeps one"))
            continue
        taken[key] = row.label
        if there and _is_same(there, wanted, tags, is_own=there is before):
            pushed.unchanged[ITEMS] += 1
        elif (before and _is_edited(before, row)) or (there and not before and _contradicts(there, wanted)):
            pushed.left_edited.append(row.label)
        else:
            # Expectations are merged with those that are there: one that is gone must be emptied.
            gone = dict.fromkeys(_known(there.expectations).keys() - wanted.keys()) if there else {}
            changed.append((row, {"inputs": inputs, "expectations": {**gone, **wanted}, "tags": tags}))
            if before and before is not there:
                # Another input is another record.
                replaced[row.id] = before.record_id
    sent = write_rows(client, _path(dataset_id), changed, _upsert, _BATCH, pushed)
    obsolete: list[Json] = [replaced[row] for row in sent if row in replaced]
    if obsolete:
        client.delete(_path(dataset_id), {"dataset_record_ids": obsolete})


def _upsert(records: Mapping[str, JsonObject]) -> JsonObject:
    return {"records": msgspec.json.encode(list(records.values())).decode()}


def _is_same(there: _Held, wanted: JsonObject, tags: JsonObject, *, is_own: bool) -> bool:
    """Whether a record is as it would be sent; one that somebody made needs no tags of a push."""
    tagged = tags.items() <= there.tags.items() or (is_own and _ID not in there.tags)
    return tagged and _expected(there.expectations)[0] == _expected(wanted)[0]


def _known(expectations: JsonObject) -> JsonObject:
    """The expectations that a case has words for."""
    _, rest = _expected(expectations)
    return {name: value for name, value in expectations.items() if name not in rest}


def _is_edited(held: _Held, row: DatasetItem) -> bool:
    return is_edited(held.item.input, held.item.expected_output, held.item.metadata, row)


def _contradicts(held: _Held, wanted: JsonObject) -> bool:
    """Whether a record that somebody made there has this input and expects something else."""
    expected, ours = _expected(held.expectations)[0], _expected(wanted)[0]
    return _ID not in held.tags and any(ours.get(name) != value for name, value in expected.items())


def _remove(
    client: JsonClient,
    dataset_id: str,
    project: str,
    held: Sequence[_Held],
    kept: set[str],
    pushed: Pushed,
) -> None:
    """Delete the records of cases of this project that are in its golden set no more, unless edited there."""
    gone = [
        one
        for one in held
        if one.tags.get("project") == project and "case" in one.tags and one.tags.get(_ID) not in kept
    ]
    edited = [
        one for one in gone if one.tags.get("sent") != content_hash(one.item.input, one.item.expected_output)
    ]
    pushed.left_edited += [f"case {one.tags['case']!r}" for one in edited]
    deleted = [one.record_id for one in gone if one not in edited]
    if deleted:
        client.delete(_path(dataset_id), {"dataset_record_ids": list(deleted)})
        pushed.sent[ARCHIVED] += len(deleted)
