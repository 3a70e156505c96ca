"""The pictures of a page: data URLs by the hash of their bytes, as many as one file can carry.

A picture is what begins as PNG, JPEG, GIF or WebP, and it is shown as what it begins as: a browser runs
nothing that is in these. Everything else, and what does not fit, is named with its type and size.
"""

from __future__ import annotations

import base64

from replaydiff.replay.media import MediaFolder
from replaydiff.replay.messages import media_type_of, missing_reason
from replaydiff.replay.messages.media import IMAGES
from replaydiff.replay.model import Json, Media, media_in
from replaydiff.replay.terminal.text import single_line

LARGEST = 400_000
"""Bytes of a picture that a page holds."""
BUDGET = 6_000_000
"""Bytes of all pictures of a page."""


class Pictures:
    """What a page shows of the media in its items, read from the folder of their store."""

    def __init__(self, folder: MediaFolder | None) -> None:
        self._folder, self._left = folder, BUDGET
        self.urls: dict[str, str] = {}
        """Hash → data URL."""

    def of(self, *values: Json) -> list[list[str]]:
        """Return the media of messages or results as pairs: hash and alternative text of a picture on the
        page; nothing and a sentence for what is not there.
        """
        parts = [part for value in values if isinstance(value, list) for part in value]
        missing = filter(None, map(missing_reason, parts))
        return [
            *map(self._shown, {media.sha256: media for media in media_in([*values])}.values()),
            *(["", single_line(f"a picture or file that is missing: {reason}", 200)] for reason in missing),
        ]

    def _shown(self, media: Media) -> list[str]:
        described = single_line(media.description, 200)
        absence = self._add(media)
        return [media.sha256, described] if absence is None else ["", f"{described}{absence}"]

    def _add(self, media: Media) -> str | None:
        """Have a picture on the page; return why it cannot be, None where it is."""
        if media.sha256 in self.urls:
            return None
        if self._folder is None or media.media_type not in IMAGES:
            return ""
        if media.size > LARGEST:
            return f": not shown, it is larger than {LARGEST // 1000} kB"
        content = self._folder.read(media.sha256)
        if content is None:
            return ": not shown, its bytes are no longer beside the store"
        kind = media_type_of(content, "")
        if kind not in IMAGES:
            return ""
        if len(content) > min(self._left, LARGEST):
            return f": not shown, a report holds {BUDGET // 1_000_000} MB of pictures at most"
        self._left -= len(content)
        self.urls[media.sha256] = f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
        return None
