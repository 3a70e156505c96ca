"""A run from its first trial to its last, in one process or in several.

`execute` begins a run, `resume` goes on with one that was interrupted, killed or stopped by its budget. Both
find out whether anything can run at all before they store anything: versions resolve, traces pair, agents
start. Then trials are handed out block by block to as many tasks as may be in flight, and each one is in the
journal before the next is begun in its place.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from replaydiff.replay.agents import Outcome
from replaydiff.replay.clock import utc_now
from replaydiff.replay.engine import observed, plan
from replaydiff.replay.engine.conversation import converse
from replaydiff.replay.engine.costs import cost_of
from replaydiff.replay.engine.forecast import Forecast, forecast
from replaydiff.replay.engine.items import Source
from replaydiff.replay.engine.journal import Journal
from replaydiff.replay.engine.observed import Pairing
from replaydiff.replay.engine.probe import Probe, UncontainedError
from replaydiff.replay.engine.recordings import recorded_run
from replaydiff.replay.engine.report import Progress, RunReport
from replaydiff.replay.engine.schedule import Pace, provider_of
from replaydiff.replay.engine.starting import crew_of, rules_of, start_crew
from replaydiff.replay.engine.tally import Tally
from replaydiff.replay.engine.versions import changes, resolve
from replaydiff.replay.errors import InputError, Interrupted, StoreWriteError, VersionError
from replaydiff.replay.event_loop import run_sync
from replaydiff.replay.llm import prices
from replaydiff.replay.model import Item, JsonObject, Lane, Mode, RunRecord, Status, Version, VersionKind
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.connection import explained, give_back, open_store, settle
from replaydiff.replay.store.model_calls import count_model_calls
from replaydiff.replay.store.runs import (
    create_run,
    delete_run,
    finish_run,
    first_items,
    get_run,
    iter_items,
    latest_run,
)
from replaydiff.replay.store.trials import (
    count_statuses,
    finished_keys,
    spent_tokens,
    spent_usd,
    unasked_tools,
    unpatched_calls,
    write_trials,
)
from replaydiff.replay.version import VERSION

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_log = logging.getLogger(__name__)
FIRST_ITEMS = 10
"""The most items of which trials are replayed before the rest, to see that the lanes are contained."""
_BATCH = 200
"""Items that are read at a time while a run is written down."""
_SETTLE_AFTER = 5000
"""Items after which the store is made to let go of what it holds in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Who is told while a run goes on."""

    announce: Callable[[str], None] = lambda _: None
    """Gets sentences a person should read at once."""
    progress: Callable[[Progress], None] = lambda _: None
    """Told after every trial."""
    judged: bool = False
    """A judge will grade the trials, which is part of what the run will cost."""


def execute(
    store: Path,
    source: Source,
    lanes: Mapping[Lane, Version],
    settings: Settings,
    *,
    mode: Mode = Mode.ROLLOUT,
    pair_by: str | None = None,
    hooks: Hooks | None = None,
) -> RunReport:
    """Replay a source's items in their lanes, as `settings.run` says.

    Args:
        store: path of the store.
        source: the items.
        lanes: the versions, resolved.
        settings: how to run; flags laid over them.
        mode: what is replayed of an item; the source and the lanes must be of that mode.
        pair_by: the field that pairs the traces of observed lanes with items.
        hooks: who is told.

    Raises:
        VersionError: a version does not start. Nothing was stored.
        InputError: there is nothing to replay, or an observed lane has no trace. Nothing was stored.
        StoreError: the store cannot be used.
        Interrupted: by a signal. What had finished is kept, and `resume` goes on.
    """
    drawn = len(source.ids())
    source, pairings = _pair(store, source, lanes, pair_by)
    rules = rules_of(settings)
    if settings.run.replay_model is not None:
        rules["replay_model"] = recorded_run(store, settings.run.replay_model)
    run = RunRecord(
        id=f"{utc_now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
        created_at=utc_now(),
        lanes=dict(lanes),
        trials=settings.run.trials,
        seed=settings.run.seed,
        sample=source.sample,
        golden_path=source.golden_path,
        mode=mode,
        budget_usd=settings.run.budget,
        max_tokens=settings.run.max_tokens,
        settings={
            **rules,
            "concurrency": settings.run.concurrency,
            "retries": settings.run.retries,
            "pair_by": pair_by,
            "merged": drawn - len(source.ids()),
            "observed": {str(lane): _counted(source, pairing) for lane, pairing in pairings.items()},
            "replaydiff": VERSION,
            **({} if source.golden_path is None else {"cases": _held_against(settings)}),
        },
    )
    if len(pairings) == len(lanes):
        run = replace(run, trials=max(pairing.most for pairing in pairings.values()))

    def write_down(con: DuckDBPyConnection, run: RunRecord) -> None:
        source.keep(con)
        create_run(con, run, _items(con, run, source, pairings))

    return _go(_Batch(store, run, settings, rules, hooks or Hooks()), write_down)


def _held_against(settings: Settings) -> JsonObject:
    """What a check of the cases needs to say the same tomorrow, whatever the settings are then."""
    cases = settings.cases
    return {
        "threshold": cases.threshold,
        "thresholds": dict(cases.thresholds),
        "case_threshold": cases.case_threshold,
    }


def resume(store: Path, run_id: str | None, settings: Settings, *, hooks: Hooks | None = None) -> RunReport:
    """Go on with a run: what has not finished is replayed, under the rules the run began with.

    Args:
        store: path of the store.
        run_id: the run, or a unique beginning of its id; None for the latest that has not finished.
        settings: concurrency, retries, budget and max_tokens count; the last two are the run's own where
            they are None.
        hooks: who is told.

    Raises:
        UnknownNameError: there is no such run.
        InputError: no run is unfinished.
        VersionError: a version is no longer what it was, or does not start.
        StoreError: the store cannot be used.
        Interrupted: once more.
    """
    with open_store(store, read_only=True) as con:
        run = latest_run(con, unfinished=True) if run_id is None else get_run(con, run_id)
    if run is None:
        raise InputError("there is no unfinished run to resume; `replay run` starts one")
    if run.finished_at is None:
        run = replace(run, lanes=_as_before(run, settings))
    if settings.run.budget is not None:
        run = replace(run, budget_usd=settings.run.budget)
    if settings.run.max_tokens is not None:
        run = replace(run, max_tokens=settings.run.max_tokens)
    return _go(_Batch(store, run, settings, run.settings, hooks or Hooks()), None)


def _go(batch: _Batch, write_down: Callable[[DuckDBPyConnection, RunRecord], None] | None) -> RunReport:
    import duckdb

    try:
        return run_sync(batch.go(write_down))
    except KeyboardInterrupt:
        if not batch.stored:
            raise Interrupted("interrupted before anything was replayed; nothing was stored") from None
        raise Interrupted(
            f"interrupted; what had finished is kept: go on with `replay run --resume {batch.run.id}`"
        ) from None
    except duckdb.Error as error:
        if explained(error) is None:
            raise
        reason = str(error).splitlines()[0]
        raise StoreWriteError(
            f"the store {batch.store} cannot be written: {reason}; no finished trial is lost",
            hint=f"correct that, then `replay run --resume {batch.run.id}`",
        ) from error


class _Ended(NamedTuple):
    """A trial that has ended."""

    item: Item
    slot: plan.Slot
    outcome: Outcome
    tries: int


class _Batch:
    """One process's part of a run."""

    def __init__(
        self, store: Path, run: RunRecord, settings: Settings, rules: JsonObject, hooks: Hooks
    ) -> None:
        self.store, self.run = store, run
        self.stored = False
        """The run is in the store."""
        self._settings, self._hooks = settings, hooks
        self._crew = crew_of(run, settings, rules)
        self._free = self._crew.gateway is not None and self._crew.gateway.replays
        """No model is asked: what trials cost was paid when they were recorded."""
        self._replayed = list(self._crew.agents)
        shared: dict[str, Pace] = {}
        self._paces = {
            lane: shared.setdefault(
                provider_of(run.lanes[lane]),
                Pace(limit=settings.run.concurrency, per_minute=settings.run.per_minute),
            )
            for lane in self._replayed
        }
        self._finished: set[tuple[str, str, int]] = set()
        self._done = self._total = self._failed = self._unpriced = self._uncounted = self._tokens = 0
        self._spent = 0.0
        self._running = 0
        self._is_new = False
        """The run was begun by this process."""
        self._opened: dict[str, Item] = {}
        """Items of which a trial was replayed before the lanes were known to be contained."""
        self._forecast: Forecast | None = None

    async def go(self, write_down: Callable[[DuckDBPyConnection, RunRecord], None] | None) -> RunReport:
        """Start the agents, write the run down if it is new, and replay what is missing."""
        try:
            if self.run.finished_at is None:
                await start_crew(self._crew)
                for note in self._crew.notes:
                    self._hooks.announce(note)
                self.run = replace(self.run, lanes=self._crew.lanes)
            with open_store(self.store) as con:
                give_back(con)
                self._crew.corpus.open(con)
                if self._crew.gateway is not None:
                    self._crew.gateway.open(con)
                if write_down is not None:
                    write_down(con, self.run)
                    self._is_new = True
                self.stored = True
                if self.run.finished_at is None:
                    await self._replay(con)
                return self._report(con)
        finally:
            await self._crew.close()

    async def _replay(self, con: DuckDBPyConnection) -> None:
        """Every missing trial, block by block, until nothing is missing or the budget is spent."""
        with (
            closing(Journal(self.store, self.run.id, con)) as journal,
            closing(Tally(self.store, self.run.id)) as tally,
        ):
            self._count(con)
            tally.tell(self._progress)
            try:
                await self._replay_first(con, journal, tally)
                # Drawn from by a fixed set of tasks: a task a trial would cost more than all else here.
                slots = self._slots(con)
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self._settings.run.concurrency, self._total - self._done)):
                        group.create_task(self._work(slots, journal, tally))
            except BaseExceptionGroup as failures:
                raise _first(failures) from None
        if self._done == self._total:
            at = utc_now()
            finish_run(con, self.run.id, at)
            self.run = replace(self.run, finished_at=at)

    def _count(self, con: DuckDBPyConnection) -> None:
        """What there is to do, and what an earlier process has done."""
        [(items,)] = con.execute("SELECT count(*) FROM run_items WHERE run_id = ?", [self.run.id]).fetchall()
        lanes = {str(lane) for lane in self._replayed}
        self._finished = {key for key in finished_keys(con, self.run.id) if key[1] in lanes}
        self._spent = spent_usd(con, self.run.id, self._replayed) or 0.0
        self._tokens = spent_tokens(con, self.run.id, self._replayed)
        self._total = items * len(self._replayed) * self.run.trials
        self._done = len(self._finished)
        foretold = forecast(
            con,
            self.run,
            () if self._free else self._replayed,
            self._finished,
            self._settings,
            judged=self._hooks.judged,
        )
        if foretold.trials or foretold.votes:
            self._forecast = foretold
        if self._replayed:
            self._tell_what_runs(items)
        if self._forecast is not None:
            self._hooks.announce(self._forecast.sentence())

    def _tell_what_runs(self, items: int) -> None:
        self._hooks.announce(
            f"run {self.run.id}: {items} items, {' and '.join(str(lane) for lane in self._replayed)}, "
            f"{self.run.trials} trial{'s' * (self.run.trials > 1)} each"
            + (f"; {self._done} of {self._total} trials are there" if self._done else "")
        )
        if self.run.budget_usd is not None:
            for model in sorted({v.model for v in self.run.lanes.values() if v.model}):
                if doubt := prices.doubt(model, self._settings.prices):
                    self._hooks.announce(f"note: {doubt}")

    async def _replay_first(self, con: DuckDBPyConnection, journal: Journal, tally: Tally) -> None:
        """Replay trials of each lane one at a time until it has shown what it must: see `probe`.

        Items with recorded tool calls come first; the blocks that this begins are the first that are ended.

        Raises:
            UncontainedError: real tools may have run. A new run is removed from the store.
            RepeatedFailureError: the lane's trials fail in one way; they are not kept.
        """
        some_have_tools = any(self.run.lanes[lane].tools for lane in self._replayed)
        items = first_items(con, self.run.id, FIRST_ITEMS, recorded_calls_first=some_have_tools)
        self._probe = Probe(
            self.run.id,
            {lane: self.run.lanes[lane] for lane in self._replayed},
            items=len(items),
            live=self._crew.live,
        )
        for lane in () if self._is_new else self._replayed:
            self._probe.check_earlier(lane, unpatched_calls(con, self.run.id, lane))
        opened: dict[Lane, list[_Ended]] = {lane: [] for lane in self._replayed}
        room = asyncio.Semaphore(self._settings.run.concurrency)

        async def replay(item: Item, slot: plan.Slot) -> None:
            async with room:
                ended = await self._ended(item, slot)
            if ended is None:
                return
            self._opened[item.id] = item
            failures = opened[slot.lane]
            failures.append(ended)
            left = self._total // len(self._replayed) - self._count_finished(slot.lane) - len(failures)
            self._probe.add(slot.lane, item, ended.outcome, is_last=left == 0)
            if self._probe.is_varied(slot.lane):
                # Trials that all fail alike are kept once it is known that others do not.
                for one in failures:
                    self._keep(one, journal, tally)
                failures.clear()

        try:
            for item, slots in self._rounds(items):
                waiting = [slot for slot in slots if not self._probe.is_passed(slot.lane)]
                if self._is_spent or all(self._probe.is_passed(lane) for lane in self._replayed):
                    break
                async with asyncio.TaskGroup() as group:
                    for slot in waiting:
                        group.create_task(replay(item, slot))
        except* UncontainedError:
            if self._is_new:
                journal.drain()
                delete_run(con, self.run.id)
            raise
        for failures in opened.values():
            for one in failures:
                self._keep(one, journal, tally)

    def _rounds(self, items: Sequence[Item]) -> Iterator[tuple[Item, list[plan.Slot]]]:
        """A missing trial of each lane for each item, then the next one of each, until none is missing."""
        left = {item.id: self._missing(item) for item in items}
        while any(left.values()):
            for item in items:
                slots = {slot.lane: slot for slot in reversed(left[item.id])}
                left[item.id] = [slot for slot in left[item.id] if slots[slot.lane] is not slot]
                if slots:
                    yield item, list(slots.values())

    def _count_finished(self, lane: Lane) -> int:
        return sum(key[1] == lane for key in self._finished)

    def _missing(self, item: Item) -> list[plan.Slot]:
        """The trials of an item's block that have not finished, in their order."""
        block = plan.block(item.id, self._replayed, self.run.trials, self.run.seed)
        return [slot for slot in block if (item.id, str(slot.lane), slot.trial) not in self._finished]

    def _slots(self, con: DuckDBPyConnection) -> Iterator[tuple[Item, plan.Slot]]:
        """What is to be replayed, in order. Once the budget or the tokens are spent, no block begins."""
        for item in self._opened.values():
            for slot in self._missing(item):
                yield item, slot
        for item in iter_items(con, self.run.id):
            missing = [] if item.id in self._opened else self._missing(item)
            if missing and self._is_spent:
                return
            for slot in missing:
                yield item, slot

    @property
    def _is_spent(self) -> bool:
        budget, most = self.run.budget_usd, self.run.max_tokens
        if self._free:
            return False
        return (budget is not None and self._spent >= budget) or (most is not None and self._tokens >= most)

    async def _work(self, slots: Iterator[tuple[Item, plan.Slot]], journal: Journal, tally: Tally) -> None:
        for item, slot in slots:
            ended = await self._ended(item, slot)
            if ended is not None:
                self._keep(ended, journal, tally)
                self._probe.add(slot.lane, item, ended.outcome)

    async def _ended(self, item: Item, slot: plan.Slot) -> _Ended | None:
        """Replay a trial; None where it was cancelled."""
        self._running += 1
        try:
            outcome, tries = await self._tried(item, slot)
        finally:
            self._running -= 1
        return None if outcome.status is Status.CANCELLED else _Ended(item, slot, outcome, tries)

    def _keep(self, ended: _Ended, journal: Journal, tally: Tally) -> None:
        """Keep a trial, and count what it took."""
        item, slot, outcome = ended.item, ended.slot, ended.outcome
        known = cost_of(self.run.lanes[slot.lane], outcome, self._settings.prices)
        # What tools cost that a model played comes on top.
        cost = outcome.simulation_usd or None if known is None else known + outcome.simulation_usd
        journal.add(
            outcome.trial(self.run.id, item.id, slot.lane, slot.trial, cost_usd=cost, attempts=ended.tries),
            outcome.model_calls,
        )
        _log.info(
            "%s, %s trial %d: %s in %.0f ms%s",
            item.id,
            str(slot.lane),
            slot.trial + 1,
            outcome.status.value,
            outcome.latency_ms or 0.0,
            f": {outcome.reason}" if outcome.reason else "",
        )
        self._finished.add((item.id, str(slot.lane), slot.trial))
        self._done += 1
        self._failed += outcome.status.is_error
        self._unpriced += known is None
        self._spent += cost or 0.0
        if outcome.usage is None:
            self._uncounted += 1
        else:
            self._tokens += outcome.usage.input_tokens + outcome.usage.output_tokens
        progress = self._progress
        tally.tell(progress)
        self._hooks.progress(progress)

    @property
    def _progress(self) -> Progress:
        return Progress(
            done=self._done,
            total=self._total,
            failed=self._failed,
            spent_usd=self._spent,
            running=self._running,
            tokens=self._tokens,
        )

    async def _tried(self, item: Item, slot: plan.Slot) -> tuple[Outcome, int]:
        """One trial, tried again where the provider or the network failed; with how often it was tried."""
        agent, pace, tries = self._crew.agents[slot.lane], self._paces[slot.lane], 0
        # A recorded decision is asked as it stands.
        run = agent.run if self.run.mode is Mode.STEP else partial(converse, agent)
        gateway = self._crew.gateway
        while True:
            line = None if gateway is None else gateway.line(item.id, slot.lane, slot.trial)
            async with pace.turn():
                outcome = await run(item, slot.trial, line)
            if line is not None:
                outcome = line.told(outcome, take_calls=not self.run.lanes[slot.lane].tools)
            tries += 1
            pace.went(outcome)
            is_final = outcome.status is not Status.INFRA_ERROR or tries > self._settings.run.retries
            # What looks like a failure of the network may be a real tool that ran in vain.
            if is_final or outcome.unpatched:
                return outcome, tries
            rest = pace.rest(outcome, tries)
            _log.info(
                "%s, %s trial %d: %s; try %d in %.1f s",
                item.id,
                str(slot.lane),
                slot.trial + 1,
                outcome.reason,
                tries + 1,
                rest,
            )
            await asyncio.sleep(rest)

    def _report(self, con: DuckDBPyConnection) -> RunReport:
        return RunReport(
            run=self.run,
            statuses=count_statuses(con, self.run.id),
            cost_usd=spent_usd(con, self.run.id, self._replayed),
            missing=self._total - self._done,
            unpriced=self._unpriced,
            tokens=spent_tokens(con, self.run.id, self._replayed),
            uncounted=self._uncounted,
            forecast=self._forecast,
            unasked=self._unasked(con),
            recorded=count_model_calls(con, self.run.id) if self.run.settings.get("record") else None,
        )

    def _unasked(self, con: DuckDBPyConnection) -> dict[Lane, dict[str, int]]:
        """The tools that write and were never called, by lane, where calls of tools are answered at all."""
        tools: Any = self.run.settings.get("tools") or {}
        writing = [name for name, tool in tools.items() if tool["effect"] == "write"]
        lanes = [lane for lane in self._replayed if self.run.lanes[lane].tools] if writing else []
        found = {lane: unasked_tools(con, self.run.id, lane, writing) for lane in lanes}
        return {lane: counts for lane, counts in found.items() if counts}


def _pair(
    store: Path, source: Source, lanes: Mapping[Lane, Version], pair_by: str | None
) -> tuple[Source, dict[Lane, Pairing]]:
    """The items, one for each value that pairs them, and the traces of the observed lanes.

    Opens the store to read, which also says early if it is in use.
    """
    recorded = {lane: version for lane, version in lanes.items() if version.kind is VersionKind.OBSERVED}
    if not recorded:
        if pair_by is not None:
            raise InputError("--pair-by pairs recorded traces with items, and no version here is observed")
        if not store.exists():
            return source, {}
    with open_store(store, read_only=True) as con:
        if pair_by is not None and any(version.condition is not None for version in recorded.values()):
            source = source.merged(con, pair_by)
        return source, {
            lane: observed.pair(con, version, source, pair_by) for lane, version in recorded.items()
        }


def _counted(source: Source, pairing: Pairing) -> JsonObject:
    return {
        "traces": pairing.matched,
        "unpaired": pairing.unpaired,
        "items_without_trace": len(source.ids()) - len(pairing.traces),
    }


def _items(
    con: DuckDBPyConnection, run: RunRecord, source: Source, pairings: Mapping[Lane, Pairing]
) -> Iterator[Item]:
    """A run's items in the order of their blocks.

    The trials of observed lanes are written while the items are read. A run can be seen in the store only
    once all its items are there, so whoever sees it finds its observed lanes whole.
    """
    ids = plan.order(source.ids(), run.seed)
    for start in range(0, len(ids), _BATCH):
        batch = ids[start : start + _BATCH]
        if start % _SETTLE_AFTER == 0 and start:
            settle(con)
        for lane, pairing in pairings.items():
            write_trials(con, observed.trials(con, run.id, lane, pairing, batch, source.recorded))
        yield from source.read(con, batch)


def _as_before(run: RunRecord, settings: Settings) -> dict[Lane, Version]:
    """The lanes' versions, resolved anew; the environment comes from now, since none is stored."""
    lanes = dict(run.lanes)
    for lane, stored in run.lanes.items():
        if stored.kind is VersionKind.OBSERVED:
            continue
        now = resolve(stored.name, settings, run.mode)
        if differing := changes(stored, now):
            raise VersionError(
                f"version {stored.name!r} is not what run {run.id} began with ({', '.join(differing)} "
                "changed); put it back to resume, or start a new run"
            )
        lanes[lane] = replace(stored, env=now.env)
    return lanes


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure of a group that is none itself."""
    found: Sequence[BaseException] = failures.exceptions
    return _first(found[0]) if isinstance(found[0], BaseExceptionGroup) else found[0]
