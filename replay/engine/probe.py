"""What the first trials of a lane must show before the others are started.

A lane whose version names patch points must show that its tool calls reach them, and no lane may fail in one
way again and again. `Probe` is given every outcome and raises:

`UncontainedError` (exit code 2)
    a call that the agent reports passed no patch point and is not allowed by `live`; or a recorded tool that
    may write was not asked for while its item's other tools were (`UnaskedTools`); or `TRIALS` trials of
    items recorded with tool calls ended well and none of them entered a patch point. One such trial
    proves nothing, since an agent may answer an item without its tools.

`BlockedError` (exit code 2)
    the boundary blocked something outside of a tool in one of the first `TRIALS` trials; see
    `replay.engine.blocked`.

`RepeatedFailureError` (exit code 75)
    the first `TRIALS` trials failed in the same way, on as many items as there are up to that number.

`OutageError` (exit code 75)
    `OUTAGE` trials in a row, at any time, ended `infra_error`: the provider is down, and the rest would fail.

Lanes that differ in nothing but the model share what they have shown: their tools are the same code. A
version without patch points (`tools = []`, a recording, `messages`) has nothing to show of tools.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from replaydiff.replay.agents import Outcome
from replaydiff.replay.engine.blocked import check_blocked
from replaydiff.replay.engine.schedule import Slot
from replaydiff.replay.errors import ExitCode, ReplayError
from replaydiff.replay.model import Item, JsonObject, Lane, Rule, Status, Version
from replaydiff.replay.settings.toml import toml_key

TRIALS = 5
"""Trials of a lane after which it is decided, unless they differ."""
OUTAGE = 12
"""Trials in a row of a lane that ended `infra_error`, after all their retries, which stop the run."""
_PRINTED = 300
"""Most characters of what a process printed in an error."""
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,})*\b|\d+")
"""What differs between two messages of the same failure: addresses, ids, numbers."""


class UncontainedError(ReplayError):
    """Tool calls of a version do not reach its patch points, so tools may have run in place of recordings."""

    def __init__(
        self,
        lane: Lane,
        version: Version,
        tools: Sequence[str],
        trials: int,
        evidence: str,
        fix: str,
        *,
        has_boundary: bool,
    ) -> None:
        self.lane, self.version = lane, version.name
        self.tools = tuple(tools)
        """Names of the tools that may have run."""
        self.has_boundary = has_boundary
        """The version's agents run behind a boundary, and so did the tools."""
        self.suspicion = f"{list_names(self.tools)} may have run {ran_where(has_boundary=has_boundary)}"
        """Which tools may have run, and where."""
        self.trials = trials
        """Trials that showed it."""
        self.evidence, self.fix = evidence, fix
        super().__init__(
            f"the run was stopped: {self.suspicion} in lane {lane} ({version.name}): {evidence}",
            hint=fix,
        )


class RepeatedFailureError(ReplayError):
    """The first trials of a lane failed in the same way; they count as not run."""

    exit_code = ExitCode.TRY_AGAIN

    def __init__(
        self, run_id: str, lane: Lane, version: Version, status: Status, reason: str, trials: int
    ) -> None:
        self.run_id, self.lane, self.version = run_id, lane, version.name
        self.status, self.failure, self.trials = status, reason, trials
        super().__init__(
            f"the run was stopped: the first {trials} trials of lane {lane} ({version.name}) failed in the "
            f"same way ({status.value}: {reason})",
            hint=f"correct that, then repeat them with `replay run --resume {run_id}`, or start a new run if "
            "the version itself must change",
        )


class OutageError(ReplayError):
    """Trial after trial of a lane failed for its provider or the network; what had finished is kept."""

    exit_code = ExitCode.TRY_AGAIN

    def __init__(self, run_id: str, lane: Lane, reason: str) -> None:
        self.run_id, self.lane, self.failure = run_id, lane, reason
        super().__init__(
            f"the run was stopped: {OUTAGE} trials of lane {lane} in a row failed for the provider or the "
            f"network ({reason}); everything that finished is kept",
            hint=f"once it is up again: `replay run --resume {run_id} --retry infra_error`",
        )


class UnaskedTools:
    """Recorded tools that may write and were not asked for, while other tools of their item were.

    Such a tool may have run past the patch points, or the version does not call it, which is what a
    comparison is to find. It is taken to have run

    - in any lane, at the first such trial, if no version has a patch point of its name;
    - in the lanes of the old version, which ought to reproduce the recording, after `TRIALS` such trials,
      if no trial of the same code has asked for it;
    - in any lane, after `TRIALS` such trials, if patch points answer tools whose names are not known before
      they are called (dispatchers, frameworks), and no trial of any version has asked for it.
    """

    def __init__(
        self,
        lanes: Mapping[Lane, Version],
        patched: Mapping[Lane, Collection[str] | None],
        harmless: Collection[str],
    ) -> None:
        """Begin without trials.

        Args:
            lanes: the lanes, with their versions' code.
            patched: names of the tools that each lane's patch points answer; None where they are not known
                before they are called.
            harmless: tools that need not be asked for: those that read, may run, or were removed on purpose.
        """
        self._lanes, self._harmless = lanes, frozenset(harmless)
        names = [patched.get(lane) for lane in lanes]
        self._patched = (
            None
            if None in names
            else frozenset(name for patched_names in names for name in patched_names or ())
        )
        self._requested: list[tuple[Version, str]] = []
        self._trials: dict[tuple[Lane, str], int] = {}

    def add(self, lane: Lane, item: Item, outcome: Outcome) -> tuple[str, int] | None:
        """Take in a trial; return the tool that may have run, and how many trials show it."""
        code = self._lanes[lane]
        requested = {served.call.name for served in outcome.served if served.rule is not Rule.LIVE}
        self._requested += [(code, name) for name in requested if (code, name) not in self._requested]
        recorded = [call.name for call in item.tape]
        if outcome.status is not Status.OK or requested.isdisjoint(recorded):
            return None
        for name in dict.fromkeys(recorded):
            if name in self._harmless or (code, name) in self._requested:
                continue
            trials = self._trials[lane, name] = self._trials.get((lane, name), 0) + 1
            is_named = self._patched is not None and name in self._patched
            if self._patched is not None and not is_named:
                return name, trials
            is_reproducing = lane in (Lane.OLD, Lane.OLD2)
            is_silent = not is_named and all(name != requested_name for _, requested_name in self._requested)
            if trials >= TRIALS and (is_reproducing or is_silent):
                return name, trials
        return None


class Probe:
    """What the trials of a run's lanes have shown so far."""

    def __init__(
        self,
        run_id: str,
        lanes: Mapping[Lane, Version],
        *,
        items: int,
        live: Collection[str],
        reads: Collection[str] = (),
        ignore: Collection[str] = (),
        patched: Mapping[Lane, Collection[str] | None] | None = None,
        behind_boundary: Collection[Lane] = (),
    ) -> None:
        """Begin with nothing shown yet.

        Args:
            run_id: the run.
            lanes: the lanes that are replayed.
            items: how many items are replayed. Those with recorded tool calls come first, if there are any.
            live: tools that may run.
            reads: names of the tools that are known to read only.
            ignore: names of recorded tools that the versions no longer have.
            patched: names of the tools that each lane's patch points answer; None, or None for a lane, where
                they are not known before they are called.
            behind_boundary: lanes whose agents, with the tools that they run, are behind a boundary.
        """
        self._behind_boundary = frozenset(behind_boundary)
        self._run_id, self._lanes, self._live, self._reads = run_id, lanes, frozenset(live), frozenset(reads)
        self._has_recordings = False
        self._outages = dict.fromkeys(lanes, 0)
        """Trials in a row that ended `infra_error`, by lane."""
        self._most_items = min(TRIALS, items)
        self._failures: dict[Lane, list[tuple[Item, Outcome]]] = {lane: [] for lane in lanes}
        self._varied: set[Lane] = set()
        """Lanes of which a trial did not fail, or two failed in different ways."""
        self._code = {lane: _without_model(version) for lane, version in lanes.items()}
        self._unasked = UnaskedTools(
            self._code,
            dict.fromkeys(lanes) if patched is None else patched,
            {*live, *reads, *ignore},
        )
        self._contained: list[Version] = []
        """Versions, but for their model, that entered a patch point."""
        self._trials = dict.fromkeys(lanes, 0)
        """How many trials of each lane ended."""
        self._silent: dict[Lane, list[Item]] = {lane: [] for lane in lanes}
        """Items with recorded calls that were answered without one."""

    def first_trials(
        self, items: Sequence[Item], missing: Callable[[Item], list[Slot]]
    ) -> Iterator[tuple[Item, list[Slot]]]:
        """Yield trials of an item that may run at once, until every lane has passed.

        Each group must have ended before the next is taken. Of the first items with recorded calls, lanes
        with code of their own follow one another: a wrong patch point runs one real tool, not one per lane.

        Args:
            items: in the order in which they are taken.
            missing: returns the trials of an item that have not finished.
        """
        left = {item.id: missing(item) for item in items}
        careful = self._careful(items)
        for item in careful:
            slots = _first_slots(left, item)
            for lanes in self._groups_by_code(list(slots)):
                yield item, [slots[lane] for lane in lanes]
        others = [item for item in items if item not in careful]
        while any(left.values()):
            for item in (*others, *careful):
                if all(map(self.is_passed, self._lanes)):
                    return
                slots = _first_slots(left, item)
                if waiting := [slot for lane, slot in slots.items() if not self.is_passed(lane)]:
                    yield item, waiting

    def _careful(self, items: Sequence[Item]) -> list[Item]:
        """Return the items that show a wrong patch point at the least harm.

        The first calls tools that only read: where nothing is patched, nothing is written. The
        second calls the most tools that may write: where one of them is not patched, it runs once.
        """
        if not any(version.tools for version in self._lanes.values()):
            return []
        writes = {item.id: {call.name for call in item.tape} - self._reads - self._live for item in items}
        reading = next((item for item in items if item.tape and not writes[item.id]), None)
        writing = max(items, key=lambda item: len(writes[item.id]), default=None)
        if writing is not None and not writes[writing.id]:
            writing = None
        return [item for item in (reading, writing) if item is not None]

    def _groups_by_code(self, lanes: Sequence[Lane]) -> list[list[Lane]]:
        """Return groups of lanes: each code by itself, then the lanes that share one."""
        first: dict[Lane, Version] = {}
        for lane in lanes:
            if self._code[lane] not in first.values():
                first[lane] = self._code[lane]
        sharing = [lane for lane in lanes if lane not in first]
        return [[lane] for lane in first] + ([sharing] if sharing else [])

    def is_passed(self, lane: Lane) -> bool:
        """Return whether the lane has shown what it must."""
        return self.is_varied(lane) and self._is_contained(lane)

    def is_varied(self, lane: Lane) -> bool:
        """Return whether the lane's trials do not all fail in one way."""
        return lane in self._varied

    def add(self, lane: Lane, item: Item, outcome: Outcome, *, is_last: bool = False) -> None:
        """Take in how a trial ended.

        Args:
            lane: its lane.
            item: what was replayed.
            outcome: how it ended.
            is_last: no other trial of the lane is missing, so that a stop would save nothing.

        Raises:
            BlockedError: the agent needs something that its boundary blocks.
            UncontainedError: tools may have run in place of recordings.
            RepeatedFailureError: this failure would come again and again.
        """
        if outcome.status is Status.CANCELLED:
            return
        self._has_recordings = self._has_recordings or bool(item.tape)
        self._trials[lane] += 1
        is_first = self._trials[lane] <= TRIALS
        check_blocked(lane, self._lanes[lane], outcome, is_first=is_first)
        if self._lanes[lane].tools:
            self._check_containment(lane, item, outcome)
        if not self.is_varied(lane):
            self._check_failures(lane, item, outcome, is_last=is_last)
        self._outages[lane] = self._outages[lane] + 1 if outcome.status is Status.INFRA_ERROR else 0
        if self._outages[lane] >= OUTAGE and self.is_varied(lane) and not is_last:
            raise OutageError(self._run_id, lane, outcome.reason or "no reason given")

    def check_earlier(self, lane: Lane, ran: Sequence[tuple[str, str]]) -> None:
        """Look at the calls that ran unanswered before the run was resumed: item id and tool name of each.

        Raises:
            UncontainedError: one of them was not allowed.
        """
        reported = [(item, name) for item, name in ran if name not in self._live]
        if reported and self._lanes[lane].tools:
            evidence = f"the agent reported it for item {reported[0][0]}, and the call passed no patch point"
            raise self._uncontained(lane, list(dict.fromkeys(name for _, name in reported)), 1, evidence)

    def _is_contained(self, lane: Lane) -> bool:
        has_to_show = self._has_recordings and bool(self._lanes[lane].tools)
        return not has_to_show or self._code[lane] in self._contained

    def _check_containment(self, lane: Lane, item: Item, outcome: Outcome) -> None:
        reported = [
            call.call.name
            for call in outcome.served
            if call.rule is Rule.LIVE and call.call.name not in self._live
        ]
        if reported:
            evidence = f"the agent reports it for item {item.id}, and the call passed no patch point"
            raise self._uncontained(lane, list(dict.fromkeys(reported)), 1, evidence)
        unasked = self._unasked.add(lane, item, outcome)
        if unasked is not None:
            name, trials = unasked
            evidence = (
                f"it was recorded for item {item.id} and not asked for, while the item's other tools were"
                if trials == 1
                else f"{trials} trials of items recorded with it asked for their other tools, and not for it"
            )
            raise self._uncontained(lane, [name], trials, evidence, unasked=name)
        if outcome.served and not self._is_contained(lane):
            self._contained.append(self._code[lane])
        if outcome.status is not Status.OK or not item.tape or self._is_contained(lane):
            return
        silent = self._silent[lane]
        silent.append(item)
        if len(silent) >= TRIALS:
            tools = list(dict.fromkeys(call.name for silent_item in silent for call in silent_item.tape))
            evidence = (
                f"{len(silent)} trials of items that were recorded with tool calls passed no patch point"
            )
            raise self._uncontained(lane, tools, len(silent), evidence)

    def _check_failures(self, lane: Lane, item: Item, outcome: Outcome, *, is_last: bool) -> None:
        failures = self._failures[lane]
        if outcome.status.is_error:
            failures.append((item, outcome))
        if not outcome.status.is_error or len({_kind(*failure) for failure in failures}) > 1:
            self._varied.add(lane)
            return
        items = {failed.id for failed, _ in failures}
        if len(failures) >= TRIALS and len(items) >= self._most_items and not is_last:
            raise RepeatedFailureError(
                self._run_id, lane, self._lanes[lane], outcome.status, _why(outcome), len(failures)
            )

    def _uncontained(
        self, lane: Lane, tools: Sequence[str], trials: int, evidence: str, *, unasked: str = ""
    ) -> UncontainedError:
        version = self._lanes[lane]
        fix = _fix(version)
        if unasked:
            fix += (
                f'; if {unasked} only reads, write effect = "read" in [tools.{toml_key(unasked)}]; if the '
                f"versions have it no longer, name it in `ignore` of [agent]"
            )
        return UncontainedError(
            lane, version, tools, trials, evidence, fix, has_boundary=lane in self._behind_boundary
        )


def _why(outcome: Outcome) -> str:
    """Return the reason of a failure; where the agent's process ended, with the last line that it printed."""
    reason = outcome.reason or ""
    printed = (outcome.stderr or "").strip() if outcome.status is Status.CRASHED else ""
    return f"{reason}: {printed.splitlines()[-1][:_PRINTED]}" if printed else reason


def _first_slots(left: dict[str, list[Slot]], item: Item) -> dict[Lane, Slot]:
    """Take the first trial of each lane out of what is left of an item."""
    slots = {slot.lane: slot for slot in reversed(left[item.id])}
    left[item.id] = [slot for slot in left[item.id] if slots[slot.lane] is not slot]
    return slots


def _without_model(version: Version) -> Version:
    args: JsonObject = {name: value for name, value in version.args.items() if name != "model"}
    return replace(version, name="", args=args)


def _kind(item: Item, outcome: Outcome) -> tuple[Status, str]:
    """Return what makes two failures the same: their status, and their reason without what varies."""
    reason = outcome.reason or ""
    for item_text in sorted({item.input, item.id}, key=len, reverse=True):
        reason = reason.replace(item_text, "…") if item_text else reason
    return outcome.status, _VARYING.sub("…", reason)


def _fix(version: Version) -> str:
    if not version.kind.is_imported:
        return (
            "have it ask the tape for every tool call (docs/versions.md), name a tool that may run in `live` "
            "of [agent], or write tools = [] if it has none or all may run"
        )
    points = ", ".join(version.tools)
    return (
        f"the patch points are {points}: name the function that runs the tools in `tools` of [agent] in "
        "replay.toml, name a tool that may run in `live`, or write tools = [] if it has none or all may run"
    )


def ran_where(*, has_boundary: bool) -> str:
    """Return where a tool ran that no recording answered, in words."""
    return "behind the boundary" if has_boundary else "for real"


def list_names(names: Sequence[str], most: int = 6) -> str:
    """Return names as a list in prose."""
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
