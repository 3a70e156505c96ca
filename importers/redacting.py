"""Redaction of what importers yield, on its way into the store.

Tokens are numbered as their values are met, in the order of the records.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from replaydiff.importers.base import EXCERPT_CHARACTERS, Imported, Reject
from replaydiff.replay.model import Trace
from replaydiff.replay.redact.redactor import RedactionError, Redactor, redactor
from replaydiff.replay.store.import_records import Tokens

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from replaydiff.replay.settings import RedactSection

_LONGEST_HALF = 100
"""Characters that are cut from the end of an excerpt that was cut itself."""


class Redaction:
    """What an import redacts with: its settings, and the tokens of its store."""

    def __init__(self, section: RedactSection, root: Path, con: DuckDBPyConnection) -> None:
        """Read the tokens of a store.

        Args:
            section: the settings.
            root: the folder of replay.toml, from which a hook is loaded.
            con: the store.

        Raises:
            SettingsError: a pattern or the hook cannot be used.
        """
        self.tokens = Tokens(con)
        self.keeps_media = section.media == "keep"
        """Whether the bytes of pictures, documents and audio are kept."""
        self._redactor = redactor(section, root, self.tokens.of)

    def item(self, item: Imported) -> Imported:
        """Return an item without personal data; a reject if it cannot be searched."""
        self._redactor.forget()
        try:
            if isinstance(item, Trace):
                return self._redactor.record(item)
            return _reject(item, self._redactor) if isinstance(item, Reject) else item
        except RedactionError as error:
            return _unsearched(item, str(error), self._redactor)

    def file_name(self, name: str) -> str:
        """Return a file's name as rejects keep it; nothing of one that cannot be searched."""
        return _file_name(name, self._redactor)


def _unsearched(item: Imported, reason: str, redactor: Redactor) -> Reject:
    """Return what is left of an item that cannot be searched for personal data: its place and its id."""
    if isinstance(item, Trace):
        return Reject(source=item.source, file="", line=0, id=item.trace_id, reason=reason, excerpt="")
    assert isinstance(item, Reject)  # noqa: S101 - nothing else is searched
    name = _file_name(item.file, redactor)
    return replace(item, file=name, reason=reason, excerpt="", record=None, alone=False)


def _reject(reject: Reject, redactor: Redactor) -> Reject:
    """Return a reject without the personal data in it."""
    record = None if reject.record is None else _record(reject.record, redactor)
    excerpt = redactor.text(reject.excerpt) if record is None else record[:EXCERPT_CHARACTERS]
    if record is None and len(reject.excerpt) == EXCERPT_CHARACTERS:
        # It was cut, maybe within an address, of which half is not known for one.
        excerpt = excerpt[:-_LONGEST_HALF]
    return replace(
        reject,
        file=_file_name(reject.file, redactor),
        reason=redactor.text(reject.reason),
        excerpt=excerpt,
        record=record,
    )


def _record(text: str, redactor: Redactor) -> str:
    """Return a rejected record redacted: encoded anew, since JSON text may hold more than its value does."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return redactor.text(text)
    return msgspec.json.encode(redactor.value(value)).decode()


def _file_name(name: str, redactor: Redactor) -> str:
    try:
        return redactor.text(name)
    except RedactionError:
        return ""
