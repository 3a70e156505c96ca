r"""Whether the arguments of two calls agree, where some places of them have rules of their own.

    JSON in a string    a string that is a JSON object or array counts as what it says, at any depth
    path                `customer.email`, `items.0.price`; `*` is any key or index; `\.` is a dot in a key
    rule                what `PathRule` and `NamedRule` say; it decides for everything below its path

Where two paths lead to one place, the one that names the key goes before the one with `*`. Everything that no
path leads to is compared as JSON, the top level by `exact` or `subset` as elsewhere. Numbers are compared in
decimal: 1.1 is within 0.1 of 1.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Any, cast

from replaydiff.replay.errors import ReplayError
from replaydiff.replay.functions import load_function
from replaydiff.replay.messages import canonical_args, decode
from replaydiff.replay.model import Json, JsonObject, NamedRule, PathRule, ToolMatch

ANY = "*"
_DOT = re.compile(r"(?<!\\)\.")
_DATES = ("%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y", "%B %d %Y", "%b %d %Y")
_OPENING = frozenset("{[")
_PLAIN = frozenset((str, int, float, bool, type(None)))
_MOST_DIGITS = 400
"""A text that is longer is no number."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where two calls' arguments do not agree."""

    path: str
    wanted: tuple[Json, ...]
    """The value expected there; empty where none is."""
    made: tuple[Json, ...]
    rule: str = ""
    """What would have been enough, in words; empty where only equal values are."""


@dataclass(slots=True)
class _Node:
    rule: NamedRule | PathRule | None = None
    below: dict[str, _Node] = field(default_factory=dict)


def canonical(args: JsonObject, ignored: Collection[str] = ()) -> str:
    """`canonical_args` with JSON inside strings decoded."""
    text = canonical_args(args, ignored)
    if '"{' in text or '"[' in text:
        # What is nested too deeply to be walked is compared as the text it is.
        with suppress(RecursionError):
            return canonical_args(cast("JsonObject", _decoded(args)), ignored)
    return text


class ArgumentRules:
    """The comparison rules of one tool's arguments."""

    def __init__(self, rules: ToolMatch, how: str, ignored: Collection[str], root: Path) -> None:
        """Rules; `how` is `exact` or `subset`, `root` where functions of the user's are found."""
        self._how, self._ignored, self._root = how, ignored, root
        self._function = rules.function
        self._top = _Node()
        for path, rule in rules.paths.items():
            node = self._top
            for key in _DOT.split(path):
                node = node.below.setdefault(key.replace("\\.", "."), _Node())
            node.rule = rule

    def differences(self, wanted: JsonObject, made: JsonObject) -> Iterator[Difference]:
        """Where they do not agree, in the order of the expected keys; nothing where they do.

        Raises:
            ReplayError: a function of the user's cannot be loaded, or failed.
        """
        if self._function is not None:
            if not _call_user_function(self._function, wanted, made, self._root):
                yield Difference("", (wanted,), (made,), f"as {self._function} compares")
            return
        keys = [key for key in wanted if key not in self._ignored]
        if self._how == "exact":
            keys += [key for key in made if key not in wanted and key not in self._ignored]
        yield from self._members(keys, wanted, made, [self._top], "")

    def _members(
        self,
        keys: Iterable[str],
        wanted: Mapping[str, Json],
        made: Mapping[str, Json],
        nodes: list[_Node],
        path: str,
    ) -> Iterator[Difference]:
        for key in keys:
            below = [node.below[key] for node in nodes if key in node.below]
            below += [node.below[ANY] for node in nodes if key != ANY and ANY in node.below]
            place = f"{path}.{key}" if path else key
            if key in wanted and key in made:
                yield from self._values(wanted[key], made[key], below, place)
            elif next((node.rule for node in below if node.rule), None) != "ignore":
                yield Difference(
                    place,
                    (wanted[key],) if key in wanted else (),
                    (made[key],) if key in made else (),
                )

    def _values(self, wanted: Json, made: Json, nodes: list[_Node], path: str) -> Iterator[Difference]:
        rule = next((node.rule for node in nodes if node.rule is not None), None)
        if rule is not None:
            if not _holds(rule, wanted, made, self._root):
                yield Difference(path, (wanted,), (made,), _rule_text(rule))
            return
        if any(node.below for node in nodes):
            inner_wanted, inner_made = _decode_json_text(wanted), _decode_json_text(made)
            if isinstance(inner_wanted, dict) and isinstance(inner_made, dict):
                keys = [*inner_wanted, *(key for key in inner_made if key not in inner_wanted)]
                yield from self._members(keys, inner_wanted, inner_made, nodes, path)
                return
            if (
                isinstance(inner_wanted, list)
                and isinstance(inner_made, list)
                and len(inner_wanted) == len(inner_made)
            ):
                rows = _numbered(inner_wanted)
                yield from self._members(rows, rows, _numbered(inner_made), nodes, path)
                return
        if not equal(wanted, made):
            yield Difference(path, (wanted,), (made,))


def equal(wanted: Json, made: Json) -> bool:
    """Whether two values are the same as JSON, JSON inside strings decoded.

    A direct comparison decides most; only where a string may contain JSON, or a number is none, both are
    serialised.
    """
    try:
        found = _equal_values(wanted, made)
    except RecursionError:
        found = None
    return canonical({"": wanted}) == canonical({"": made}) if found is None else found


def _equal_values(one: Json, other: Json) -> bool | None:
    """Return whether two values are equal; None if that requires serialising them."""
    kind = type(one)
    if kind is not type(other):
        return _equal_across_types(one, other)
    if kind in _PLAIN and one == other:
        return True
    if isinstance(one, str) and isinstance(other, str):
        return None if one[:1] in _OPENING or other[:1] in _OPENING else False
    pairs: Iterable[tuple[Json, Json]]
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return False
        pairs = zip(one.values(), map(other.__getitem__, one), strict=True)
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return False
        pairs = zip(one, other, strict=True)
    else:
        # Two numbers that differ; but what is no number is written as null.
        both = isinstance(one, float) and isinstance(other, float) and isfinite(one) and isfinite(other)
        return None if isinstance(one, float) and not both else False
    result: bool | None = True
    for value, opposite in pairs:
        # The usual case, without a call.
        if type(value) is type(opposite) and type(value) in _PLAIN and value == opposite:
            continue
        found = _equal_values(value, opposite)
        if found is False:
            return False
        if found is None:
            result = None
    return result


def _equal_across_types(one: Json, other: Json) -> bool | None:
    if isinstance(one, str) or isinstance(other, str):
        text, value = (one, other) if isinstance(one, str) else (other, one)
        inside = isinstance(text, str) and text[:1] in _OPENING and isinstance(value, dict | list | tuple)
        return None if inside else False
    numbers = [value for value in (one, other) if isinstance(value, int | float)]
    if any(isinstance(value, float) and not isfinite(value) for value in numbers):
        return None
    if len(numbers) == 2:
        return not isinstance(one, bool) and not isinstance(other, bool) and one == other
    return None if isinstance(one, list | tuple) and isinstance(other, list | tuple) else False


def _decode_json_text(value: Json) -> Json:
    """Return a value, parsed if it is a string with a JSON object or array."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        found = decode(value)
        return found if isinstance(found, dict | list) else value
    return value


def _decoded(value: Json) -> Json:
    value = _decode_json_text(value)
    if isinstance(value, dict):
        return {key: _decoded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_decoded(item) for item in value]
    return value


def _numbered(rows: list[Json]) -> dict[str, Json]:
    return {str(index): value for index, value in enumerate(rows)}


def _holds(rule: NamedRule | PathRule, wanted: Json, made: Json, root: Path) -> bool:
    if isinstance(rule, PathRule):
        if rule.function is not None:
            return _call_user_function(rule.function, wanted, made, root)
        if rule.regex is not None:
            text = made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)
            return re.search(rule.regex, text) is not None
        return _near(rule, wanted, made)
    match rule:
        case "ignore":
            return True
        case "ignore_case":
            return canonical({"": wanted}).casefold() == canonical({"": made}).casefold()
        case "date" | "time":
            moments = _moment(wanted), _moment(made)
            if moments[0] is None or moments[1] is None:
                return equal(wanted, made)
            if rule == "date":
                return moments[0].date() == moments[1].date()
            return _utc(moments[0]) == _utc(moments[1])
        case _:
            return equal(wanted, made)


def _near(rule: PathRule, wanted: Json, made: Json) -> bool:
    numbers = _number(wanted), _number(made)
    if numbers[0] is None or numbers[1] is None:
        return equal(wanted, made)
    try:
        allowed = Decimal(str(rule.tolerance or 0)) + Decimal(str(rule.relative or 0)) * abs(numbers[0])
        return abs(numbers[0] - numbers[1]) <= allowed
    except ArithmeticError:
        return numbers[0] == numbers[1]


def _number(value: Json) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    try:
        text = str(value)
        found = Decimal(text) if len(text) <= _MOST_DIGITS else None
    except (ArithmeticError, ValueError):
        return None
    return found if found is not None and found.is_finite() else None


def _moment(value: Json) -> datetime | None:
    """A date or time as ISO 8601 writes it, with `/` for `-` as well, or with the English month."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    try:
        return datetime.fromisoformat(re.sub(r"^(\d{4})/(\d{2})/(\d{2})", r"\1-\2-\3", text))
    except ValueError:
        pass
    for form in _DATES:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    return None


def _utc(moment: datetime) -> datetime:
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        return moment.replace(tzinfo=UTC)


def _call_user_function(target: str, wanted: Json, made: Json, root: Path) -> bool:
    function = _function(target, root)
    try:
        return bool(function(wanted, made))
    except Exception as error:  # noqa: BLE001 - the user's function may raise anything
        raise ReplayError(
            f"the function {target}, which compares arguments, failed: {type(error).__name__}: {error}; "
            "correct it"
        ) from None


@functools.cache
def _function(target: str, root: Path) -> Callable[[Json, Json], Any]:
    return load_function(target, root, "match function")


def _rule_text(rule: NamedRule | PathRule) -> str:
    """Describe a rule's requirement, to follow `must be`."""
    if isinstance(rule, str):
        return {
            "ignore_case": "equal but for letter case",
            "date": "on the same day",
            "time": "the same moment",
        }.get(rule, "equal")
    if rule.function is not None:
        return f"as {rule.function} compares"
    if rule.regex is not None:
        return f"text with {rule.regex!r} in it"
    allowed = [f"{rule.tolerance:g}"] if rule.tolerance is not None else []
    if rule.relative is not None:
        allowed.append(f"{100 * rule.relative:g} %")
    return f"within {' + '.join(allowed)}"


def merge_rules(own: str | ToolMatch | None, under: str | ToolMatch | None) -> ToolMatch | None:
    """Merge two sets of rules for a tool, the first with precedence; None if both are empty."""
    upper, lower = _as_match(own), _as_match(under)
    if upper is None or lower is None:
        return upper or lower
    decided = upper.args is not None or upper.function is not None
    return ToolMatch(
        args=upper.args if decided else lower.args,
        paths={**lower.paths, **upper.paths},
        function=upper.function if decided else lower.function,
    )


def _as_match(rules: str | ToolMatch | None) -> ToolMatch | None:
    return ToolMatch(args=cast("Any", rules)) if isinstance(rules, str) else rules
