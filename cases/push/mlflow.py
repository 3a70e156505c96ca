"""Evaluation datasets of MLflow as cases of the golden set.

| MLflow | case |
|---|---|
| `inputs` | `input` or `messages` |
| `expected_response` | `expected_answer` |
| `expected_facts`, `guidelines` | `expected_response_traits` |
| `expected_tool_calls` | `expected_tool_calls` |
| other expectations, tags, inputs beside the text | `metadata.mlflow` |

A record's id is the id of its case, so a second pull shows only what differs since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import quote

from replaydiff.cases.formats.bridge import input_of
from replaydiff.cases.push.pull import DatasetChange, PulledItem, changes
from replaydiff.importers.http import JsonClient, read_url
from replaydiff.importers.sources.mlflow.source import KEYS, URI, tracking_headers, tracking_uri
from replaydiff.replay.errors import InputError, SettingsError
from replaydiff.replay.messages import parse
from replaydiff.replay.model import Case, Json, JsonObject

_PAGE = 500
_API = "/api/3.0/mlflow/datasets"


@contextmanager
def connect() -> Iterator[JsonClient]:
    """Create a client for the tracking server that the environment names.

    Raises:
        SettingsError: no server is named.
    """
    uri = tracking_uri()
    if not uri.startswith(("http://", "https://")):
        raise SettingsError(
            f"{URI} must be the address of a tracking server here", hint="start one with `mlflow server`"
        )
    with JsonClient(read_url(URI, uri), headers=tracking_headers(), service="MLflow", keys=KEYS) as client:
        yield client


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
    items = [_item(row) for row in _records(client, _dataset_id(client, dataset))]
    return changes(items, dataset, project, cases, is_archived=lambda _key: False)


def _dataset_id(client: JsonClient, name: str) -> str:
    if "'" in name:
        raise InputError(f"the dataset {name!r} cannot be searched for: MLflow has no way to write a quote")
    found = [
        str(row["dataset_id"])
        for row in _pages(client, "POST", f"{_API}/search", "datasets", filter_string=f"name = '{name}'")
        if row.get("name") == name
    ]
    if len(found) != 1:
        many = f"{len(found)} datasets are" if found else "no dataset is"
        raise InputError(f"{many} named {name!r} in MLflow", hint="name another dataset")
    return found[0]


def _records(client: JsonClient, dataset_id: str) -> Iterator[JsonObject]:
    return _pages(client, "GET", f"{_API}/{quote(dataset_id, safe='')}/records", "records")


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


def _item(record: JsonObject) -> PulledItem:
    inputs, wanted, tags = (
        value if isinstance(value := record.get(key), dict) else {}
        for key in ("inputs", "expectations", "tags")
    )
    taken = input_of(inputs)
    messages = taken.get("messages")
    given: Json = {"messages": messages} if messages else taken.get("input", "")
    expected, rest = _expected(wanted)
    beside = {
        "tags": {name: value for name, value in tags.items() if not name.startswith("mlflow.")},
        "expectations": rest,
        "inputs": inputs if len(inputs) > 1 else {},
    }
    kept: JsonObject = {name: value for name, value in beside.items() if value}
    return PulledItem(
        str(record.get("dataset_record_id")), given, expected, {"mlflow": kept} if kept else {}, None
    )


def _expected(wanted: JsonObject) -> tuple[JsonObject, JsonObject]:
    """The expected output of an item, and the expectations that it has no words for."""
    expected: JsonObject = {}
    rest = dict(wanted)
    traits: list[Json] = []
    for name in ("expected_facts", "guidelines"):
        value = rest.get(name)
        texts = [value] if isinstance(value, str) else value
        if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
            traits += texts
            rest.pop(name, None)
    calls = _calls(rest.get("expected_tool_calls"))
    if calls is not None:
        expected["tool_calls"] = calls
        del rest["expected_tool_calls"]
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
