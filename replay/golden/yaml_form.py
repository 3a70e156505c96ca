"""Cases as YAML: one list, read by the rules of YAML 1.2 (`no` and `2026-11-20` are texts) and never run.

The parser's events alone are used: no tag makes an object, an alias counts as much as what it stands for, so
that a few lines cannot become gigabytes, and nothing here recurses. What is written reads the same under the
rules of YAML 1.1, which many readers still have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from replaydiff.replay.golden.text import BOM, DEEPEST, FormError, Piece
from replaydiff.replay.model import JsonObject

_MOST_VALUES = 2_000_000
"""Values of a file, aliases written out."""
_TAG = "tag:yaml.org,2002:"
_PLAIN = {"null": None, "~": None, "": None, "true": True, "false": False}
_CASED = {form(word): value for word, value in _PLAIN.items() for form in (str, str.title, str.upper)}
_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_JSON = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_SURE = re.compile(r"[A-Za-z][A-Za-z0-9 _./+-]*(?<! )")
_NO_BLOCK = re.compile(r"[^\S\n]\n|^\s|\n\n\Z|[^\n\x20-\x7e\xa0-\ud7ff]")
_ASCII = re.compile(r"[\x20-\x7e]+")
_UNLIMITED_WIDTH = 1 << 30
"""Texts are not folded: a change of one word is then a change of one line."""
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}


@dataclass(slots=True)
class Loaded:
    """A document with the positions of its lists and objects."""

    value: Any
    lines: dict[int, int]
    """`id` of a list or object → its line, from 1."""
    marks: dict[tuple[str | int, ...], tuple[int, int]]
    """Path of a value → where it begins and ends, as indices into the text."""


@dataclass(slots=True)
class _Open:
    """A list or object that is being read."""

    value: Any
    anchor: str | None
    line: int
    start: int
    path: tuple[str | int, ...]
    size: int = 1
    key: str | None = None
    merged: list[Any] = field(default_factory=list)


def load(text: str) -> Loaded:
    """Return one document of YAML.

    Raises:
        FormError: it is none.
    """
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Reading().read(
            yaml.parse(text.removeprefix(BOM), Loader=loader), len(text) - len(text.lstrip(BOM))
        )
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = f"not valid YAML: {error.problem or error.context}"
        raise FormError(reason, mark.line + 1 if mark else 1) from None
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise FormError(f"not valid YAML: {str(error).splitlines()[0]}") from None


class _Reading:
    """Values made of the parser's events, with the open lists and objects on a stack."""

    def __init__(self) -> None:
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._loaded = Loaded(None, {}, {})
        self._values = 0

    def read(self, events: Any, shift: int) -> Loaded:
        import yaml

        documents = 0
        for event in events:
            self._event, self._shift = event, shift
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._wrong("one document a file")
            elif isinstance(event, yaml.AliasEvent):
                if event.anchor not in self._anchors:
                    raise self._wrong(f"nothing before is named *{event.anchor}")
                value, size = self._anchors[event.anchor]
                self._put(value, size, *self._span(event), cost=size)
            elif isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
                self._begin(event, [] if isinstance(event, yaml.SequenceStartEvent) else {})
            elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
                self._end(event)
        return self._loaded

    def _span(self, event: Any) -> tuple[int, int]:
        return event.start_mark.index, event.end_mark.index

    def _wrong(self, reason: str) -> FormError:
        return FormError(f"not valid YAML: {reason}", self._event.start_mark.line + 1)

    def _path(self) -> tuple[str | int, ...]:
        if not self._stack:
            return ()
        top = self._stack[-1]
        return (*top.path, len(top.value) if isinstance(top.value, list) else top.key or "")

    def _begin(self, event: Any, value: Any) -> None:
        kind = "seq" if isinstance(value, list) else "map"
        if event.tag not in (None, "!", _TAG + kind):
            raise self._wrong(f"tags such as {event.tag[:40]} are not read")
        if self._stack and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None:
            raise self._wrong("a key must be a text")
        if len(self._stack) >= DEEPEST:
            raise self._wrong(f"nested deeper than {DEEPEST}")
        line = event.start_mark.line + 1
        self._loaded.lines[id(value)] = line
        start = event.start_mark.index
        self._stack.append(_Open(value, event.anchor, line, start, self._path()))

    def _end(self, event: Any) -> None:
        ended_node = self._stack.pop()
        for merged in ended_node.merged:
            for key, value in merged.items():
                ended_node.value.setdefault(key, value)
        if ended_node.anchor:
            self._anchors[ended_node.anchor] = (ended_node.value, ended_node.size)
        self._put(ended_node.value, ended_node.size, ended_node.start, event.end_mark.index)

    def _scalar(self, event: Any) -> None:
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            if event.value in top.value:
                raise self._wrong(f"the key {event.value[:60]!r} comes twice in one object")
            top.key = event.value
            return
        value = event.value if event.style and not event.tag else self._plain(event)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._put(value, 1, *self._span(event))

    def _plain(self, event: Any) -> Any:
        text, tag = event.value, event.tag
        if tag in ("!", f"{_TAG}str"):
            return text
        if tag is not None and tag not in {_TAG + kind for kind in ("int", "float", "bool", "null")}:
            raise self._wrong(f"tags such as {tag[:40]} are not read")
        if text in _CASED:
            return _CASED[text]
        try:
            if _INT.fullmatch(text):
                return int(text)
            if _BASED.fullmatch(text):
                return int(text, 0)
        except ValueError:
            raise self._wrong("a number of too many digits") from None
        if _NO_JSON.fullmatch(text) or (
            _FLOAT.fullmatch(text) and float(text) in (float("inf"), float("-inf"))
        ):
            raise self._wrong(f"{text[:40]} is not a JSON number")
        return float(text) if _FLOAT.fullmatch(text) else text

    def _put(self, value: Any, size: int, start: int, end: int, cost: int = 1) -> None:
        self._values += cost
        if self._values > _MOST_VALUES:
            raise self._wrong(f"more than {_MOST_VALUES:,} values once its aliases are written out")
        self._loaded.marks[self._path()] = (start + self._shift, end + self._shift)
        if not self._stack:
            self._loaded.value = value
            return
        top = self._stack[-1]
        top.size += size
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key == "<<" and _mergeable(value):
            top.merged += value if isinstance(value, list) else [value]
            top.key = None
        else:
            top.value[top.key] = value
            top.key = None


def _mergeable(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)
    )


def items(text: str) -> Iterator[Piece]:
    """Yield the cases of a list, each with the comment lines right above it.

    Raises:
        FormError: the text is no YAML, or no list.
    """
    loaded = load(text)
    if loaded.value is None:
        return
    if not isinstance(loaded.value, list):
        raise FormError("a golden set in YAML is a list of cases")
    starts: list[int] = []
    for index, _ in enumerate(loaded.value):
        start, _end = loaded.marks[index,]
        starts.append(_block_start(text, start, starts[-1] if starts else 0))
    stop = loaded.marks[()][1]
    for index, record in enumerate(loaded.value):
        end = starts[index + 1] if index + 1 < len(starts) else max(stop, starts[index])
        line = text.count("\n", 0, loaded.marks[index,][0]) + 1
        yield Piece(line, starts[index], end, record)


def is_flow(text: str) -> bool:
    """Return whether the list is written as `[…]`, in which no item has lines of its own."""
    return bool(re.match(rf"{BOM}?(\s|#.*\n|---)*\[", text))


def item_of(record: JsonObject, margin: str = "") -> str:
    """Return a case as an item of a list: its lines, each with its end."""
    return "".join(margin + line for line in dump([record]).splitlines(keepends=True))


def dump(value: Any) -> str:
    """Return a value as YAML, in blocks, keys in their order."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
            super().increase_indent(flow, False)

    Dumper.add_representer(str, _represented)
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=_UNLIMITED_WIDTH)


def margin_of(text: str, pieces: Sequence[Piece]) -> str:
    """Return the spaces before the dashes of a list."""
    if not pieces:
        return ""
    source = text[pieces[0].start : pieces[0].end]
    dash = re.search(r"^( *)-", source, re.MULTILINE)
    return dash[1] if dash else ""


def _represented(dumper: Any, text: str) -> Any:
    style = '"'
    if _SURE.fullmatch(text) and text.lower() not in _WORDS:
        style = None  # type: ignore[assignment]
    elif '"' in text and _ASCII.fullmatch(text):
        style = "'"
    elif "\n" in text and not _NO_BLOCK.search(text):
        style = "|"
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


def _block_start(text: str, start: int, floor: int) -> int:
    """Return where the block of an item begins whose value begins at `start`.

    At its dash, or the comments above.
    """
    dash = text.rfind("-", floor, start)
    begin = text.rfind("\n", 0, max(dash, 0)) + 1
    margin = dash - begin
    while begin > floor:
        above = text.rfind("\n", 0, begin - 1) + 1
        line = text[above : begin - 1]
        if above < floor or not line.lstrip().startswith("#") or len(line) - len(line.lstrip()) > margin:
            break
        if above == 0:
            break
        begin = above
    return begin


def set_in_metadata(text: str, name: str, value: str) -> str | None:
    """Return the text of a case with a metadata text replaced or added.

    None where no splice can do that.
    """
    loaded = load(text)
    base: tuple[str | int, ...] = (0,) if isinstance(loaded.value, list) else ()
    entry = f"{name}: {json.dumps(value)}"
    if mark := loaded.marks.get((*base, "metadata", name)):
        return f"{text[: mark[0]]}{json.dumps(value)}{text[mark[1] :]}"
    outer = loaded.marks.get((*base, "metadata"))
    start = loaded.marks[base][0] if outer is None else outer[0]
    margin = " " * (start - text.rfind("\n", 0, start) - 1)
    if outer is None:
        return f"{text.rstrip()}\n{margin}metadata:\n{margin}  {entry}\n"
    if text[start] == "{":
        return f"{text[: start + 1]}{entry}, {text[start + 1 :]}"
    return f"{text[:start]}{entry}\n{margin}{text[start:]}"
