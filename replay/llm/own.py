"""A provider of the user's own: one function or method, `complete_json(*, model, prompt) -> str`.

It is named as `./file.py:attr`, `module:attr`, or by an entry point of the group `replaydiff.judges`, and is
either that function itself, or a class (or a function without parameters) that gives an object with such a
method. It may be async. One prompt holds everything, the schema of the answer included. What it raises is
the failure of one call; how often to try, and what it costs, is its own affair.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from replaydiff.replay.errors import SettingsError, UnknownNameError
from replaydiff.replay.functions import load_function
from replaydiff.replay.llm.base import ModelFailure, ModelReply, ModelRequest, Stop, bare, with_schema
from replaydiff.replay.model import Message, Usage

GROUP = "replaydiff.judges"
"""Entry points of this group are providers of other packages, used where the settings name them."""
METHOD = "complete_json"


class JudgeProvider(Protocol):
    """What a provider of the user's own looks like; `complete_json` may also be `async def`."""

    def complete_json(self, *, model: str, prompt: str) -> str:
        """Return the text of a JSON object as `prompt` describes it; raise if there is no response.

        Args:
            model: `[judge] model`, as the user wrote it.
            prompt: instructions, rubric, the schema of the answer, and the judged material.
        """
        ...


def load(target: str, root: Path, what: str, parameters: tuple[str, ...]) -> Callable[..., Any]:
    """Return the method of the provider of that name; `what` names the setting in errors, `parameters` the
    built-in ones.

    Raises:
        SettingsError: it cannot be loaded, or is none.
        UnknownNameError: there is no entry point of that name.
    """
    if ":" not in target:
        from importlib.metadata import entry_points

        strangers = {entry.name: entry.value for entry in entry_points(group=GROUP)}
        if target not in strangers:
            raise UnknownNameError("provider", target, (*parameters, *strangers), f"of {what}")
        target = strangers[target]
    function = load_function(target, root, what)
    if _asks(function):
        return function
    try:
        method = getattr(function(), METHOD, None)
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        raise SettingsError(f"{what} = {target!r} cannot be made: {type(error).__name__}: {error}") from None
    if method is None or not _asks(method):
        raise SettingsError(
            f"{what} = {target!r} is not a provider: it must be {METHOD}(*, model, prompt), or return an "
            "object that has it"
        )
    return method  # type: ignore[no-any-return]


def _asks(function: Any) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return callable(function) and not inspect.isclass(function) and {"model", "prompt"} <= parameters.keys()


@asynccontextmanager
async def connect(method: Callable[..., Any]) -> AsyncIterator[OwnModel]:
    """Open the provider."""
    yield OwnModel(method)


class OwnModel:
    """`Model` over a method of the user's."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask once; see `Model.complete`. What it costs is not known."""
        from asyncio import to_thread

        system = request.system if request.schema is None else with_schema(request.system, request.schema)
        if any(isinstance(turn, Message) and turn.parts is not None for turn in request.messages):
            raise ModelFailure("a provider of your own gets text, and this has media", passing=False)
        turns = [turn.text for turn in request.messages if isinstance(turn, Message)]
        prompt = "\n\n".join([system, *turns])
        try:
            if inspect.iscoroutinefunction(self._method):
                text = await self._method(model=request.model, prompt=prompt)
            else:
                text = await to_thread(self._method, model=request.model, prompt=prompt)
        except Exception as error:  # noqa: BLE001 - whatever the user's code does, it is this call's failure
            raise ModelFailure(f"the provider failed: {type(error).__name__}: {error}") from None
        if not isinstance(text, str):
            raise ModelFailure(
                f"the provider gave {type(text).__name__} and not the text of an answer", passing=False
            )
        return ModelReply(text=bare(text), stop=Stop.END, usage=Usage(), cost_usd=None)
