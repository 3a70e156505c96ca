"""The files of a Langfuse project: its clients write a token where a message had base64 or a data URL.

    @@@langfuseMedia:type=image/png|id=…|source=base64_data_uri@@@

Each file is asked for once, `GET /media/ID`, which answers with an address that holds it for a time. It is
kept in the folder of the import until that is complete. A token whose file cannot be had stays: its trace is
`media_missing`.
"""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from pathlib import Path

import msgspec

from replaydiff.importers.base import ShowStatus
from replaydiff.importers.http import HttpError, JsonClient, download
from replaydiff.importers.sources.langfuse.answers import FetchedRows
from replaydiff.importers.sources.langfuse.rows import TraceRows
from replaydiff.replay.files import private_folder, write_whole
from replaydiff.replay.media import LARGEST_BYTES
from replaydiff.replay.messages.media import LANGFUSE_MEDIA
from replaydiff.replay.model import JsonObject

_TOKEN = re.compile(
    rb'(\\*"data\\*"\s*:\s*\\*")?@@@langfuseMedia:type=([\w.+-]+/[\w.+-]+)\|id=([\w-]{1,100})\|source=\w+@@@'
)
"""A token in JSON text; under `data` base64 stood alone, elsewhere in a data URL."""
_FOLDER = "media"


def fetch_media(http: JsonClient, answers: FetchedRows, folder: Path, show_status: ShowStatus) -> None:
    """Download the files that the rows name, those that are here already excepted.

    Raises:
        CredentialsError: the keys are refused.
    """
    waiting = {match[3].decode() for row in answers.holding(LANGFUSE_MEDIA) for match in _TOKEN.finditer(row)}
    private_folder(folder / _FOLDER)
    absent = [name for name in sorted(waiting) if not (folder / _FOLDER / name).exists()]
    for number, name in enumerate(absent, start=1):
        show_status(f"{number:,} of {len(absent):,} pictures and files")
        content = _content(http, name)
        if content is not None:
            write_whole(folder / _FOLDER / name, content)


def _content(http: JsonClient, media_id: str) -> bytes | None:
    try:
        answer = http.get(f"/media/{media_id}")
        url = answer.get("url") if isinstance(answer, dict) else None
        return download(url, LARGEST_BYTES) if isinstance(url, str) else None
    except HttpError:
        return None


def with_media(group: TraceRows, folder: Path) -> TraceRows:
    """Return the rows of a trace with base64 in the place of the tokens whose files are here."""
    return replace(
        group,
        observations=[_with_bytes(row, folder / _FOLDER) for row in group.observations],
        traces=[_with_bytes(row, folder / _FOLDER) for row in group.traces],
    )


def _with_bytes(row: JsonObject, folder: Path) -> JsonObject:
    text = msgspec.json.encode(row)
    if LANGFUSE_MEDIA.encode() not in text:
        return row

    def data(match: re.Match[bytes]) -> bytes:
        try:
            content = base64.b64encode((folder / match[3].decode()).read_bytes())
        except FileNotFoundError:
            return match[0]
        return match[1] + content if match[1] else b"data:" + match[2] + b";base64," + content

    filled: JsonObject = msgspec.json.decode(_TOKEN.sub(data, text))
    return filled
