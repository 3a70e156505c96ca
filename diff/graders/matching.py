"""Whether an agent's tool calls are the expected ones: pure comparison of two lists of calls.

What counts
    Two calls *fit* when their names are equal and their arguments agree. Arguments agree by one of three
    rules, per tool if asked (`Match.tools`; rules of a tool go before rules of `*`):

    exact    equal JSON objects
    subset   every key of the expected call is there with an equal value; other keys do not count
    ignore   names alone (so too where an expected call names no arguments)

    Values are equal as JSON: 1 equals 1.0, true is not 1, the order of keys never counts, the order of lists
    does; a string that is a JSON object or array counts as what it says. A tool's `paths` give single values
    a rule of their own, and its `function` decides alone (`diff.graders.arguments`).

    `ignore_args` are taken out of both sides first. `only_tools` and `ignore_tools` take calls out of
    both lists before anything is compared, so positions in a reason count the calls that are left.

When a list matches (E expected calls, A actual ones)
    strict     same calls, same order: E[i] fits A[i] for every i, and the lengths are equal
    in_order   E is a subsequence of A: other calls may stand between
    unordered  a one-to-one pairing of E and A exists
    subset     every actual call can be paired with an expected one of its own; some may be missing
    superset   every expected call can be paired with an actual one of its own; others are allowed

    Pairings are maximum matchings (augmenting paths; Kuhn 1955, Berge 1957), so with `subset` arguments a
    call is never lost because a less particular expectation took it first.

Partial credit, 0..1, is 1 exactly where the list matches. With m the longest common subsequence (strict,
in_order) or the size of the maximum pairing (the others), precision = m/A and recall = m/E (1 where the
divisor is 0):

    strict, unordered   F1 = 2m / (E + A)     (van Rijsbergen 1979, ch. 7)
    in_order, superset  recall, since other calls are allowed
    subset              precision, since calls may be missing

Example: expected `get_order_status(order_id='1') > cancel_order(order_id='1')`, actual
`cancel_order(order_id='1')`: strict does not match, partial = 2·1/(2+1) = 0.67, and the reason reads
"called cancel_order without get_order_status(order_id='1') first". What was called so may be a tool that does
not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from replaydiff.diff.graders.arguments import ANY, ArgumentRules, equal, merge_rules
from replaydiff.replay.align import common_subsequence
from replaydiff.replay.model import ExpectedCall, Json, JsonObject, Match, ToolCall

_VALUE_WIDTH = 40
_CALL_WIDTH = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchResult:
    """The outcome of one comparison."""

    passed: bool
    partial: float
    """Partial credit 0..1; 1 exactly where `passed`."""
    reason: str
    """The first difference in words; empty where it passed."""


Expected = Sequence[ExpectedCall | ToolCall]
"""What is expected: a case's calls, or the recorded calls of a trace."""

_PASSED = MatchResult(passed=True, partial=1.0, reason="")
_NOTHING: Mapping[str, Collection[str]] = {}
_HERE = Path()


def match(
    expected: Expected,
    actual: Sequence[ToolCall],
    rules: Match,
    ignore_by_tool: Mapping[str, Collection[str]] = _NOTHING,
    root: Path = _HERE,
) -> MatchResult:
    """Compare the calls an agent made with the expected ones.

    `ignore_by_tool` names arguments that never count in calls of one tool, beside `rules.ignore_args`;
    `root` is the folder where functions that `rules` names are found.

    Raises:
        ReplayError: such a function cannot be loaded, or failed.
    """
    if not rules.tools and same_values(expected, actual):
        return _PASSED
    pair = _Pair(expected, actual, rules, ignore_by_tool, root)
    if pair.passes():
        return _PASSED
    return MatchResult(passed=False, partial=pair.partial(), reason=pair.reason())


def same_values(expected: Expected, actual: Sequence[ToolCall]) -> bool:
    """Whether two lists have the same calls by the identity of their arguments, which `reading` shares.

    False says nothing: other objects may be equal. True is a match in every mode, where no tool has rules.
    """
    return len(expected) == len(actual) and all(
        one.args is other.args and one.name == other.name for one, other in zip(expected, actual, strict=True)
    )


def can_still_match(
    expected: Expected,
    actual: Sequence[ToolCall],
    rules: Match,
    ignore_by_tool: Mapping[str, Collection[str]] = _NOTHING,
    root: Path = _HERE,
) -> bool:
    """Whether calls that were cut short could have become a match had they gone on.

    False is certain: no continuation of `actual` matches.
    """
    pair = _Pair(expected, actual, rules, ignore_by_tool, root)
    if rules.mode == "strict":
        return len(pair.actual) <= len(pair.expected) and pair.common_prefix() == len(pair.actual)
    if rules.mode in ("unordered", "subset"):
        return len(pair.pairing()) == len(pair.actual)
    return True


class _Pair:
    """Two lists of calls without the ignored ones, with a lazily computed table of matches."""

    def __init__(
        self,
        expected: Expected,
        actual: Sequence[ToolCall],
        rules: Match,
        ignore_by_tool: Mapping[str, Collection[str]],
        root: Path,
    ) -> None:
        self._all_expected, self._all_actual, self.rules = expected, actual, rules
        if rules.only_tools or rules.ignore_tools:
            only, ignored = frozenset(rules.only_tools), frozenset(rules.ignore_tools)
            expected = [call for call in expected if _counts(call.name, only, ignored)]
            actual = [call for call in actual if _counts(call.name, only, ignored)]
        self.expected, self.actual = expected, actual
        self._ignore_by_tool, self._root = ignore_by_tool, root
        self._rules: dict[str, tuple[str, ArgumentRules | None]] = {}
        self._plain = not (rules.tools or rules.ignore_args or ignore_by_tool)
        self._known: dict[int, bool] = {}
        self._pairing: dict[int, int] | None = None

    def _ignored(self, name: str) -> Collection[str]:
        own = self._ignore_by_tool.get(name)
        return (*self.rules.ignore_args, *own) if own else self.rules.ignore_args

    def _how(self, name: str) -> tuple[str, ArgumentRules | None]:
        """By which rule the arguments of a tool's calls agree, and the rules of single values if any."""
        if not self.rules.tools:
            return self.rules.args, None
        if name not in self._rules:
            found = merge_rules(self.rules.tools.get(name), self.rules.tools.get(ANY))
            how = found.args if found and found.args else self.rules.args
            own = found if found and (found.paths or found.function) else None
            self._rules[name] = how, ArgumentRules(own, how, self._ignored(name), self._root) if own else None
        return self._rules[name]

    def fits(self, i: int, j: int) -> bool:
        """Whether expected call i and actual call j are the same call."""
        if self.expected[i].name != self.actual[j].name:
            return False
        place = i * len(self.actual) + j
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = self._agree(i, j)
        return known

    def _agree(self, i: int, j: int) -> bool:
        """Whether the arguments of two calls to one tool agree."""
        name, wanted, made = self.expected[i].name, self.expected[i].args, self.actual[j].args
        if self._plain and self.rules.args == "exact" and wanted is not None:
            return equal(wanted, made)
        how, own = self._how(name)
        if how == "ignore" or wanted is None:
            return True
        if own is not None:
            return next(own.differences(wanted, made), None) is None
        ignored = self._ignored(name)
        if ignored:
            wanted = {key: value for key, value in wanted.items() if key not in ignored}
            made = {key: value for key, value in made.items() if key not in ignored}
        if how == "exact":
            return equal(wanted, made)
        if any(key not in made for key in wanted):
            return False
        return equal(wanted, made if len(made) == len(wanted) else {key: made[key] for key in wanted})

    def passes(self) -> bool:
        e, a = len(self.expected), len(self.actual)
        match self.rules.mode:
            case "strict":
                return e == a and self.common_prefix() == e
            case "in_order":
                return e <= a and self.in_order()[0] == e
            case "unordered":
                return e == a and len(self.pairing()) == e
            case "subset":
                return a <= e and len(self.pairing()) == a
            case _:
                return e <= a and len(self.pairing()) == e

    def common_prefix(self) -> int:
        """How many calls from the first on fit one by one."""
        shorter = min(len(self.expected), len(self.actual))
        return next((i for i in range(shorter) if not self.fits(i, i)), shorter)

    def in_order(self) -> tuple[int, int]:
        """How many expected calls from the first on are found in order, and where the search stopped.

        Taking the earliest fitting call each time is exact: it leaves the longest rest for what follows.
        """
        found = 0
        position = 0
        for j in range(len(self.actual)):
            if found < len(self.expected) and self.fits(found, j):
                found, position = found + 1, j + 1
        return found, position

    def pairing(self) -> dict[int, int]:
        """A maximum one-to-one pairing: actual index → expected index."""
        if self._pairing is None:
            holder = self._pairing = {}
            by_name: dict[str, list[int]] = {}
            for j, call in enumerate(self.actual):
                by_name.setdefault(call.name, []).append(j)
            for i, wanted in enumerate(self.expected):
                places = by_name.get(wanted.name, ())
                for j in places:
                    if j not in holder and self.fits(i, j):
                        holder[j] = i
                        break
                else:
                    if places:
                        self._augment(i, places, holder)
        return self._pairing

    def _augment(self, start: int, places: Sequence[int], holder: dict[int, int]) -> None:
        """Find one of `places` for expected call `start`, moving others along an alternating path."""
        came_from: dict[int, int] = {}
        queue = [start]
        for i in queue:
            for j in places:
                if j in came_from or not self.fits(i, j):
                    continue
                came_from[j] = i
                if j in holder:
                    queue.append(holder[j])
                    continue
                end: int | None = j
                while end is not None:
                    owner = came_from[end]
                    before = next((other for other, held in holder.items() if held == owner), None)
                    holder[end] = owner
                    if before is not None:
                        del holder[before]
                    end = before
                return

    def longest_common(self) -> int:
        """Length of the longest common subsequence."""
        return len(common_subsequence(len(self.expected), len(self.actual), self.fits))

    def partial(self) -> float:
        """Return the partial credit; the module's docstring has the formulas."""
        mode = self.rules.mode
        common = self.longest_common() if mode in ("strict", "in_order") else len(self.pairing())
        e, a = len(self.expected), len(self.actual)
        if mode == "subset":
            return common / a if a else 1.0
        if mode in ("in_order", "superset"):
            return common / e if e else 1.0
        return 2 * common / (e + a) if e + a else 1.0

    def reason(self) -> str:
        """The first difference in words."""
        match self.rules.mode:
            case "strict":
                return self._strict_reason()
            case "in_order":
                return self._in_order_reason()
            case mode:
                return self._unordered_reason(
                    missing_counts=mode != "subset", extra_counts=mode != "superset"
                )

    def _strict_reason(self) -> str:
        at = self.common_prefix()
        if at == len(self.expected):
            return f"extra call {at + 1}: {_shown(self.actual[at].name, self.actual[at].args)}"
        if at == len(self.actual):
            return self._missing(at)
        if self._skipping(at) == self.actual[at].name:
            return self._missing(at)
        return self._differs(at, at, f"call {at + 1}: ")

    def _missing(self, at: int) -> str:
        """`called B without A(…) first` where that is so, else `missing call 1: A(…)`."""
        wanted = _shown(self.expected[at].name, self.expected[at].args)
        skipping = self._skipping(at)
        return f"called {skipping} without {wanted} first" if skipping else f"missing call {at + 1}: {wanted}"

    def _skipping(self, at: int) -> str | None:
        """The first tool called which was expected after this call alone, where this one was never called."""
        wanted = self.expected[at]
        made = [call.name for call in self._all_actual]
        if wanted.name in made:
            return None
        place = next(i for i, call in enumerate(self._all_expected) if call is wanted)
        before = Counter(call.name for call in self._all_expected[:place])
        after = {call.name for call in self._all_expected[place + 1 :]}
        for name in made:
            before[name] -= 1
            if name in after and before[name] < 0:
                return name
        return None

    def _in_order_reason(self) -> str:
        at, position = self.in_order()
        wanted = self.expected[at]
        for j in range(position, len(self.actual)):
            if self.actual[j].name == wanted.name:
                return self._differs(at, j, f"call {j + 1}: ")
        if at and any(self.fits(at, j) for j in range(position)):
            return f"called {wanted.name} before {self.expected[at - 1].name}"
        return self._missing(at)

    def _unordered_reason(self, *, missing_counts: bool, extra_counts: bool) -> str:
        pairing = self.pairing()
        paired = set(pairing.values())
        missing = [i for i in range(len(self.expected)) if i not in paired]
        extra = [j for j in range(len(self.actual)) if j not in pairing]
        for i in missing:
            for j in extra:
                if self.expected[i].name == self.actual[j].name:
                    return self._differs(i, j, f"call {j + 1}: ")
        if missing_counts and missing:
            return f"missing call: {_shown(self.expected[missing[0]].name, self.expected[missing[0]].args)}"
        assert extra_counts  # noqa: S101 - a list without a difference passes
        made = self.actual[extra[0]]
        return f"extra call {extra[0] + 1}: {_shown(made.name, made.args)}"

    def _differs(self, i: int, j: int, prefix: str) -> str:
        wanted, made = self.expected[i], self.actual[j]
        wanted_args, made_args = wanted.args, made.args
        rule = ""
        if wanted.name == made.name and wanted.args is not None:
            how, own = self._how(wanted.name)
            if own is None:
                wanted_args, made_args = _differing(wanted.args, made.args, self._ignored(wanted.name), how)
            else:
                differences = list(own.differences(wanted.args, made.args))
                wanted_args = _at_paths((one.path, one.wanted) for one in differences)
                made_args = _at_paths((one.path, one.made) for one in differences)
                first = next((one for one in differences if one.rule), None)
                rule = f"; {first.path or 'the arguments'} must be {first.rule}" if first else ""
        shown = f"expected {_shown(wanted.name, wanted_args)}, got {_shown(made.name, made_args)}"
        return f"{prefix}{shown}{rule}"


def _counts(name: str, only: frozenset[str], ignored: frozenset[str]) -> bool:
    return (not only or name in only) and name not in ignored


def _differing(
    wanted: JsonObject, made: JsonObject, ignored: Collection[str], how: str
) -> tuple[JsonObject, JsonObject]:
    """Both sides with nothing but the arguments that differ."""
    keys = [*wanted, *(key for key in made if key not in wanted)] if how == "exact" else list(wanted)
    different = [
        key
        for key in keys
        if key not in ignored and (key not in wanted or key not in made or not equal(wanted[key], made[key]))
    ]
    return (
        {key: wanted[key] for key in different if key in wanted},
        {key: made[key] for key in different if key in made},
    )


def _at_paths(values: Iterable[tuple[str, tuple[Json, ...]]]) -> JsonObject:
    """Path → value, where there is one; the arguments themselves where the path is the top."""
    placed: JsonObject = {}
    for path, found in values:
        for value in found:
            placed.update(value if not path and isinstance(value, dict) else {path: value})
    return placed


def _shown(name: str, args: JsonObject | None) -> str:
    """`cancel_order(order_id='67890')`, long values and long calls cut."""
    if args is None:
        return f"{name}(…)"
    text = ", ".join(f"{key}={_clip(repr(value), _VALUE_WIDTH)}" for key, value in args.items())
    return f"{name}({_clip(text, _CALL_WIDTH)})"


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
