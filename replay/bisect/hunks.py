"""The hunks of a commit, and patches that apply any subset of them.

Hunks are read from `git diff --unified=0`, so changes on lines that do not touch each other are hunks of
their own. A file that was added, deleted, renamed, made executable, or is binary, is one hunk: half of that
is no file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

_RANGE = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_START = b"diff --git "
_WHOLE = re.compile(
    rb"^(new file|deleted file|old mode|rename|copy|similarity|GIT binary|Binary files)", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """A part of a commit that can be applied without the others."""

    file: str
    lines: str
    """`12-14` of the new file, of the old one where lines were only deleted; `all` for a whole file."""
    header: bytes
    """What stands before the hunks of its file."""
    body: bytes
    """Its changed lines; for a whole file all of its part of the patch but the header."""
    old: tuple[int, int] | None = None
    """First line and number of lines in the old file; None for a whole file."""
    new: tuple[int, int] | None = None


def parse_hunks(diff: bytes) -> list[Hunk]:
    """Return the hunks of what `git diff --unified=0 --binary --no-renames` prints."""
    hunks: list[Hunk] = []
    for part in _parts(diff):
        first = part.find(b"\n@@ ")
        header = part if first < 0 else part[: first + 1]
        file = _file_of(header)
        if first < 0 or _WHOLE.search(header):
            hunks.append(Hunk(file=file, lines="all", header=header, body=part[len(header) :]))
            continue
        hunks += _hunks_of(file, header, part[first + 1 :])
    return hunks


def compose(hunks: Sequence[Hunk], chosen: Collection[int]) -> bytes:
    """Return the patch of some hunks of a commit, to be applied with `git apply --unidiff-zero`.

    The new line numbers are counted anew, since hunks that are left out move what comes after them.
    """
    parts: list[bytes] = []
    header, moved = b"", 0
    for number, hunk in enumerate(hunks):
        if number not in chosen:
            continue
        if hunk.header != header:
            parts.append(hunk.header)
            header, moved = hunk.header, 0
        if hunk.old is not None and hunk.new is not None:
            (start, before), (_, after) = hunk.old, hunk.new
            # Where a side has no lines, git counts the line after which they are.
            position = start + moved + (before == 0) - (after == 0)
            parts.append(b"@@ -%d,%d +%d,%d @@\n" % (start, before, position, after))
            moved += after - before
        parts.append(hunk.body)
    return b"".join(parts)


def _parts(diff: bytes) -> Iterator[bytes]:
    """Yield the part of each file."""
    starts = [match.start() for match in re.finditer(rb"^" + _START, diff, re.MULTILINE)]
    for start, end in pairwise([*starts, len(diff)]):
        yield diff[start:end]


def _hunks_of(file: str, header: bytes, remaining: bytes) -> Iterator[Hunk]:
    starts = list(re.finditer(rb"^@@ -.*\n", remaining, re.MULTILINE))
    for match, following in zip(starts, [*starts[1:], None], strict=True):
        numbers = _RANGE.match(match[0])
        if numbers is None:
            continue
        old = (int(numbers[1]), int(numbers[2] or 1))
        new = (int(numbers[3]), int(numbers[4] or 1))
        start, count = new if new[1] else old
        lines = str(start) if count == 1 else f"{start}-{start + count - 1}"
        body = remaining[match.end() : following.start() if following else len(remaining)]
        yield Hunk(file=file, lines=lines, header=header, body=body, old=old, new=new)


def _file_of(header: bytes) -> str:
    """Return the path that a file's part of the patch is about."""
    for start in (b"+++ b/", b'+++ "b/', b"--- a/", b'--- "a/'):
        match = re.search(rb"^" + re.escape(start) + rb"(.*?)\"?\t?$", header, re.MULTILINE)
        if match:
            return match[1].decode(errors="replace")
    # Both halves of `a/x b/x` are the same path, since renames are not looked for.
    named = header.split(b"\n", 1)[0].removeprefix(_START).strip(b'"')
    return named[: (len(named) - 1) // 2].removeprefix(b"a/").rstrip(b'"').decode(errors="replace")
