"""Runs with trials to grade, and a model that answers as it is told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from replaydiff.diff.judge import prompt
from replaydiff.diff.judge.judge import Judge
from replaydiff.replay.agents.base import Rules
from replaydiff.replay.llm.base import Model, ModelFailure, ModelReply, ModelRequest, Stop
from replaydiff.replay.model import (
    Expectation,
    Item,
    JudgeId,
    Lane,
    Message,
    Rule,
    RunRecord,
    ServedCall,
    Status,
    ToolCall,
    Trial,
    Usage,
    Version,
    VersionKind,
)
from replaydiff.replay.store.runs import create_run
from replaydiff.replay.store.trials import write_trials
from tests.stand_ins.stores import open_for_writing

RUN = "20261120-120000-abcd"
AT = datetime(2026, 11, 20, 12)


def item(number: int = 0, **changes: object) -> Item:
    fields = {
        "id": f"t-{number:03d}",
        "input": f"Where is order {number}?",
        "recorded_response": "It has shipped.",
    }
    return Item(**{**fields, **changes})  # type: ignore[arg-type]


def trial(item: Item, lane: Lane = Lane.OLD, index: int = 0, **changes: object) -> Trial:
    call = ToolCall(name="look_up", args={"id": item.id}, result='{"status": "shipped"}')
    fields = {
        "status": Status.OK,
        "final_response": "It is on its way.",
        "served": (ServedCall(call=call, rule=Rule.TAPE),),
    }
    return Trial(
        run_id=RUN,
        item_id=item.id,
        lane=lane,
        index=index,
        **{**fields, **changes},  # type: ignore[arg-type]
    )


def store(
    path: Path,
    items: Sequence[Item],
    trials: Sequence[Trial],
    model: str = "claude-haiku-5-5",
    kind: VersionKind = VersionKind.PYTHON,
) -> Path:
    versions = {
        lane: Version(name=str(lane), kind=kind, args={"model": model})
        for lane in dict.fromkeys((Lane.OLD, Lane.NEW, Lane.OLD2, *(one.lane for one in trials)))
    }
    rules = Rules(timeout_s=60).to_json()
    run = RunRecord(id=RUN, created_at=AT, lanes=versions, trials=1, seed=0, sample="s", settings=rules)
    with open_for_writing(path) as con:
        create_run(con, run, items)
        write_trials(con, trials)
    return path


Answer = str | Stop | ModelFailure | Exception


class Scripted:
    """A `Model` that answers what `say` makes of a request."""

    def __init__(self, say: Callable[[ModelRequest], Answer], cost: float | None = 0.01) -> None:
        self.asked: list[ModelRequest] = []
        self._say, self._cost = say, cost

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        said = self._say(request)
        if isinstance(said, Exception):
            raise said
        text, stop = ("", said) if isinstance(said, Stop) else (said, Stop.END)
        return ModelReply(text=text, stop=stop, usage=Usage(), cost_usd=self._cost)


def points(score: object, reasoning: str = "So it is.") -> str:
    return json.dumps({"reasoning": reasoning, "score": score})


def judge(model: Model, **changes: object) -> Judge:
    @asynccontextmanager
    async def connect() -> AsyncIterator[Model]:
        yield model

    rubric = "3 is good."
    fields = {
        "id": JudgeId(model="claude-opus-5-5", prompt_hash="p", rubric_hash=prompt.digest(rubric)),
        "model": "claude-opus-5-5",
        "rubric": rubric,
        "user_rubric": False,
        "votes": 3,
        "max_tokens": 100,
        "concurrency": 4,
        "connect": connect,
    }
    return Judge(**{**fields, **changes})  # type: ignore[arg-type]


__all__ = ["RUN", "Expectation", "Message", "Scripted", "item", "judge", "points", "store", "trial"]
