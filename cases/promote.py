"""Turn an item of a run, or a trace, into a case.

What the case expects is proposed from the recording or a lane. Tokens that redaction left in it are named in
its metadata. The judge's model drafts traits where a person asks for them; a draft is kept in the metadata
(`draft_traits`), where no grader looks, until a person accepts it.
"""

from __future__ import annotations

import getpass
import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from replaydiff.cases.tapes import case_tape
from replaydiff.diff.judge import prompt
from replaydiff.diff.result import ItemVerdict, Verdict
from replaydiff.replay.agents.base import Rules
from replaydiff.replay.errors import InputError, UnknownNameError
from replaydiff.replay.event_loop import run_sync
from replaydiff.replay.golden import case_to_json
from replaydiff.replay.llm.attachments import MediaModel
from replaydiff.replay.llm.base import ModelFailure, ModelRequest, Stop
from replaydiff.replay.media import MediaFolder
from replaydiff.replay.model import (
    CORRECTION,
    FIRST_TURN,
    ORDER_UNKNOWN,
    Case,
    Expectation,
    ExpectedCall,
    Item,
    Json,
    JsonObject,
    Lane,
    Match,
    Message,
    Provenance,
    Rule,
    RunRecord,
    ServedCall,
    Status,
    ToolCall,
    Trial,
)
from replaydiff.replay.settings import Settings
from replaydiff.replay.tape import TapeRules

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from replaydiff.diff.judge.judge import Judge

RECORDING = "recording"
BETTER = "better"
"""The lane that did better, as far as the run shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A case, and where its expectation was taken from."""

    case: Case
    expected_from: str
    """`recording`, `old` or `new`."""


def better(item: ItemVerdict) -> str:
    """Return the lane whose tool calls to propose, or `recording`.

    The new lane if it improved; if it regressed, the old lane where its calls differ from the recording.
    """
    if item.verdict is Verdict.IMPROVED and str(Lane.NEW) in possible(item):
        return str(Lane.NEW)
    if item.verdict is Verdict.REGRESSED:
        good = [graded.trial for graded in item.lanes.get(Lane.OLD, ()) if graded.trial.status is Status.OK]
        old_calls = [(graded.call.name, graded.call.args) for graded in good[0].served] if good else None
        if old_calls is not None and old_calls != [(call.name, call.args) for call in item.item.tape]:
            return str(Lane.OLD)
    return RECORDING


def possible(item: ItemVerdict) -> list[str]:
    """Return whose tool calls a case can expect: the recording's, and each lane's that has a good trial."""
    return [
        RECORDING,
        *(
            str(lane)
            for lane in (Lane.OLD, Lane.NEW)
            if any(graded.trial.status is Status.OK for graded in item.lanes.get(lane, ()))
        ),
    ]


def propose(
    item: Item,
    *,
    case_id: str,
    reviewer: str,
    at: datetime,
    run: RunRecord | None = None,
    trials: tuple[Trial, ...] = (),
    expect: str = RECORDING,
    traits: tuple[str, ...] = (),
    tags: tuple[str, ...] = (),
) -> Proposal:
    """Return the case that an item would become.

    The expectation is the recording unless the person names a lane: what the new version did is never taken
    silently. Where somebody wrote down what the response should have been, that is the expected answer. The
    tape is the recording and, for a lane, the answers that lane got (`cases.tapes`).

    Raises:
        InputError: the lane has no trial that ended `ok`.
    """
    calls: tuple[ToolCall, ...] = item.tape
    tape = item.tape
    if expect != RECORDING:
        good = [trial for trial in trials if str(trial.lane) == expect and trial.status is Status.OK]
        if not good:
            raise InputError(
                f"item {item.id!r} has no trial of lane {expect} that ended ok",
                hint="leave --expect out to take the recording",
            )
        served = good[0].served
        calls = tuple(answered.call for answered in served)
        tape = case_tape(item.tape, served, rules_of_run(run))
    mode = "unordered" if expect == RECORDING and ORDER_UNKNOWN in item.metadata else Match().mode
    corrected = item.metadata.get(CORRECTION)
    answer = corrected if isinstance(corrected, str) and corrected else None
    expectation = Expectation(
        tool_calls=tuple(ExpectedCall(name=call.name, args=call.args) for call in calls),
        match=item.expectation.match if item.expectation else Match(mode=mode),
        response_traits=traits,
        answer=answer,
        tolerance="semantic_similar" if answer else None,
    )
    provenance = Provenance(
        source="replay promote",
        trace_id=item.trace_id,
        sample=run.sample if run else None,
        run=run.id if run else None,
        old=_version(run, Lane.OLD),
        new=_version(run, Lane.NEW),
        reviewer=reviewer,
        promoted_at=at.replace(microsecond=0),
        last_reviewed=at.date().isoformat(),
        extra={FIRST_TURN: item.metadata[FIRST_TURN]} if FIRST_TURN in item.metadata else {},
    )
    case = Case(
        id=case_id,
        input=item.input,
        messages=item.messages if len([m for m in item.messages if m.role != "system"]) > 1 else (),
        expectation=expectation,
        tape=tape,
        tags=tags,
        provenance=provenance,
    )
    return Proposal(case=case, expected_from=expect)


def rules_of_run(run: RunRecord | None) -> TapeRules:
    """Return what the tapes of a run knew about tools."""
    if run is None or "timeout" not in run.settings:
        return TapeRules()
    return Rules.from_json(run.settings).tape


def person(folder: Path) -> str:
    """Return Git's user of that folder, `Name <address>`, else the login name."""
    values = []
    for key in ("user.name", "user.email"):
        answer = subprocess.run(
            ["git", "-C", str(folder), "config", key], capture_output=True, text=True, check=False
        )
        values.append(answer.stdout.strip())
    name, address = values
    return f"{name} <{address}>" if name and address else name or address or getpass.getuser()


def _version(run: RunRecord | None, lane: Lane) -> Json:
    version = run.lanes.get(lane) if run else None
    if version is None:
        return None
    fields: dict[str, Json] = {"name": version.name, "commit": version.commit, "model": version.model}
    return {key: value for key, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemInRun:
    """An item, with the run it was found in and its trials there; without a run it is a plain trace."""

    item: Item
    run: RunRecord | None = None
    trials: tuple[Trial, ...] = ()


def find_item(con: DuckDBPyConnection, name: str, run_id: str | None) -> ItemInRun:
    """Return the item of the named run (else of the latest), or the conversation or trace of that id.

    Raises:
        UnknownNameError: neither is known.
    """
    from replaydiff.replay.engine.items import item_of_trace
    from replaydiff.replay.model import SampleItem
    from replaydiff.replay.store.conversations import get_conversation
    from replaydiff.replay.store.runs import get_item, get_run, latest_run
    from replaydiff.replay.store.traces import get_trace
    from replaydiff.replay.store.trials import trials_of

    run = get_run(con, run_id) if run_id else latest_run(con, finished=True) or latest_run(con)
    if run is not None:
        try:
            item = get_item(con, run.id, name)
        except UnknownNameError:
            if run_id:
                raise
        else:
            return ItemInRun(item=item, run=run, trials=tuple(trials_of(con, run.id, item.id)))
    trace = get_conversation(con, name) or get_trace(con, name)
    drawn = SampleItem(sample="", trace_id=trace.trace_id, position=0, stratum=trace.tool_path, weight=1.0)
    return ItemInRun(item=item_of_trace(trace, drawn))


def better_lane_of(con: DuckDBPyConnection, located: ItemInRun, settings: Settings) -> str:
    """Return the lane that did better on an item, or `recording`; see `better`."""
    from replaydiff.diff.compute import compute

    if located.run is None:
        return RECORDING
    items = compute(con, located.run.id, settings).items
    return next((better(item) for item in items if item.item.id == located.item.id), RECORDING)


REDACTED_KEY = "redacted"
"""The key of a case's metadata with token → kind of the redacted value."""
_REDACTION_TOKEN = re.compile(r"\[([A-Z][A-Z0-9_]*)_(\d+)\]")


def with_redactions(con: DuckDBPyConnection, case: Case) -> Case:
    """Return the case with its redaction tokens listed in its metadata; unchanged if it has none.

    Only tokens that this store has given out count. The values are nowhere: the store has only their hashes.
    """
    tokens_in_case = set(_REDACTION_TOKEN.findall(json.dumps(case_to_json(case), ensure_ascii=False)))
    if not tokens_in_case:
        return case
    stored_tokens = {
        (str(kind), str(number))
        for kind, number in con.execute("SELECT kind, number FROM redactions").fetchall()
    }
    tokens = {f"[{kind}_{number}]": kind for kind, number in sorted(tokens_in_case & stored_tokens)}
    if not tokens:
        return case
    provenance = replace(case.provenance, extra={**case.provenance.extra, REDACTED_KEY: dict(tokens)})
    return replace(case, provenance=provenance)


KEY = "draft_traits"
"""Of a case's metadata: traits that nobody accepted yet."""
MOST = 6
_LONGEST = 300
_INSTRUCTIONS = Path(__file__).with_name("drafting.md")
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"traits": {"type": "array", "items": {"type": "string"}}},
    "required": ["traits"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafts:
    """The traits that the model drafted."""

    traits: tuple[str, ...]
    cost_usd: float | None
    """None where the model's price is not known."""


def draft(judge: Judge, item: Item, trials: Sequence[Trial], expect: str, media: MediaFolder) -> Drafts:
    """Draft traits for an item from the answer that the case is made from.

    `expect` is `recording` or a lane, as for `cases.promote.propose`; the model is shown what of `media` the
    item refers to.

    Raises:
        InputError: there is no answer to draft from, or the model gave nothing that can be used.
        ReplayError: no call to the model can succeed.
    """
    return run_sync(_draft(judge, item, _answered(item, trials, expect), media))


def with_drafts(case: Case, traits: Sequence[str]) -> Case:
    """Return the case with traits that still wait for a person."""
    if not traits:
        return case
    extra: JsonObject = {**case.provenance.extra, KEY: list(traits)}
    return replace(case, provenance=replace(case.provenance, extra=extra))


def drafts_of(case: Case) -> tuple[str, ...]:
    """Return the traits of a case that still wait for a person."""
    traits = case.provenance.extra.get(KEY)
    return tuple(trait for trait in traits if isinstance(trait, str)) if isinstance(traits, list) else ()


def _answered(item: Item, trials: Sequence[Trial], expect: str) -> Trial:
    for trial in trials:
        if str(trial.lane) == expect and trial.status is Status.OK:
            return trial
    if item.recorded_response is None:
        raise InputError(
            f"item {item.id!r} has no answer to draft traits from", hint="write them with --trait"
        )
    served = tuple(ServedCall(call=call, rule=Rule.TAPE) for call in item.tape)
    return Trial(
        run_id="", item_id=item.id, lane=Lane.OLD, index=0, status=Status.OK,
        final_response=item.recorded_response, served=served,
    )  # fmt: skip


async def _draft(judge: Judge, item: Item, trial: Trial, media: MediaFolder) -> Drafts:
    shown = prompt.user_prompt(
        prompt.document(replace(item, expectation=None, recorded_response=None), trial)
    )
    request = ModelRequest(
        model=judge.model,
        system=_INSTRUCTIONS.read_text(encoding="utf-8").strip(),
        messages=(Message(role="user", text=shown),),
        max_tokens=judge.max_tokens,
        schema=_SCHEMA,
    )
    try:
        async with judge.connect() as model:
            reply = await MediaModel(model, media).complete(request)
    except ModelFailure as failure:
        raise InputError(
            f"no traits were drafted: {failure}", hint="try again, or write them with --trait"
        ) from None
    traits = _read(reply.text) if reply.stop is Stop.END else ()
    if not traits:
        raise InputError(f"{judge.model} drafted no traits that can be used", hint="write them with --trait")
    return Drafts(traits=traits, cost_usd=reply.cost_usd)


def _read(text: str) -> tuple[str, ...]:
    try:
        drafted = json.loads(text)["traits"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
    if not isinstance(drafted, list):
        return ()
    traits = [" ".join(trait.split())[:_LONGEST] for trait in drafted if isinstance(trait, str)]
    return tuple(dict.fromkeys(trait for trait in traits if trait))[:MOST]
