"""The API of Braintrust, for live imports and for golden sets: projects, and rows by `btql`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from replaydiff.importers.base import ShowStatus
from replaydiff.importers.http import JsonClient, check_next, read_url
from replaydiff.replay.errors import CredentialsError, InputError
from replaydiff.replay.model import Json, JsonObject, as_object, objects_in

KEYS = "BRAINTRUST_API_KEY and BRAINTRUST_API_URL"
PAGE = 1000


def address() -> str:
    """Return the address of the API.

    Raises:
        SettingsError: the environment names none.
    """
    return read_url(
        "BRAINTRUST_API_URL", os.environ.get("BRAINTRUST_API_URL") or "https://api.braintrust.dev"
    )


def client(show_status: ShowStatus) -> JsonClient:
    """Return a client with the key of the environment.

    Raises:
        CredentialsError: there is none.
    """
    key = os.environ.get("BRAINTRUST_API_KEY", "").strip()
    if not key:
        raise CredentialsError("BRAINTRUST_API_KEY is not set; Braintrust's settings page makes one")
    headers = {"Authorization": f"Bearer {key}"}
    return JsonClient(address(), headers=headers, service="Braintrust", keys=KEYS, show_status=show_status)


def project_id(http: JsonClient, name: str) -> str:
    """Return the id of the project of this name.

    Raises:
        InputError: there is none.
    """
    for project in objects_in(as_object(http.get("/v1/project", {"project_name": name})).get("objects")):
        if project.get("name") == name:
            return str(project["id"])
    raise InputError(f"there is no project {name!r} in Braintrust; --project takes its name")


def page(
    http: JsonClient, table: str, object_id: str, condition: JsonObject | None, cursor: str | None
) -> tuple[list[JsonObject], str | None]:
    """Return a page of the rows of an object, and the cursor of the next one.

    Args:
        http: to the server.
        table: `project_logs`, `dataset` or `experiment`.
        object_id: of the project, dataset or experiment.
        condition: which rows, as an expression of `btql`.
        cursor: of this page.
    """
    source: JsonObject = {
        "op": "function",
        "name": {"op": "ident", "name": [table]},
        "args": [{"op": "literal", "value": object_id}],
    }
    query: JsonObject = {"select": [{"op": "star"}], "from": source, "cursor": cursor, "limit": PAGE}
    if condition is not None:
        query["filter"] = condition
    body: JsonObject = {"query": query, "use_columnstore": False, "brainstore_realtime": True}
    answer = http.post("/btql", body)
    rows, following = (as_object(answer).get(key) for key in ("data", "cursor"))
    following = following if isinstance(following, str) and rows else None
    check_next(cursor, following, "btql")
    return objects_in(rows), following


def rows(http: JsonClient, table: str, object_id: str) -> Iterator[JsonObject]:
    """Yield all rows of a dataset or an experiment."""
    cursor: str | None = None
    while True:
        listed, cursor = page(http, table, object_id, None, cursor)
        yield from listed
        if cursor is None:
            return


def compared(operator: str, name: str, value: Json) -> JsonObject:
    """Return an expression of `btql` that compares a field: `ge`, `lt`."""
    return {
        "op": operator,
        "left": {"op": "ident", "name": [name]},
        "right": {"op": "literal", "value": value},
    }
