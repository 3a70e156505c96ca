"""What a trial did that its reference did not: the behaviours that causes are made of.

The reference of an item is what its case expects, else its recording, never a trial of either version: old
and new trials are described by the same rule, so that counts of both can be compared. A behaviour is one kind
of action with the tools and arguments it concerns; values that belong to one item (ids, texts) are left out,
so that the same behaviour is found in many items.

A trial that was stopped at a call shows only what it did up to there: what it did not do counts as not done
only where it ended.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from replaydiff.diff import responses
from replaydiff.diff.behaviour import RECORDING
from replaydiff.diff.graders import assertions, tool_calls
from replaydiff.diff.graders.arguments import ArgumentRules, canonical, equal
from replaydiff.diff.graders.base import JUDGE, PAIRWISE, SCORE_PREFIX
from replaydiff.diff.graders.matching import same_values
from replaydiff.diff.result import Block, GradedTrial
from replaydiff.replay.model import ExpectedCall, Item, JsonObject, Rule, Status, ToolCall, Trial
from replaydiff.replay.settings import Settings
from replaydiff.replay.terminal.text import one_line

_NAME, _REASON = 60, 160
"""Characters of a name and of a reason in a sentence."""
_READ = 600
"""Characters of an error's reason in which its class is looked for."""
_WORD = re.compile(r"[A-Za-z_][A-Za-z_-]{0,23}")
_READABLE, _FEWEST_READABLE = re.compile(r"[^\W\d_]{3,}"), 2
"""Words of three letters or more, and how many of them make a reason worth reading."""
_CALLS_METRICS = frozenset({tool_calls.NAME, RECORDING, tool_calls.TOOLS_NAME})
_ERROR_CLASS = re.compile(r"\b([A-Z]\w{2,60}(?:Error|Exception|Exceeded|Timeout|Interrupt|Exit))\b")

_SENTENCES = {
    # The order is that of how much a sentence explains: of behaviours that occur together the first one is
    # shown as the cause.
    "skipped": "calls {0} without calling {1} first",
    "renamed": "calls {0} with the argument {2} in place of {1}",
    "value": "calls {0} with {1} = {2}",
    "added": "calls {0} with the new argument {1}",
    "removed": "calls {0} without the argument {1}",
    "changed": "calls {0} with another {1}",
    "extra": "calls {0}, which is not expected",
    "order": "calls {0} before {1}, not after it",
    "more": "calls {0} more often than expected",
    "repeated": "repeats a call of {0} with the same arguments",
    "fewer": "calls {0} less often than expected",
    "refused": "declines to help",
    "silent": "answers without calling any tool",
    "omitted": "does not call {0}",
    "called": "calls {0}",
    "error": "ends in {0} ({1})",
    "failed": "fails {0}: {1}",
    "low": "fails {0}",
    "empty": "gives an empty answer",
    "stopped": "is stopped at {0}, a call that was never recorded",
    "shorter": "answers at least 20 % shorter than usual",
    "longer": "answers at least 25 % longer than usual",
}
_ORDER = {kind: place for place, kind in enumerate(_SENTENCES)}
_OF_CALLS = frozenset(_SENTENCES) - {"refused", "error", "failed", "low", "empty", "shorter", "longer"}


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One kind of action, the same in every item where it is found."""

    kind: str
    parts: tuple[str, ...] = ()
    """The tools, arguments, metrics or classes it concerns."""

    def named(self, *, more: bool) -> str:
        """Return the id of doing this more (or less) often, the same in every run."""
        written = json.dumps(["more" if more else "less", self.kind, *self.parts])
        return "c" + hashlib.sha256(written.encode()).hexdigest()[:8]

    @property
    def text(self) -> str:
        """What the agent does, on one line: `calls cancel_order without calling get_order first`."""
        # Without its values a reason may have nothing left to read: `0.99 is not 1.0` is `… is not …`.
        is_empty = self.kind == "failed" and len(_READABLE.findall(self.parts[1])) < _FEWEST_READABLE
        limit = _REASON if self.kind == "failed" else _NAME
        sentence = _SENTENCES["low" if is_empty else self.kind]
        return sentence.format(*(one_line(part, limit) or "''" for part in self.parts))

    @property
    def text_of_less(self) -> str:
        """What a version does that acts so less often: `passes judge more often`."""
        if self.kind == "low":
            return f"passes {one_line(self.parts[0], _NAME)} more often"
        return f"less often than before: {self.text}"

    @property
    def rank(self) -> int:
        """How much it explains, 0 the most."""
        return _ORDER[self.kind]

    @property
    def is_length(self) -> bool:
        """Whether it is only that answers got longer or shorter."""
        return self.kind in ("shorter", "longer")

    def concerns(self, metric: str) -> bool:
        """Whether a metric's grade can be due to it."""
        if self.kind in _OF_CALLS:
            return metric in _CALLS_METRICS
        return self.kind in ("failed", "low") and metric == self.parts[0]


class ActionReader:
    """Finds the behaviours of the trials of a run."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._rules: dict[str, ArgumentRules | None] = {}

    def of_block(self, block: Block) -> dict[str, list[frozenset[Behaviour]]]:
        """Return by lane what each trial did; trials that say nothing of the agent are left out."""
        expected = reference(block.item)
        usual = responses.usual_length(one.trial for done in block.lanes.values() for one in done)
        known: list[tuple[tuple[object, ...], frozenset[Behaviour]]] = []
        found: dict[str, list[frozenset[Behaviour]]] = {}
        for lane, done in block.lanes.items():
            found[lane] = [
                self._calls(expected, graded.trial, known) | frozenset(_answer(graded, usual))
                for graded in done
                if counts(graded.trial)
            ]
        return found

    def _calls(
        self,
        expected: Sequence[ExpectedCall | ToolCall] | None,
        trial: Trial,
        known: list[tuple[tuple[object, ...], frozenset[Behaviour]]],
    ) -> frozenset[Behaviour]:
        """The behaviours of a trial's calls; trials of an item with equal calls are read once."""
        if trial.status.is_error and not trial.served:
            return frozenset()
        missed = bool(trial.served) and trial.served[-1].rule is Rule.MISS
        made = [served.call for served in trial.served]
        key = (trial.status, missed, [(call.name, call.args) for call in made])
        for other, behaviours in known:
            if other == key:
                return behaviours
        ended = trial.status is Status.OK
        behaviours = frozenset(self._read(expected, made, ended=ended))
        if trial.status is Status.DIVERGED and missed:
            behaviours |= {Behaviour("stopped", (made[-1].name,))}
        known.append((key, behaviours))
        return behaviours

    def _read(
        self, expected: Sequence[ExpectedCall | ToolCall] | None, made: Sequence[ToolCall], *, ended: bool
    ) -> Iterator[Behaviour]:
        yield from (Behaviour("repeated", (name,)) for name in _repeated(expected or (), made))
        if expected is not None and not self._settings.match.tools and same_values(expected, made):
            return
        if expected is None:
            yield from (Behaviour("called", (name,)) for name in {call.name for call in made})
            return
        wanted, done = Counter(call.name for call in expected), Counter(call.name for call in made)
        for name, times in done.items():
            if times > wanted[name]:
                yield Behaviour("more" if wanted[name] else "extra", (name,))
        for name, times in wanted.items() if ended else ():
            if not done[name]:
                yield Behaviour("omitted", (name,))
            elif done[name] < times:
                yield Behaviour("fewer", (name,))
        if ended and expected and not made:
            yield Behaviour("silent")
        yield from _order([call.name for call in expected], [call.name for call in made])
        yield from self._arguments(expected, made)

    def _arguments(
        self, expected: Sequence[ExpectedCall | ToolCall], made: Sequence[ToolCall]
    ) -> Iterator[Behaviour]:
        """Where the calls of a tool differ from the expected ones in arguments, equal ones paired first."""
        wanted: dict[str, list[JsonObject]] = defaultdict(list)
        for call in expected:
            if call.args is not None:
                wanted[call.name].append(call.args)
        done: dict[str, list[JsonObject]] = defaultdict(list)
        for call in made:
            if call.name in wanted:
                done[call.name].append(call.args)
        for name, left in done.items():
            rules = self._rules_of(name)
            if rules is None:
                continue
            open_ = list(wanted[name])
            others = []
            for args in left:
                place = next((at for at, one in enumerate(open_) if _same(rules, one, args)), None)
                if place is None:
                    others.append(args)
                else:
                    del open_[place]
            for before, after in zip(open_, others, strict=False):
                yield from _differences(name, before, after, rules)

    def _rules_of(self, tool: str) -> ArgumentRules | None:
        if tool not in self._rules:
            self._rules[tool] = tool_calls.argument_rules(tool, self._settings)
        return self._rules[tool]


def counts(trial: Trial) -> bool:
    """Whether a trial says anything about the agent: an outage or an interruption does not."""
    return trial.status not in (Status.INFRA_ERROR, Status.CANCELLED)


def fails_as(cause: str, item: Item, graded: GradedTrial, settings: Settings, *, more: bool) -> bool | None:
    """Return whether a trial alone shows what a cause names.

    Args:
        cause: its id.
        item: the item of the trial.
        graded: the trial with its grades.
        settings: how arguments are compared.
        more: whether the new version does it more often; else a trial fails where it does not do it.

    Returns:
        None where the trial does not tell: after an outage, or where what is missing may have come later.
    """
    trial = graded.trial
    if not counts(trial) or (not more and trial.status is not Status.OK):
        return None
    (acted,) = ActionReader(settings).of_block(Block(item=item, lanes={trial.lane: (graded,)}))[trial.lane]
    return any(one.named(more=more) == cause for one in acted) is more


def reference(item: Item) -> Sequence[ExpectedCall | ToolCall] | None:
    """Return the calls an item's trials are described against; None where there is nothing to compare."""
    if item.expectation is not None and item.expectation.tool_calls is not None:
        return item.expectation.tool_calls
    return item.tape if item.tape or item.case_id is None else None


def _repeated(expected: Iterable[ExpectedCall | ToolCall], made: Sequence[ToolCall]) -> Iterator[str]:
    """Tools of which one call was made again with equal arguments, more often than expected."""
    if len(made) < 2:
        return
    wanted = Counter((call.name, canonical(call.args)) for call in expected if call.args is not None)
    done = Counter((call.name, canonical(call.args)) for call in made)
    yield from {name for (name, args), times in done.items() if times > max(1, wanted[name, args])}


def _order(expected: Sequence[str], made: Sequence[str]) -> Iterator[Behaviour]:
    """Calls that another one should precede, and did not."""
    first_expected = {name: place for place, name in reversed(list(enumerate(expected)))}
    first_made = {name: place for place, name in reversed(list(enumerate(made)))}
    for name in first_made.keys() & first_expected.keys():
        for before, place in first_expected.items():
            if place >= first_expected[name]:
                continue
            if before not in first_made:
                yield Behaviour("skipped", (name, before))
            elif first_made[before] > first_made[name]:
                yield Behaviour("order", (name, before))


def _same(rules: ArgumentRules, wanted: JsonObject, made: JsonObject) -> bool:
    return next(rules.differences(wanted, made), None) is None


def _differences(
    tool: str, wanted: JsonObject, made: JsonObject, rules: ArgumentRules
) -> Iterator[Behaviour]:
    found = list(rules.differences(wanted, made))
    removed = [one for one in found if not one.made]
    added = [one for one in found if not one.wanted]
    for old in list(removed):
        new = next((one for one in added if equal(old.wanted[0], one.made[0])), None)
        if new is not None:
            yield Behaviour("renamed", (tool, old.path, new.path))
            removed.remove(old)
            added.remove(new)
    yield from (Behaviour("removed", (tool, one.path)) for one in removed)
    yield from (Behaviour("added", (tool, one.path)) for one in added)
    for one in found:
        if one.made and one.wanted:
            yield Behaviour("changed", (tool, one.path))
        if one.made and one not in added and _is_word(value := one.made[0]):
            yield Behaviour("value", (tool, one.path, json.dumps(value)))


def _is_word(value: object) -> bool:
    """Whether a value may be one of a few: a word or a switch, never an id or a text."""
    return isinstance(value, bool) or (isinstance(value, str) and bool(_WORD.fullmatch(value)))


def _answer(graded: GradedTrial, usual: float | None) -> Iterator[Behaviour]:
    """What a trial's end, its answer and its grades show."""
    trial = graded.trial
    if trial.status.is_error:
        named = _ERROR_CLASS.search((trial.reason or "")[:_READ])
        yield Behaviour("error", (trial.status.value, named[1] if named else "no further class"))
        return
    yield from _failed(graded)
    if trial.status is not Status.OK:
        return
    yield from map(Behaviour, responses.signs(trial.final_response or "", usual))


def _failed(graded: GradedTrial) -> Iterator[Behaviour]:
    """The metrics a trial fails, with the class of the reason; those of its calls are described above."""
    for name, grade in graded.grades.items():
        if grade.passed is not False or name in _CALLS_METRICS or name == PAIRWISE:
            continue
        yield Behaviour("low", (name,))
        broken = grade.detail.get("failed")
        if name == assertions.NAME and isinstance(broken, list):
            yield from (Behaviour("failed", (name, str(one))) for one in broken)
            continue
        if grade.reason and name != JUDGE and not name.startswith(SCORE_PREFIX):
            yield Behaviour("failed", (name, normalise_reason(grade.reason)))


_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_VALUE = re.compile(
    # What an argument is: text, a list or object up to its first end, or a word.
    rf"(?<=\w)=\s*(?:{_QUOTED}|\[[^\]]*\]|\{{[^}}]*\}}|[^\s,;()]+)"
    # Text by itself; an apostrophe within a word begins none.
    rf"|(?<!\w)(?:{_QUOTED})"
    # A number, a date, an id: A-1003, 2026-10-07, 42.50.
    r"|(?<![\w.])(?:[A-Z]{1,5}-?)?\d[\w.,:/-]*\d(?!\w)"
)
_SAME_CALL = re.compile(r"expected (?P<call>[^\s()]+\([^()]*\)), got (?P=call)(?![^\s;,])")
_MOST = 2000
"""Characters looked at: a reason is a sentence."""


def normalise_reason(reason: str) -> str:
    """Return the reason with `…` for what is one item's own.

    `missing call 1: get_order_status(order_id='77511')` and the same with another order are one class,
    `missing call 1: get_order_status(order_id=…)`: values of arguments, quoted texts, and numbers, dates and
    ids of two digits or more become `…`; two calls that differ only in these become one `with other values`.
    Names of tools and arguments, and places (`call 1`), stay.
    """
    text = _VALUE.sub(lambda match: "=…" if match[0].startswith("=") else "…", reason[:_MOST])
    return _SAME_CALL.sub(r"\g<call> with other values", text)
