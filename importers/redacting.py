"""Redaction of what importers yield, by the process that writes it or by several that do jobs.

Tokens are numbered as their values are met, in the order of the records. A process that does a job knows no
numbers, and so redacts twice: the first time shows which values there are, in order. Their digests are sent
to the process that writes, which numbers them when it is the job's turn; values themselves are never sent.
The second time, with these numbers, is for items alone that have tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import phonenumbers

from replaydiff.importers.base import EXCERPT_CHARACTERS, Imported, Kept, Reject
from replaydiff.replay.model import Trace
from replaydiff.replay.redact.redactor import RedactionError, Redactor, redactor
from replaydiff.replay.store.import_records import Tokens, value_digest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from replaydiff.replay.settings import RedactSection

Item = Imported | Kept
Hashed = tuple[Item, str]
"""An item, and the hash that its record is known by; empty where there is none."""
Digest = tuple[str, bytes]
"""Kind and keyed hash of a value."""
_LONGEST_HALF = 100


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
        self.section = section
        self.tokens = Tokens(con)
        self._redactor = redactor(section, root, self.tokens.of)

    @property
    def is_repeatable(self) -> bool:
        """Whether the same text is always redacted alike, in any process and at any time."""
        # A hook may remember what it was called with before, and its code may change.
        return self.section.hook is None

    @property
    def fingerprint(self) -> bytes:
        """A hash of all that decides what is redacted, but the code; without the store nobody can make it."""
        settings = msgspec.json.encode((self.section, phonenumbers.__version__))
        return hashlib.blake2b(settings, key=self.tokens.key, digest_size=32).digest()

    def item(self, item: Item) -> Item:
        """Return an item without personal data; a reject where it cannot be searched."""
        self._redactor.forget()
        return _redacted(item, self._redactor)

    def items(self, items: Iterable[Hashed]) -> Iterator[Hashed]:
        """Yield items without personal data."""
        return ((self.item(item), hashed) for item, hashed in items)

    def file_name(self, name: str) -> str:
        """Return a file's name as rejects keep it; nothing of one that cannot be searched."""
        return _file_name(name, self._redactor)


class JobRedactor:
    """Redacts the items of jobs, in a process without the store."""

    def __init__(
        self, section: RedactSection, key: bytes, numbers: Callable[[Sequence[Digest]], Sequence[int]]
    ) -> None:
        """Create one for a process.

        Args:
            section: the settings; without a hook.
            key: what the store keys the digests of values with.
            numbers: asks for the numbers of values, once for each job.
        """
        self._redactor = redactor(section, Path(), self._token_of)
        self._key, self._ask = key, numbers
        self._places: dict[Digest, int] = {}
        """Value → how many were met in the job before it."""
        self._numbers: Sequence[int] | None = None
        self._given = 0
        """Tokens in the current item."""

    def items(self, items: Iterable[Hashed]) -> Iterator[Hashed]:
        """Yield the items of a job without personal data."""
        self._redactor.forget()
        self._places, self._numbers = {}, None
        first: list[tuple[Callable[[], Item], str]] = []
        for item, hashed in items:
            self._given = 0
            again: Callable[[], Item]
            try:
                made, again = _searched(item, self._redactor), partial(_redacted, item, self._redactor)
            except RedactionError as error:
                # It may have been for lack of time: whatever the second time would find, it stays a reject.
                again = partial(_unsearched, item, str(error), self._redactor)
                made = again()
            first.append((again if self._given else partial(_same, made), hashed))
        self._numbers = self._ask(list(self._places))
        for make, hashed in first:
            yield make(), hashed

    def _token_of(self, kind: str, value: str) -> str:
        self._given += 1
        digest = (kind, value_digest(self._key, kind, value))
        if self._numbers is None:
            self._places.setdefault(digest, len(self._places))
            return f"[{kind}_0]"
        if digest not in self._places:
            raise RedactionError("personal data in it was not found when it was searched first")
        return f"[{kind}_{self._numbers[self._places[digest]]}]"


def _same(item: Item) -> Item:
    return item


def _redacted(item: Item, redactor: Redactor) -> Item:
    try:
        return _searched(item, redactor)
    except RedactionError as error:
        return _unsearched(item, str(error), redactor)


def _searched(item: Item, redactor: Redactor) -> Item:
    """Return an item redacted; what is neither trace nor reject is counted and not stored.

    Raises:
        RedactionError: the user's own pattern or hook failed on a text.
    """
    if isinstance(item, Trace):
        return redactor.trace(item)
    return _reject(item, redactor) if isinstance(item, Reject) else item


def _unsearched(item: Item, reason: str, redactor: Redactor) -> Reject:
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
