"""One entry of the triage as a page: why it is there, what was asked, what production and both lanes did."""

from __future__ import annotations

from collections.abc import Iterator

from replaydiff.cases.triage.priority import Entry
from replaydiff.cases.triage.queue import alike, kind
from replaydiff.diff.result import GradedTrial
from replaydiff.replay.model import Lane
from replaydiff.replay.tape import show_call
from replaydiff.replay.terminal.lanes import lanes
from replaydiff.replay.terminal.plain import one_line, wrapped

KEYS = "[p]romote  [e]dit or [y]aml first  [d]ismiss  [l]abel  [s]kip  [u]ndo  [?] keys  [q]uit"
HELP = """\
p      add a case to the golden set: whose tool calls it expects, what the response must show
e, y   the same, after editing the case as JSON or YAML
d      dismiss: no case is needed, with a reason
l      label the responses of the run, for calibrating the judge
s      skip: it comes back with `replay triage --again`
u      undo the last decision
t      show the next trial of both lanes
f      show texts to their end, or shortened again
space  scroll down; b scrolls up
q      quit; what was decided is kept
"""
MOVES = "[t]rial  [f]ull texts"
SCROLLING = "  [space] further down  [b]ack up"
FOLDED = 6
"""Lines of one text that are shown unless everything is asked for."""
_LABEL = 10


def page(entry: Entry, place: str, width: int, *, trial: int = 0, full: bool = False) -> str:
    """The page; `trial` counts on through the trials of both lanes, `full` shows texts to their end."""
    limit = None if full else FOLDED
    item = entry.item.item
    lines = [one_line(f"{place}  {kind(entry)}  {item.id}  ({item.stratum})", width), ""]
    for index, reason in enumerate(entry.reasons):
        lines += _labelled("why" if index == 0 else "", reason, width, limit)
    if entry.alike:
        lines += _labelled("alike", alike(entry), width, limit)
    lines += ["", *_labelled("user", item.input, width, limit)]
    calls = [show_call(call.name, call.args) for call in item.tape]
    for index, call in enumerate(calls):
        lines += _labelled("recorded" if index == 0 else "", f"→ {call}", width, limit)
    if item.recorded_response is not None:
        lines += _labelled("" if calls else "recorded", item.recorded_response, width, limit)
    lines += ["", *_lanes(entry, width, trial, limit)]
    return "\n".join(lines)


def window(text: str, height: int, top: int) -> tuple[str, int]:
    """What of a page a terminal of that height shows, from line `top` on, with the keys below it.

    Also where it begins: no further down than the page reaches.
    """
    lines, room = text.split("\n"), max(height - 4, 5)
    if len(lines) <= room:
        return "\n".join([text, "", MOVES, KEYS]), 0
    top = max(0, min(top, len(lines) - room))
    footer = f"{MOVES}{SCROLLING}  ({min(top + room, len(lines))} of {len(lines)} lines)"
    return "\n".join([*lines[top : top + room], "", footer, KEYS]), top


def _lanes(entry: Entry, width: int, trial: int, limit: int | None) -> Iterator[str]:
    shown = {
        lane: trials[trial % len(trials)]
        for lane, trials in entry.item.lanes.items()
        if lane != Lane.OLD2 and trials
    }
    if Lane.OLD in shown and Lane.NEW in shown:
        yield from lanes(shown[Lane.OLD].trial, shown[Lane.NEW].trial, width, lines=limit)
    else:
        for graded in shown.values():
            yield from lanes(graded.trial, graded.trial, width, lines=limit)
    yield ""
    for lane, graded in shown.items():
        yield from _grades(lane, graded, width, limit)


def _grades(lane: Lane, graded: GradedTrial, width: int, limit: int | None) -> Iterator[str]:
    for name, grade in graded.grades.items():
        score = grade.state.value if grade.score is None else f"{grade.score:.2f}"
        votes = ", ".join("-" if vote.score is None else f"{vote.score:.2f}" for vote in grade.votes)
        summary = f"{name} {score}" + (f" (votes {votes})" if len(grade.votes) > 1 else "")
        yield from _labelled(
            str(lane), f"{summary}: {grade.reason}" if grade.reason else summary, width, limit
        )


def _labelled(label: str, text: str, width: int, limit: int | None) -> Iterator[str]:
    for index, line in enumerate(wrapped(text, width - _LABEL, limit)):
        yield f"{label if index == 0 else '':<{_LABEL}}{line}".rstrip()
