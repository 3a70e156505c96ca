"""The pages of Langfuse's public API: the newer ones go on at a cursor, the older ones are numbered."""

from __future__ import annotations

import os
from base64 import b64encode
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from replaydiff.importers.base import Told
from replaydiff.importers.http import TIMEOUT_S, HttpError, JsonClient, Params, read_url
from replaydiff.replay.errors import SettingsError
from replaydiff.replay.langfuse_keys import LangfuseKeys
from replaydiff.replay.model import Json, JsonObject

PREFIX = "/api/public"
GONE = (404, 410)
"""What a server answers for an endpoint that it does not have (yet, or any more)."""


@dataclass(frozen=True, slots=True)
class Page:
    """One answer that was read whole."""

    rows: list[Json]
    after: str | None
    """Where the next page begins: a cursor, or how many rows came before it; None on the last page."""


def access() -> LangfuseKeys:
    """Keys and address, the address checked.

    Raises:
        CredentialsError: a key is not set.
        SettingsError: the address is none.
    """
    keys = LangfuseKeys.from_environment()
    name = "LANGFUSE_BASE_URL" if os.environ.get("LANGFUSE_BASE_URL") else "LANGFUSE_HOST"
    return LangfuseKeys(keys.public_key, keys.secret_key, read_url(name, keys.base_url))


def connect(keys: LangfuseKeys, told: Told) -> JsonClient:
    """A client with the keys; `LANGFUSE_TIMEOUT` says how many seconds of silence are too many.

    Raises:
        SettingsError: `LANGFUSE_TIMEOUT` is no such number.
    """
    pair = f"{keys.public_key}:{keys.secret_key}".encode()
    return JsonClient(
        keys.base_url + PREFIX,
        headers={"Authorization": f"Basic {b64encode(pair).decode()}"},
        service="Langfuse",
        keys="LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY and LANGFUSE_BASE_URL",
        told=told,
        timeout=_timeout(),
    )


def _timeout() -> float:
    text = os.environ.get("LANGFUSE_TIMEOUT")
    if not text:
        return TIMEOUT_S
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise SettingsError(f"LANGFUSE_TIMEOUT must be a number of seconds above 0, not {text[:40]!r}")
    return found


def iso(time: datetime) -> str:
    """A naive UTC time as the API takes it."""
    return f"{time.isoformat(timespec='milliseconds')}Z"


def cursor_page(
    http: JsonClient, path: str, params: Params, after: str | None, limit: int, heavy_attempts: int
) -> Page:
    """A page of an endpoint with cursors.

    Raises:
        CredentialsError, HttpError: as `JsonClient.get`; also where the answer is no page.
    """
    asked = {**params, "limit": limit, **({"cursor": after} if after else {})}
    rows, meta = _page(http.get(path, asked, heavy_attempts=heavy_attempts), path)
    cursor = meta.get("cursor")
    following = cursor if isinstance(cursor, str) and cursor else None
    if following is not None and following == after:
        raise HttpError(f"Langfuse answers the same page of {path} again and again; please report it")
    return Page(rows, following)


def numbered_page(
    http: JsonClient, path: str, params: Params, after: str | None, limit: int, heavy_attempts: int
) -> Page:
    """A page of an endpoint with page numbers; `after`, a number of rows, is a multiple of `limit`.

    Raises:
        CredentialsError, HttpError: as for `cursor_page`.
    """
    before = int(after or 0)
    number = before // limit + 1
    asked = {**params, "limit": limit, "page": number}
    rows, meta = _page(http.get(path, asked, heavy_attempts=heavy_attempts), path)
    pages = meta.get("totalPages")
    more = number < pages if isinstance(pages, int) else len(rows) == limit
    return Page(rows, str(before + limit) if more and rows else None)


def _page(answer: Json, path: str) -> tuple[list[Json], JsonObject]:
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise HttpError(f"the answer to {PREFIX}{path} is no page of Langfuse; is the address right?")
    meta = cast("JsonObject", answer).get("meta")
    return rows, meta if isinstance(meta, dict) else {}
