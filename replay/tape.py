"""The tape: what the tools answer during a replay, taken from one item's recording.

*Recording*: the tool calls of a trace, or the `tape` of a case, in their order, with results or errors.
*The same call*: equal name and equal canonical arguments. Key order, `1` against `1.0` and ignored arguments
make no difference; everything else does. *Answerable*: a result or an error was recorded with it.

The first time a call is made, the first answerable recording of the same call answers, the second time the
second, and so on; with all of them used, the next one is a *miss*. A recording never answers another call
because it was next in line:

    recorded   get_order_status(order_id="1") -> "shipped",   get_order_status(order_id="2") -> "lost"
    replayed   get_order_status(order_id="2")    tape: "lost"
               get_order_status(order_id="2")    miss: already used
               get_order_status(order_id="3")    miss: never recorded; the nearest recorded calls are named

The tape is pure and belongs to one trial. It does not ask what a tool does: an item's own recording may
answer write tools too. Answers from other traces, from a model or from the real tool are not its business.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from replaydiff.replay.messages import canonical_args
from replaydiff.replay.messages.decode import as_json
from replaydiff.replay.model import JsonObject, Rule, ToolCall
from replaydiff.replay.model.light import light_dataclass

UNAMBIGUOUS_BYTES = 64 * 1024
"""The most of a recording that is sent with its trial: many trials are on their way at once."""
SHOWN_CHARACTERS = 60
"""How much of a value a miss shows."""
SHOWN_CALLS = 2
"""How many near recordings a miss shows."""
INDEXES = 64
"""The most recordings that are kept sorted at a time."""
COMPARED_CALLS = 20
"""How many recordings with equally few differing arguments are compared letter by letter."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class TapeAnswer:
    """The tape's result for one call."""

    rule: Rule
    """`tape` or `miss`."""
    recorded: ToolCall | None = None
    """The recording that answers, with its result or error; None for a miss."""
    note: str | None = None
    """For a miss: why, and the nearest recorded calls."""


class _Index:
    """A recording, by what its calls are matched by. It never changes, so the trials of an item share it."""

    def __init__(
        self,
        calls: Sequence[ToolCall],
        ignore_args: Collection[str],
        ignore_by_tool: Mapping[str, Collection[str]],
    ) -> None:
        """Sort the calls by name and canonical arguments; the parameters are those of `Tape`."""
        self.calls, self.ignore_args, self.ignore_by_tool = calls, ignore_args, ignore_by_tool
        self._always = frozenset(ignore_args)
        self.answerable: dict[tuple[str, str], list[ToolCall]] = {}
        for call in reversed(calls):
            same = self.answerable.setdefault(self.key(call.name, call.args), [])
            if call.answered:
                same.append(call)
        for same in self.answerable.values():
            same.reverse()

    def ignored(self, name: str) -> frozenset[str]:
        """Return the arguments of a tool that do not count."""
        own = self.ignore_by_tool.get(name)
        return self._always.union(own) if own else self._always

    def key(self, name: str, args: JsonObject) -> tuple[str, str]:
        """Return what is equal exactly for the same calls."""
        return name, canonical_args(args, self.ignored(name))

    @cached_property
    def unambiguous(self) -> list[ToolCall]:
        """What `unused_unambiguous` returns for a tape of which nothing was used."""
        return self.unused_unambiguous({})

    def unused_unambiguous(self, used: Mapping[tuple[str, str], int]) -> list[ToolCall]:
        """Return the recordings of `Tape.unambiguous`; `used` is how many of each key's are used up."""
        found: list[ToolCall] = []
        room = UNAMBIGUOUS_BYTES
        for key, answerable in self.answerable.items():
            same = answerable[used.get(key, 0) :]
            if len(same) > 1 and len({as_json(call.args) for call in same}) > 1:
                continue
            for call in same:
                room -= len(as_json([call.args, call.result, call.error]))
                if room < 0:
                    return found
                found.append(call)
        return found


_latest: dict[int, _Index] = {}
"""The indexes used last, by the identity of their calls, which they keep alive."""


def _index_of(
    calls: Sequence[ToolCall], ignore_args: Collection[str], ignore_by_tool: Mapping[str, Collection[str]]
) -> _Index:
    """Return the index of a recording. Lanes and trials of an item follow each other, with the same calls."""
    if not isinstance(calls, tuple):
        # Whoever has it may change it.
        return _Index(calls, ignore_args, ignore_by_tool)
    known = _latest.get(id(calls))
    if (
        known is not None
        and known.calls is calls
        and known.ignore_args == ignore_args
        and known.ignore_by_tool == ignore_by_tool
    ):
        return known
    if len(_latest) >= INDEXES:
        _latest.clear()
    made = _latest[id(calls)] = _Index(calls, ignore_args, ignore_by_tool)
    return made


class Tape:
    """The recording of one item during one trial; it remembers which recordings were used."""

    def __init__(
        self,
        calls: Sequence[ToolCall],
        ignore_args: Collection[str] = (),
        ignore_by_tool: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """Load a recording.

        Args:
            calls: the recorded calls, in their order.
            ignore_args: arguments that never count in matching.
            ignore_by_tool: further ones for single tools, by tool name.
        """
        self._calls = calls
        self._index = _index_of(calls, ignore_args, ignore_by_tool or {})
        self._used: dict[tuple[str, str], int] = {}

    def answer(self, name: str, args: JsonObject) -> TapeAnswer:
        """Answer a call, and use up the recording that answered."""
        key = self._index.key(name, args)
        same = self._index.answerable.get(key)
        used = self._used.get(key, 0)
        if same is not None and used < len(same):
            self._used[key] = used + 1
            return TapeAnswer(rule=Rule.TAPE, recorded=same[used])
        return TapeAnswer(rule=Rule.MISS, note=self._explain(name, args, key, known=same is not None))

    def unambiguous(self) -> Sequence[ToolCall]:
        """Return the unused recordings whose equal calls were all recorded alike; equal ones in their order.

        Those of `f(n=1)` and `f(n=1.0)` are left out: either call may use up either recording. So is all that
        follows the first one for which `UNAMBIGUOUS_BYTES` have no room.
        """
        return self._index.unused_unambiguous(self._used) if self._used else self._index.unambiguous

    def _explain(self, name: str, args: JsonObject, key: tuple[str, str], *, known: bool) -> str:
        requested = show_call(name, args)
        if known:
            used = self._used.get(key, 0)
            if used:
                times = "once" if used == 1 else f"{used} times"
                return f"{requested}: already used; it was recorded {times} and answered as often"
            return f"{requested}: recorded without an answer, so nothing can be replayed for it"
        same_name = [call for call in self._calls if call.name == name]
        if not same_name:
            return f"{requested}: never recorded; {self._other_tools(name)}"
        ignored = self._index.ignored(name)
        distinct: dict[str, JsonObject] = {}
        for call in same_name:
            distinct.setdefault(canonical_args(call.args, ignored), call.args)
        ranked = sorted(distinct.values(), key=lambda recorded: len(_differing(args, recorded, ignored)))
        nearest = sorted(ranked[:COMPARED_CALLS], key=lambda recorded: _distance(args, recorded, ignored))
        shown = [
            f"{show_call(name, recorded)} ({_differences(args, recorded, ignored)})"
            for recorded in nearest[:SHOWN_CALLS]
        ]
        word = "the nearest recorded calls are" if len(shown) > 1 else "the nearest recorded call is"
        return f"{requested}: never recorded; {word} {', '.join(shown)}"

    def _other_tools(self, name: str) -> str:
        names = list(dict.fromkeys(call.name for call in self._calls))
        if not names:
            return "the recording has no tool calls"
        near = difflib.get_close_matches(name, names, n=1)
        if near:
            return f"the recording has no call of {name}; it has {near[0]}"
        return f"the recording has no call of {name}, only of {', '.join(names)}"


def show_call(name: str, args: JsonObject) -> str:
    """A call as a person would write it, long values shortened: `cancel_order(order_id="1")`."""
    return f"{name}({', '.join(f'{key}={_show(value)}' for key, value in args.items())})"


def _show(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def _differing(requested: JsonObject, recorded: JsonObject, ignored: Collection[str]) -> list[str]:
    keys = [key for key in dict.fromkeys((*requested, *recorded)) if key not in ignored]
    return [key for key in keys if _one(requested, key) != _one(recorded, key)]


def arguments_apart(requested: JsonObject, recorded: Iterable[JsonObject]) -> tuple[str, ...]:
    """Return the names of the arguments in which a call differs from the nearest of the recorded calls.

    Args:
        requested: the arguments of the call.
        recorded: the arguments of each recorded call of the same tool.

    Returns:
        The names, in the call's order; empty where an equal call was recorded or none was.
    """
    apart = sorted((_differing(requested, args, ()) for args in recorded), key=len)
    return tuple(apart[0]) if apart else ()


def _one(args: JsonObject, key: str) -> str:
    """The one argument, in the form in which it is compared; absent differs from null."""
    return canonical_args({key: args[key]}) if key in args else ""


def _distance(requested: JsonObject, recorded: JsonObject, ignored: Collection[str]) -> tuple[int, float]:
    """How many arguments differ, then how much their texts do."""
    differing = _differing(requested, recorded, ignored)
    unlike = sum(
        1 - difflib.SequenceMatcher(None, _one(requested, key)[:200], _one(recorded, key)[:200]).ratio()
        for key in differing
    )
    return len(differing), unlike


def _differences(requested: JsonObject, recorded: JsonObject, ignored: Collection[str]) -> str:
    parts = []
    for key in _differing(requested, recorded, ignored):
        if key not in recorded:
            parts.append(f"{key} was not given")
        elif key not in requested:
            parts.append(f"{key}={_show(recorded[key])} was given")
        else:
            parts.append(f"{key} was {_show(recorded[key])}, not {_show(requested[key])}")
    return "; ".join(parts)
