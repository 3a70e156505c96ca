"""Traits drafted by the judge's model for a case to be. A draft counts for nothing until a person accepts it.

Drafts that nobody accepted yet stand in the case's metadata (`draft_traits`), where no grader looks; accepted
ones are `expected_response_traits`. The model is asked only where a person asks for drafts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from replaydiff.diff.judge import prompt
from replaydiff.replay.errors import InputError
from replaydiff.replay.event_loop import run_sync
from replaydiff.replay.llm.base import ModelFailure, ModelRequest, Stop
from replaydiff.replay.model import Case, Item, JsonObject, Lane, Message, Rule, ServedCall, Status, Trial

if TYPE_CHECKING:
    from replaydiff.diff.judge.judge import Judge

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
    """What the model drafted."""

    traits: tuple[str, ...]
    cost_usd: float | None
    """None where the model's price is not known."""


def draft(judge: Judge, item: Item, trials: Sequence[Trial], expect: str) -> Drafts:
    """Traits for an item, from the answer that the case is to be made of.

    `expect` is `recording` or a lane, as for `cases.promote.propose`.

    Raises:
        InputError: there is no answer to draft from, or the model gave nothing that can be used.
        ReplayError: no call to the model can succeed.
    """
    return run_sync(_draft(judge, item, _answered(item, trials, expect)))


def with_drafts(case: Case, traits: Sequence[str]) -> Case:
    """The case with traits that still wait for a person."""
    if not traits:
        return case
    extra: JsonObject = {**case.provenance.extra, KEY: list(traits)}
    return replace(case, provenance=replace(case.provenance, extra=extra))


def drafts_of(case: Case) -> tuple[str, ...]:
    """The traits of a case that still wait for a person."""
    found = case.provenance.extra.get(KEY)
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()


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


async def _draft(judge: Judge, item: Item, trial: Trial) -> Drafts:
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
            reply = await model.complete(request)
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
        found = json.loads(text)["traits"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
    if not isinstance(found, list):
        return ()
    traits = [" ".join(trait.split())[:_LONGEST] for trait in found if isinstance(trait, str)]
    return tuple(dict.fromkeys(trait for trait in traits if trait))[:MOST]
