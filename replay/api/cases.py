"""`project.cases`: golden sets, triage, and the platforms that keep copies of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from replaydiff.replay.api.channel import Channel
from replaydiff.replay.api.runs import RunName, run_id
from replaydiff.replay.api.threads import in_thread
from replaydiff.replay.clock import utc_now
from replaydiff.replay.errors import InputError, SettingsError, UnknownNameError
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.connection import open_store

if TYPE_CHECKING:
    from replaydiff.cases.promote import ItemInRun, Proposal
    from replaydiff.cases.push.pull import DatasetChange
    from replaydiff.cases.triage.decisions import Decisions
    from replaydiff.cases.triage.priority import TriageQueue
    from replaydiff.diff.judge.judge import Judge
    from replaydiff.replay.api.golden import GoldenSet, PushResult
    from replaydiff.replay.api.review import Promotion, Promotions, Reviewer


class Cases:
    """The golden sets of a project, and what becomes a case of them."""

    def __init__(self, store: Path, settings: Settings, channel: Channel) -> None:
        self._store, self._settings, self._channel = store, settings, channel

    def golden_set(self, path: str | Path | None = None) -> GoldenSet:
        """Return a golden set; default that of the settings."""
        from replaydiff.replay.api.golden import GoldenSet

        return GoldenSet(Path(path) if path else self._settings.golden_path, self._store, self._settings)

    def triage(
        self, run: RunName | None = None, *, everything: bool = False, again: bool = False
    ) -> TriageQueue:
        """Return what a person should look at in a run, in that order, with the reasons.

        Args:
            run: default the latest run.
            everything: also the items that no signal points at.
            again: also what was skipped before.
        """
        from replaydiff.cases.triage.priority import triage_queue
        from replaydiff.replay.store.runs import chosen_run

        with open_store(self._store, read_only=True) as con:
            name = chosen_run(con, run_id(run)).id
            return triage_queue(con, name, self._settings, everything=everything, again=again)

    def review(self, queue: TriageQueue) -> None:
        """Go through a triage queue at the terminal, one key for each decision."""
        from replaydiff.cases.triage.session import Session

        name = queue.result.run.id

        def reload() -> TriageQueue:
            return self.triage(name)

        Session(queue, self.reviewer().decisions, self._settings, reload).run()

    def reviewer(self) -> Reviewer:
        """Return a reviewer with the name of git's user."""
        from replaydiff.replay.api.review import Reviewer

        return Reviewer(self._store, self._settings)

    def promote(
        self,
        *ids: str,
        run: RunName | None = None,
        expect: str = "recording",
        traits: Sequence[str] = (),
        draft_traits: bool = False,
        tags: Sequence[str] = (),
        case_id: str | None = None,
        cases: str | Path | None = None,
        force: bool = False,
    ) -> Promotions:
        """Turn items into cases of the golden set: those that can, with the reason for each of the others.

        Args:
            ids: their ids.
            run: default the latest run.
            expect: whose tool calls the case expects: `recording`, `old`, `new` or `better`.
            traits: what the response must show.
            draft_traits: have the judge's model draft traits.
            tags: tags of the case.
            case_id: the case's id, for a single item.
            cases: the golden set; default that of the settings.
            force: add a case although there is one like it.

        Raises:
            InputError: nothing was added; DuplicateError: there is a case like the first item.
        """
        from replaydiff.cases.golden import free_id
        from replaydiff.cases.promote import person, propose
        from replaydiff.cases.triage.decisions import Decisions
        from replaydiff.replay.api.review import Promotions

        if case_id is not None and len(ids) > 1:
            hint = "promote them one by one"
            raise InputError("--name names one case, and several items were given", hint=hint)
        golden = Path(cases) if cases else self._settings.golden_path
        decisions = Decisions(self._store, golden, person(self._settings.root))
        judge = _judge(self._settings) if draft_traits else None
        proposed = partial(
            propose, reviewer=decisions.person, at=utc_now(), traits=tuple(traits), tags=tuple(tags)
        )
        promoted: list[Promotion] = []
        refused: dict[str, InputError | UnknownNameError] = {}
        for name in dict.fromkeys(ids):
            try:
                item, side = self._item(name, run, expect)
                chosen_id = case_id or free_id(golden, item.item.id)
                proposal = proposed(
                    item.item, case_id=chosen_id, run=item.run, trials=item.trials, expect=side
                )
                if judge is not None:
                    proposal = _with_drafts(judge, item, proposal, self._store, self._channel.message)
                promoted.append(_promoted(decisions, item, proposal, force=force))
            except (InputError, UnknownNameError) as error:
                refused[name] = error
        if refused and not promoted:
            raise next(iter(refused.values()))
        not_promoted = tuple((name, str(error)) for name, error in refused.items())
        return Promotions(promoted=tuple(promoted), not_promoted=not_promoted)

    def _item(self, name: str, run: RunName | None, expect: str) -> tuple[ItemInRun, str]:
        """Return an item, and whose calls its case expects."""
        from replaydiff.cases.promote import BETTER, better_lane_of, find_item

        with open_store(self._store, read_only=True) as con:
            item = find_item(con, name, run_id(run))
            side = better_lane_of(con, item, self._settings) if expect == BETTER else expect
        if expect != "recording" and item.run is None:
            raise InputError(f"--expect {expect} needs a run", hint="name it with --run")
        return item, side

    def dismiss(self, *ids: str, reason: str, run: RunName | None = None) -> list[str]:
        """Set items aside, with a reason; return their ids.

        Raises:
            InputError: an item is not there.
        """
        from replaydiff.cases.promote import find_item, person
        from replaydiff.cases.triage.decisions import Decisions

        with open_store(self._store, read_only=True) as con:
            items = [find_item(con, name, run_id(run)) for name in dict.fromkeys(ids)]
        decisions = Decisions(self._store, self._settings.golden_path, person(self._settings.root))
        for item in items:
            decisions.dismiss([item.item], item.run.id if item.run else None, reason)
        return [item.item.id for item in items]

    def push(
        self,
        run: RunName | None = None,
        *,
        dataset: str | None = None,
        cases: str | Path | None = None,
        mail: bool = False,
        platform: str = "langfuse",
        queue: str | None = None,
    ) -> PushResult:
        """Send the golden set, or with `run` what it replayed and its results, to a platform.

        Args:
            run: id of a run; without it the golden set is sent.
            dataset: name of the dataset; default `replay-PROJECT-` and the golden set's or sample's name.
            cases: the golden set's file.
            mail: send the mail addresses of reviewers, too.
            platform: its name, as in `replaydiff.cases.push.PLATFORMS`.
            queue: an annotation queue of Langfuse that gets what triage lists of the run; labels that people
                gave there are kept as sheets for `replay calibrate --labels`.

        Raises:
            CredentialsError: a key is not set.
            InputError: there is nothing to send, or no such platform.
        """
        from replaydiff.cases.push import PLATFORMS
        from replaydiff.cases.push.platform import connect, push
        from replaydiff.replay.api import golden
        from replaydiff.replay.api.diff import diff_of
        from replaydiff.replay.media import MediaFolder

        if queue is not None and run is None:
            raise InputError("--queue goes with a run: `replay push langfuse RUN --queue NAME`")
        store, settings = self._store, self._settings
        result = None if run is None else diff_of(store, settings, run_id(run)).result
        path = None if cases is None else Path(cases)
        # A run has copied what its cases refer to.
        media = MediaFolder.beside(store if result is not None else path or settings.golden_path)
        origin = golden.origin_of(settings, store, media, mail=mail)
        name, rows = golden.dataset_of(settings, result, dataset, path, origin)
        whole = result is None and (path is None or path.resolve() == settings.golden_path.resolve())
        labels = 0
        with (
            connect(platform, name) as opened,
            self._channel.status(f"sending to {PLATFORMS[platform].title}") as show_status,
        ):
            if queue is not None:
                golden.check_queue(opened, platform)
            project = origin.project if whole else None
            pushed = push(opened, rows, result, project=project, show_status=show_status)
            if queue is not None and result is not None and pushed.stopped is None:
                labels = golden.annotate(opened, queue, result, settings, store, pushed)
        return golden.PushResult(
            address=opened.address,
            dataset=name,
            run=result.run.id if result else None,
            pushed=pushed,
            platform=platform,
            labels=labels,
        )

    def pull(
        self,
        dataset: str | None = None,
        *,
        cases: str | Path | None = None,
        apply: bool = False,
        platform: str = "langfuse",
    ) -> tuple[str, list[DatasetChange]]:
        """Return the name of a platform's dataset, and what its users changed in the golden set it holds.

        Args:
            dataset: its name; default `replay-PROJECT-` and the golden set's name.
            cases: the golden set's file.
            apply: write the changes to the golden set; conflicts are left out.
            platform: `langfuse`, `phoenix` or `mlflow`.

        Raises:
            CredentialsError: a key is not set.
            UnavailableError: the server cannot be reached.
            InputError: the golden set is not there, or there is no such platform.
        """
        from replaydiff.cases.push import PLATFORMS
        from replaydiff.cases.push.platform import connect, pull
        from replaydiff.replay.api.golden import apply_changes, project_name

        golden, project = self.golden_set(cases), project_name(self._settings)
        name = dataset or f"replay-{project}-{golden.path.stem}"
        with connect(platform, name) as opened:
            changes = pull(opened, name, project, golden.cases())
        if apply:
            apply_changes(golden, changes, PLATFORMS[platform].title)
        return name, changes

    # The same without blocking the event loop.
    atriage = in_thread(triage)
    apromote = in_thread(promote)
    adismiss = in_thread(dismiss)
    apush = in_thread(push)
    apull = in_thread(pull)


def _promoted(decisions: Decisions, located: ItemInRun, proposal: Proposal, *, force: bool) -> Promotion:
    from replaydiff.cases.promote import drafts_of
    from replaydiff.replay.api.review import Promotion

    case = decisions.promote(located.item, proposal.case, force=force)
    return Promotion(case=case, expected_from=proposal.expected_from, drafts=tuple(drafts_of(case)))


def _judge(settings: Settings) -> Judge:
    from replaydiff.diff.judge.judge import judge_from

    judge = judge_from(settings)
    if judge is None:
        raise SettingsError("drafting traits asks the judge's model", hint="name one as `model` in [judge]")
    return judge


def _with_drafts(
    judge: Judge, located: ItemInRun, proposal: Proposal, store: Path, message: Callable[[str], None]
) -> Proposal:
    from replaydiff.cases.promote import draft, with_drafts
    from replaydiff.replay.media import MediaFolder

    media = MediaFolder.beside(store)
    drafts = draft(judge, located.item, located.trials, proposal.expected_from, media)
    cost = "" if drafts.cost_usd is None else f" for ${drafts.cost_usd:.4f}"
    message(f"{judge.model} drafted {len(drafts.traits)} traits of {located.item.id}{cost}")
    return replace(proposal, case=with_drafts(proposal.case, drafts.traits))
