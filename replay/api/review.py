"""Decide on items of a run one by one, and on its causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from replaydiff.replay.clock import utc_now
from replaydiff.replay.errors import ExitCode, InputError, ReplayError
from replaydiff.replay.model import Action, Case, Decision, Item, Json, RunRecord, Trial
from replaydiff.replay.settings import Settings

if TYPE_CHECKING:
    from replaydiff.cases.triage.priority import Entry as Entry
    from replaydiff.cases.triage.priority import TriageQueue as TriageQueue
    from replaydiff.diff.result import Cause, CauseState, DiffResult
    from replaydiff.replay.api.diff import Diff
    from replaydiff.replay.api.options import RunOptions
    from replaydiff.replay.api.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A case that was added to the golden set."""

    case: Case
    expected_from: str
    """`recording`, `old` or `new`."""
    drafts: tuple[str, ...] = ()
    """Traits that a model drafted; they count once a person moves them to the expected ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotions:
    """What became of items that were to be cases."""

    promoted: tuple[Promotion, ...] = ()
    not_promoted: tuple[tuple[str, str], ...] = ()
    """Items that became no case, each with the reason."""

    @property
    def exit_code(self) -> ExitCode:
        """Return 0, or 3 where an item became no case."""
        return ExitCode.PARTIAL if self.not_promoted else ExitCode.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseReview:
    """The decisions about causes of a run, and the answer that follows from them."""

    diff: Diff
    """Computed again with the decisions."""
    causes: tuple[Cause, ...]
    """Those that were decided on, in their new state."""
    promoted: tuple[Promotion, ...] = ()
    """Cases that were added for their example items."""
    not_promoted: tuple[tuple[str, str], ...] = ()
    """Example items that became no case, each with the reason."""
    unfinished: tuple[str, ...] = ()
    """Example items in which the new version was stopped at a call that was never recorded."""
    path: Path
    """The file in which the decisions are kept."""


class Reviewer:
    """A reviewer who decides on items of runs one by one; each decision can be undone.

    Each is one record in the store; a promotion is one line of the golden set as well. The store is opened
    for each decision alone, so other processes can write between two.
    """

    def __init__(self, store: Path, settings: Settings) -> None:
        from replaydiff.cases.promote import person
        from replaydiff.cases.triage.decisions import Decisions

        self.golden = settings.golden_path
        self.person = person(settings.root)
        """Git's user of the project's folder."""
        self.decisions = Decisions(store, self.golden, self.person)

    def decided(self) -> set[str]:
        """Return the keys (`Entry.key`) of the items decided here; a label is not a decision."""
        return {
            decision.item_id for decision, _ in self.decisions.done if decision.action is not Action.LABEL
        }

    def decided_in(self, queue: TriageQueue) -> int:
        """Return how many items are decided: before the queue was read, and here since."""
        from replaydiff.cases.triage.priority import decision_key

        return queue.decided + len(self.decided() & {decision_key(item) for item in queue.result.items})

    def label_of(self, entry: Entry) -> int | None:
        """Return the label that was given here last; None without one."""
        labels = [
            decision.label
            for decision, _ in self.decisions.done
            if decision.item_id == entry.key and decision.label is not None
        ]
        return labels[-1] if labels else None

    def expectations(self, entry: Entry) -> list[str]:
        """Return what a case can expect: the recording, or a lane with a trial that ended well."""
        from replaydiff.cases.promote import possible

        return possible(entry.item)

    def better_expectation(self, entry: Entry) -> str:
        """Return which of `expectations` to propose: the lane that did better, else the recording."""
        from replaydiff.cases.promote import better

        return better(entry.item)

    def propose(self, entry: Entry, run: RunRecord, *, expect: str, traits: Sequence[str] = ()) -> Case:
        """Return the case that an entry would become.

        Raises:
            InputError: the lane whose calls are to be expected has no trial that ended well.
        """
        from replaydiff.cases.golden import free_id
        from replaydiff.cases.promote import propose

        return propose(
            entry.item.item,
            case_id=free_id(self.golden, entry.item.item.id),
            reviewer=self.person,
            at=utc_now(),
            run=run,
            trials=tuple(graded.trial for lane in entry.item.lanes.values() for graded in lane),
            expect=expect,
            traits=tuple(traits),
        ).case

    def promote(self, entry: Entry, case: Case, *, force: bool = False) -> None:
        """Add a case to the golden set.

        Raises:
            InputError: there is a case of that id.
            DuplicateError: there is one like it (without `force`).
        """
        self.decisions.promote(entry.item.item, case, force=force)

    def dismiss(self, entry: Entry, run_id: str, reason: str, *, alike: bool = False) -> None:
        """Set an entry aside, with `alike` its near-duplicates too."""
        items = [entry.item.item, *(item.item for item in entry.alike if alike)]
        self.decisions.dismiss(items, run_id, reason)

    def skip(self, entry: Entry, run_id: str) -> None:
        """Leave an entry for later."""
        self.decisions.skip(entry.item.item, run_id)

    def label(self, entry: Entry, run_id: str, label: int) -> None:
        """Label the new lane's response: 1 poor, 2 fair, 3 good."""
        self.decisions.label(entry.item.item, run_id, label)

    def undo(self) -> Decision | None:
        """Undo the last decision made here; return it, or None if there is none.

        Raises:
            InputError: the case was changed since.
        """
        return self.decisions.undo()


def decision_files(settings: Settings) -> tuple[Path, ...]:
    """Return the files beside the store in which people's decisions are kept: golden set and causes."""
    from replaydiff.diff.cause_decisions import decisions_path

    return settings.golden_path, decisions_path(settings)


def is_duplicate(error: ReplayError) -> bool:
    """Return whether a case was refused because there is one like it: `force` adds it."""
    from replaydiff.cases.similarity import DuplicateError

    return isinstance(error, DuplicateError)


@dataclass(frozen=True, slots=True)
class CauseChoice:
    """Causes of a run that a person decides on."""

    project: Project
    names: Sequence[str]
    """Their ids, or unique beginnings of them."""
    run: str | None
    """None: the latest comparison."""
    lane: str | None
    """Of several new versions the one to decide on."""
    promote: bool
    """Add the causes' example items to the golden set."""
    everything: bool
    """Promote each item that shows a cause, not only its examples."""

    def decide(
        self, decision: str, *, rerun: RunOptions | None = None, results: Mapping[str, Json] | None = None
    ) -> CauseReview:
        """Keep a decision beside the golden set, and compute the answer again.

        Args:
            decision: `accepted`, `rejected` or `open`.
            rerun: run the new version again on examples that it was stopped in, with these options.
            results: then tool → what it answers to calls that were never recorded.

        Raises:
            UnknownNameError: the run has no such cause.
        """
        from replaydiff.cases.promote import person
        from replaydiff.diff.cause_decisions import decisions_path, write_decisions
        from replaydiff.diff.result import CauseState
        from replaydiff.replay.api.completing import complete, unfinished_items
        from replaydiff.replay.api.diff import diff_of

        project, settings = self.project, self.project.settings
        before = diff_of(project.store.path, settings, self.run, lane=self.lane, compared=True)
        chosen = [before.cause(name) for name in dict.fromkeys(self.names)]
        shown_items = {name for cause in chosen for name in cause.names(everything=self.everything)}
        stopped = unfinished_items(before.result, shown_items)
        completed: dict[str, tuple[Item, Trial]] = {}
        if self.promote and rerun is not None:
            completed = complete(project, rerun, before.result, stopped, results or {})
        path, by, state = decisions_path(settings), person(settings.root), CauseState(decision)
        write_decisions(path, chosen, state, run=before.run_id, by=by, at=utc_now())
        promotions = (
            self._promotions(before.result, chosen, state, completed) if self.promote else Promotions()
        )
        after = project.diff(before.run_id, lane=self.lane)
        ids = {cause.id for cause in chosen}
        return CauseReview(
            diff=after,
            causes=tuple(cause for cause in after.causes if cause.id in ids),
            promoted=promotions.promoted,
            not_promoted=promotions.not_promoted,
            unfinished=tuple(name for name in stopped if name not in completed),
            path=path,
        )

    def _promotions(
        self,
        result: DiffResult,
        chosen: Sequence[Cause],
        state: CauseState,
        completed: Mapping[str, tuple[Item, Trial]],
    ) -> Promotions:
        """Add the items of the causes to the golden set."""
        from replaydiff.cases.triage.causes import propose_examples

        reviewer = Reviewer(self.project.store.path, self.project.settings)
        proposed = propose_examples(
            result,
            chosen,
            state,
            golden=reviewer.golden,
            reviewer=reviewer.person,
            completed=completed,
            everything=self.everything,
        )
        promoted, refused = list[Promotion](), [*proposed.refused]
        for item, proposal in proposed.proposals:
            try:
                case = reviewer.decisions.promote(item, proposal.case)
            except InputError as error:
                refused.append((item.id, error.reason))
            else:
                promoted.append(Promotion(case=case, expected_from=proposal.expected_from))
        return Promotions(promoted=tuple(promoted), not_promoted=tuple(refused))
