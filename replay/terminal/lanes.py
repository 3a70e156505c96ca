"""Two trials of one item beside each other, call by call, with the first difference marked.

    old trial 1: ok                       new trial 1: ok
      → get_order_status(order_id="7")  =   → get_order_status(order_id="7")
      → cancel_order(order_id="7")      <                                       ◀ first difference
    It is cancelled.                      It is on its way.

`=` is put between equal calls, `≠` between calls of one tool with other arguments, `<` and `>` beside a call
that the other lane did not make. Below 100 columns the lanes are printed one under the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replaydiff.replay.align import Call, align, equal_json
from replaydiff.replay.model import ServedCall, Trial
from replaydiff.replay.tape import show_call
from replaydiff.replay.terminal.text import visible, wrapped

BESIDE = 100
"""Columns from which two lanes have room beside each other."""
FIRST = "◀ first difference"
_EQUAL, _DIFFERENT_ARGS, _ONLY_LEFT, _ONLY_RIGHT = "=", "≠", "<", ">"


@dataclass(frozen=True, slots=True)
class SideBySide:
    """A matched pair of calls, one per lane; None if a lane has none."""

    left: ServedCall | None
    right: ServedCall | None

    @property
    def sign(self) -> str:
        """Return the sign of how the two calls differ."""
        if self.left is None:
            return _ONLY_RIGHT
        if self.right is None:
            return _ONLY_LEFT
        return _EQUAL if equal_json(self.left.call.args, self.right.call.args) else _DIFFERENT_ARGS


def pairs(left: Sequence[ServedCall], right: Sequence[ServedCall]) -> list[SideBySide]:
    """Align the calls of two trials in order."""
    places = align([_call(call) for call in left], [_call(call) for call in right])
    side_by_side: list[SideBySide] = []
    next_position = 0
    for call, position in zip(right, places, strict=True):
        if position is None:
            side_by_side.append(SideBySide(None, call))
            continue
        side_by_side += [SideBySide(missing, None) for missing in left[next_position:position]]
        side_by_side.append(SideBySide(left[position], call))
        next_position = position + 1
    return [*side_by_side, *(SideBySide(missing, None) for missing in left[next_position:])]


def lanes(left: Trial, right: Trial, width: int, *, lines: int | None = None) -> list[str]:
    """Return both trials as lines of at most `width` columns; `lines` limits those of each text."""
    served = pairs(left.served, right.served)
    first = next((pair for pair in served if pair.sign != _EQUAL), None)
    if width < BESIDE:
        return [
            *_single_column(left, [(pair.left, pair) for pair in served], first, width, lines),
            "",
            *_single_column(right, [(pair.right, pair) for pair in served], first, width, lines),
        ]
    room = (width - 3) // 2
    rows = [*_beside(_head(left, room), _head(right, room), " ", room)]
    for pair in served:
        left_lines, right_lines = _shown(pair.left, room, lines), _shown(pair.right, room, lines)
        if pair is first:
            (right_lines if right_lines == [] else left_lines if left_lines == [] else right_lines).append(
                FIRST
            )
        rows += _beside(left_lines, right_lines, pair.sign, room)
    return [*rows, *_beside(_response(left, room, lines), _response(right, room, lines), " ", room)]


def _single_column(
    trial: Trial,
    calls: Sequence[tuple[ServedCall | None, SideBySide]],
    first: SideBySide | None,
    width: int,
    limit: int | None,
) -> Iterator[str]:
    yield from _head(trial, width)
    for call, pair in calls:
        if call is not None:
            shown = _shown(call, width, limit)
            yield f"{pair.sign}{shown[0][1:]}"
            yield from shown[1:]
        if pair is first:
            yield f"  {'' if call is not None else '(no call here) '}{FIRST}"
    yield from _response(trial, width, limit)


def _call(served: ServedCall) -> Call:
    return Call(served.call.name, served.call.args)


def _head(trial: Trial, room: int) -> list[str]:
    text = f"{trial.lane} trial {trial.index + 1}: {trial.status.value}"
    return wrapped(f"{text}: {trial.reason}" if trial.reason else text, room, 4)


def _shown(served: ServedCall | None, room: int, limit: int | None) -> list[str]:
    if served is None:
        return []
    rule = "" if served.rule.value == "tape" else f"  [{served.rule.value}]"
    lines = wrapped(f"→ {show_call(served.call.name, served.call.args)}{rule}", room - 2, limit)
    if served.note:
        lines += [f"  {line}" for line in wrapped(served.note, room - 4, limit)]
    return [f"  {line}" for line in lines]


def _response(trial: Trial, room: int, limit: int | None) -> list[str]:
    return [] if trial.final_response is None else wrapped(visible(trial.final_response), room, limit)


def _beside(left: Sequence[str], right: Sequence[str], sign: str, room: int) -> Iterator[str]:
    from rich.cells import cell_len

    for index in range(max(len(left), len(right))):
        left_text = left[index] if index < len(left) else ""
        right_text = right[index] if index < len(right) else ""
        gap = " " * max(room - cell_len(left_text), 0)
        yield f"{left_text}{gap} {sign if index == 0 else ' '} {right_text}".rstrip()
