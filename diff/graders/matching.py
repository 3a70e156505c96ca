"""Compare an agent's tool calls with the expected ones: pure functions of two lists of calls.

What counts
    Two calls *fit* when their names are equal and their arguments agree. Arguments agree by one of three
    rules, per tool if asked (`Match.tools`; rules of a tool go before rules of `*`):

    exact    equal JSON objects
    subset   every key of the expected call is there with an equal value; other keys do not count
    ignore   names alone (so too where an expected call names no arguments)

    Values are equal as JSON: 1 equals 1.0, true is not 1, the order of keys never counts, the order of lists
    does; a string that is a JSON object or array counts as what it contains. A tool's `paths` give single
    values a rule of their own, and its `function` decides alone (`diff.graders.arguments`).

    `ignore_args` are taken out of both sides first. `only_tools` and `ignore_tools` take calls out of
    both lists before anything is compared, so positions in a reason count the calls that are left.

When a list matches (E expected calls, A actual ones)
    strict     same calls, same order: E[i] fits A[i] for every i, and the lengths are equal
    in_order   E is a subsequence of A: other calls may come between
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

from replaydiff.diff.graders.arguments import ANY, ArgumentRules, merge_rules
from replaydiff.diff.graders.base import clipped
from replaydiff.replay.align import common_subsequence
from replaydiff.replay.model import ExpectedCall, Json, JsonObject, Match, ToolCall, ToolMatch

_VALUE_WIDTH = 40
_CALL_WIDTH = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchResult:
    """The outcome of one comparison."""

    passed: bool
    partial: float
    """Partial credit 0..1; 1 exactly where `passed`."""
    reason: str
    """Return the first difference in words; empty where it passed."""


Expected = Sequence[ExpectedCall | ToolCall]
"""What is expected: a case's calls, or the recorded calls of a trace."""

_PASSED = MatchResult(passed=True, partial=1.0, reason="")
_NO_IGNORED: Mapping[str, Collection[str]] = {}
_CURRENT_FOLDER = Path()


def match(
    expected: Expected,
    actual: Sequence[ToolCall],
    rules: Match,
    ignore_by_tool: Mapping[str, Collection[str]] = _NO_IGNORED,
    root: Path = _CURRENT_FOLDER,
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
    """Return whether two lists have the same calls by identity of arguments, which `reading` shares.

    False does not mean that they differ: other objects may be equal.
    True is a match in every mode, where no tool has rules.
    """
    return len(expected) == len(actual) and all(
        expected_call.args is actual_call.args and expected_call.name == actual_call.name
        for expected_call, actual_call in zip(expected, actual, strict=True)
    )


def can_still_match(
    expected: Expected,
    actual: Sequence[ToolCall],
    rules: Match,
    ignore_by_tool: Mapping[str, Collection[str]] = _NO_IGNORED,
    root: Path = _CURRENT_FOLDER,
) -> bool:
    """Return whether calls that were cut short could still become a match.

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
            expected = [call for call in expected if counts_tool(call.name, rules)]
            actual = [call for call in actual if counts_tool(call.name, rules)]
        self.expected, self.actual = expected, actual
        self._ignore_by_tool, self._root = ignore_by_tool, root
        self._rules: dict[str, ArgumentRules | None] = {}
        self._agreed: dict[int, bool] = {}
        self._pairing: dict[int, int] | None = None

    def _rules_of(self, name: str) -> ArgumentRules | None:
        """Return how the arguments of a tool are compared; None where they never count."""
        if name not in self._rules:
            merged = merge_rules(self.rules.tools.get(name), self.rules.tools.get(ANY)) or ToolMatch()
            how = merged.args or self.rules.args
            ignored = (*self.rules.ignore_args, *self._ignore_by_tool.get(name, ()))
            compared = ArgumentRules(merged, how, ignored, self._root)
            self._rules[name] = None if how == "ignore" else compared
        return self._rules[name]

    def fits(self, i: int, j: int) -> bool:
        """Return whether expected call i and actual call j are the same call."""
        if self.expected[i].name != self.actual[j].name:
            return False
        pair = i * len(self.actual) + j
        agreed = self._agreed.get(pair)
        if agreed is None:
            agreed = self._agreed[pair] = self._agree(i, j)
        return agreed

    def _agree(self, i: int, j: int) -> bool:
        """Return whether the arguments of two calls to one tool agree."""
        expected, rules = self.expected[i].args, self._rules_of(self.expected[i].name)
        return expected is None or rules is None or not any(rules.differences(expected, self.actual[j].args))

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
        """Return how many calls from the first on fit one by one."""
        shorter = min(len(self.expected), len(self.actual))
        return next((i for i in range(shorter) if not self.fits(i, i)), shorter)

    def in_order(self) -> tuple[int, int]:
        """Return how many expected calls from the first on occur in order, and where the search stopped.

        Taking the earliest fitting call each time is exact: it leaves the longest rest for what follows.
        """
        matched_calls = 0
        position = 0
        for j in range(len(self.actual)):
            if matched_calls < len(self.expected) and self.fits(matched_calls, j):
                matched_calls, position = matched_calls + 1, j + 1
        return matched_calls, position

    def pairing(self) -> dict[int, int]:
        """Return a maximum one-to-one pairing: actual index → expected index."""
        if self._pairing is None:
            holder = self._pairing = {}
            by_name: dict[str, list[int]] = {}
            for j, call in enumerate(self.actual):
                by_name.setdefault(call.name, []).append(j)
            for i, expected_call in enumerate(self.expected):
                positions = by_name.get(expected_call.name, ())
                for j in positions:
                    if j not in holder and self.fits(i, j):
                        holder[j] = i
                        break
                else:
                    if positions:
                        self._augment(i, positions, holder)
        return self._pairing

    def _augment(self, start: int, positions: Sequence[int], holder: dict[int, int]) -> None:
        """Find one of `positions` for expected call `start`, moving others along an alternating path."""
        came_from: dict[int, int] = {}
        queue = [start]
        for i in queue:
            for j in positions:
                if j in came_from or not self.fits(i, j):
                    continue
                came_from[j] = i
                if j in holder:
                    queue.append(holder[j])
                    continue
                end: int | None = j
                while end is not None:
                    owner = came_from[end]
                    before = next(
                        (
                            actual_index
                            for actual_index, expected_index in holder.items()
                            if expected_index == owner
                        ),
                        None,
                    )
                    holder[end] = owner
                    if before is not None:
                        del holder[before]
                    end = before
                return

    def longest_common(self) -> int:
        """Return the length of the longest common subsequence."""
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
        """Return the first difference in words."""
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
        """Return `called B without A(…) first` where that is so, else `missing call 1: A(…)`."""
        expected_call = _shown(self.expected[at].name, self.expected[at].args)
        skipping = self._skipping(at)
        return (
            f"called {skipping} without {expected_call} first"
            if skipping
            else f"missing call {at + 1}: {expected_call}"
        )

    def _skipping(self, at: int) -> str | None:
        """Return the first tool that was expected only after this call, where this one was never called."""
        skipped = self.expected[at]
        called_tools = [call.name for call in self._all_actual]
        if skipped.name in called_tools:
            return None
        position = next(i for i, call in enumerate(self._all_expected) if call is skipped)
        before = Counter(call.name for call in self._all_expected[:position])
        after = {call.name for call in self._all_expected[position + 1 :]}
        for name in called_tools:
            before[name] -= 1
            if name in after and before[name] < 0:
                return name
        return None

    def _in_order_reason(self) -> str:
        at, position = self.in_order()
        expected_call = self.expected[at]
        for j in range(position, len(self.actual)):
            if self.actual[j].name == expected_call.name:
                return self._differs(at, j, f"call {j + 1}: ")
        if at and any(self.fits(at, j) for j in range(position)):
            return f"called {expected_call.name} before {self.expected[at - 1].name}"
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
        extra_call = self.actual[extra[0]]
        return f"extra call {extra[0] + 1}: {_shown(extra_call.name, extra_call.args)}"

    def _differs(self, i: int, j: int, prefix: str) -> str:
        expected, actual = self.expected[i], self.actual[j]
        expected_args, actual_args = expected.args, actual.args
        rules, rule = self._rules_of(expected.name), ""
        if expected.name == actual.name and expected.args is not None and rules is not None:
            differences = list(rules.differences(expected.args, actual.args))
            expected_args = _at_paths((difference.path, difference.expected) for difference in differences)
            actual_args = _at_paths((difference.path, difference.actual) for difference in differences)
            first = next((difference for difference in differences if difference.rule), None)
            rule = f"; {first.path or 'the arguments'} must be {first.rule}" if first else ""
        shown = f"expected {_shown(expected.name, expected_args)}, got {_shown(actual.name, actual_args)}"
        return f"{prefix}{shown}{rule}"


def counts_tool(name: str, rules: Match) -> bool:
    """Return whether calls of a tool are compared at all."""
    return (not rules.only_tools or name in rules.only_tools) and name not in rules.ignore_tools


def _at_paths(values: Iterable[tuple[str, tuple[Json, ...]]]) -> JsonObject:
    """Return path → value, where there is a value; the arguments themselves where the path is the top."""
    placed: JsonObject = {}
    for path, values_at_path in values:
        for value in values_at_path:
            placed.update(value if not path and isinstance(value, dict) else {path: value})
    return placed


def _shown(name: str, args: JsonObject | None) -> str:
    """Return `cancel_order(order_id='67890')`, long values and long calls cut."""
    if args is None:
        return f"{name}(…)"
    text = ", ".join(f"{key}={clipped(repr(value), _VALUE_WIDTH)}" for key, value in args.items())
    return f"{name}({clipped(text, _CALL_WIDTH)})"
