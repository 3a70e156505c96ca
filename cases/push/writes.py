"""What pushes over plain HTTP share: one write at a time, of which the server may refuse some."""

from __future__ import annotations

from replaydiff.cases.push.records import Pushed
from replaydiff.importers.http import HttpError, JsonClient
from replaydiff.replay.model import Json, JsonObject

REFUSED = frozenset((400, 404, 409, 413, 422))
"""A server that answers this does not take this record; others it may."""


def write(
    client: JsonClient, path: str, body: JsonObject, label: str, pushed: Pushed, *, update: bool = False
) -> Json:
    """Make one write and return the answer, None where the record is refused, which is then named.

    Args:
        client: to the server.
        path: of the request.
        body: of the request.
        label: what a person calls the record.
        pushed: where a refusal is noted.
        update: change what is there (PATCH) instead of adding to it (POST).

    Raises:
        CredentialsError: the key is refused.
        HttpError: the server does not answer.
    """
    try:
        answer = client.post(path, body) if not update else client.patch(path, body)
    except HttpError as error:
        if error.status not in REFUSED:
            raise
        pushed.refused.append((label, str(error)))
        return None
    return {} if answer is None else answer
