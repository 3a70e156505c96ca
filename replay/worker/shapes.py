"""The shapes of an agent: what an entrypoint may be, and how it is called. Its answer: see `replies`.

An entrypoint is a function, a class, an object, or (with `factory`) a function that gives an object. Of an
object, the first of its `METHODS` is called. All of them sync or async. The agent gets the item as

- the OpenAI-shaped list of messages, where it has a parameter `messages` that is its first or is required;
- `{"messages": […]}`, where it is an `invoke` or `ainvoke` (LangChain, LangGraph);
- else the user's text, as its first parameter; beside it, where a parameter names a session or thread
  (`reply(session_id, message)`), an id that all turns of a trial share and no other trial has.

`args` of the version go to the factory or class where that names them, else to the call. To support one more
kind of agent, add a function here.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from . import failures, kinds, replies

METHODS = ("run", "solve", "answer", "chat", "invoke", "ainvoke", "__call__")
STATE_METHODS = ("invoke", "ainvoke")
"""They take a state, of which the messages are a part."""


_THREAD = re.compile(r"(session|thread|conversation|chat)(_?id)?")
"""Parameters that name a conversation; one that is not required must end with `id`."""


class Unusable(failures.ReasonError):
    """The version can never run; the text is the reason in one sentence."""


class MissingError(Unusable):
    """A module, class or object has no attribute of this name."""


@dataclasses.dataclass
class Target:
    """An agent, and how to call it."""

    takes: str
    """`messages`, `text`, or `thread`: the text, and the id of a conversation that the agent keeps itself."""
    is_async: bool
    call: Callable[[dict[str, Any]], Any]
    """Calls the agent with a trial's message; gives its answer, or an awaitable of it."""
    signature: str = ""
    """What is called, for a person: `app.agent.run_agent(text, model='small')`."""


def import_module(name: str, what: str, setting: str) -> Any:
    """Import a module of the user's, which is called `what` and was named in `setting`.

    Raises:
        Unusable: with the error of the import and its place.
    """
    try:
        return importlib.import_module(name)
    except Unusable:
        raise
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            folder = os.getcwd()  # noqa: PTH109
            raise Unusable(
                f"the {what}'s module {name!r} is not in {folder}; check `{setting}` and `path`"
            ) from None
        raise Unusable(
            f"the {what}'s module {name!r} does not import: {failures.sentence(error)}; "
            f"{error.name} is not installed for {sys.executable}"
        ) from None
    except SystemExit as error:
        raise Unusable(f"importing {name!r} calls sys.exit({error.code!r}){failures.where(error)}") from None
    except BaseException as error:
        raise Unusable(f"the {what}'s module {name!r} does not import: {failures.sentence(error)}") from None


def attribute(owner: Any, name: str, path: str) -> Any:
    """Return an attribute of a module, class or object.

    Raises:
        MissingError: it is not there; names the nearest that is.
        Unusable: reading it fails.
    """
    try:
        return getattr(owner, name)
    except AttributeError:
        import difflib

        present = [present_name for present_name in dir(owner) if not present_name.startswith("__")]
        near = difflib.get_close_matches(name, present, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(present[:10]) or 'nothing'}"
        raise MissingError(f"{path} has no {name!r}; {hint}") from None
    except Exception as error:
        raise Unusable(f"reading {path}.{name} raises {failures.sentence(error)}") from None


def resolve(
    module: Any,
    entrypoint: str,
    factory: bool,
    args: dict[str, Any],
    wait: Callable[[Any], Any],
    prefers_async: Callable[[Any], bool],
) -> Target:
    """Return the agent that `module:attr[.attr…]` names.

    Args:
        module: in which it is.
        entrypoint: the whole name.
        factory: what is named makes the agent.
        args: of the version; those of the factory are taken out.
        wait: gives the value of an awaitable, for factories that are async.
        prefers_async: whether an object with both `invoke` and `ainvoke` must be awaited.

    Raises:
        Unusable: there is nothing of that name, or nothing that can be called as an agent.
    """
    path, _, attributes = entrypoint.partition(":")
    if not attributes:
        raise Unusable(f"the entrypoint {entrypoint!r} must be written `module:attr`")
    agent = module
    for name in attributes.split("."):
        owner, agent = agent, attribute(agent, name, path)
        path = f"{path}.{name}"
        if inspect.isclass(owner) and inspect.isfunction(inspect.getattr_static(owner, name)):
            agent = getattr(_construct(owner, path, args, wait), name)
    if factory or inspect.isclass(agent):
        agent = _construct(agent, path, args, wait)
    return _target(agent, path, args, prefers_async)


def _construct(make: Callable[..., Any], path: str, args: dict[str, Any], wait: Callable[[Any], Any]) -> Any:
    """Call a factory or class with those `args` that it names; they are taken out of `args`."""
    named = {name: args.pop(name) for name in _parameters(make) or () if name in args}
    try:
        agent = make(**named)
        return wait(agent) if inspect.isawaitable(agent) else agent
    except Unusable:
        raise
    except BaseException as error:
        raise Unusable(f"{path}() does not give an agent: {failures.sentence(error)}") from None


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    """Return the parameters of a callable; None where it does not tell."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None


def is_async(function: Any) -> bool:
    """Return whether calling something returns what must be awaited."""
    called = None if inspect.isroutine(function) else inspect.getattr_static(type(function), "__call__", None)
    return any(
        inspect.iscoroutinefunction(candidate) for candidate in (function, kinds.unwrapped(function), called)
    )


def _target(agent: Any, path: str, args: dict[str, Any], prefers_async: Callable[[Any], bool]) -> Target:
    call, name = agent, "__call__"
    if inspect.ismethod(agent) and agent.__name__ in STATE_METHODS:
        name = agent.__name__
    elif not inspect.isroutine(agent):
        name = next((name for name in METHODS if callable(getattr(agent, name, None))), "")
        if not name:
            raise Unusable(
                f"{path} is {replies.in_words(agent)} and cannot be called; "
                f"an agent is a function, or an object with {', '.join(METHODS[:-1])} or {METHODS[-1]}"
            )
        if name == "invoke" and callable(getattr(agent, "ainvoke", None)) and prefers_async(agent):
            name = "ainvoke"
        if name != "__call__":
            call, path = getattr(agent, name), f"{path}.{name}"
    parameters = _parameters(call)
    _refuse_unknown(args, parameters, path)
    awaits = is_async(call)
    if name in STATE_METHODS:
        target = Target("messages", awaits, lambda trial: call({"messages": trial["messages"]}, **args))
    elif parameters is None:
        target = Target("text", awaits, lambda trial: call(trial["input"], **args))
    else:
        target = _by_parameters(call, path, parameters, args, awaits)
    shown = ", ".join(map(str, parameters.values())) if parameters is not None else "…"
    # What a framework's method has besides is its own matter.
    shown = "messages" if name in STATE_METHODS else shown
    target.signature = f"{path}({shown[:200]})"
    return target


def _by_parameters(
    call: Callable[..., Any],
    path: str,
    parameters: Mapping[str, inspect.Parameter],
    args: dict[str, Any],
    awaits: bool,
) -> Target:
    open_ = [
        parameter
        for parameter in parameters.values()
        if parameter.name not in args and parameter.kind is not parameter.VAR_KEYWORD
    ]
    if not open_:
        raise Unusable(f"{path}() has no parameter for the user's message")
    thread = next((candidate for candidate in open_ if len(open_) > 1 and _names_thread(candidate)), None)
    open_ = [candidate for candidate in open_ if candidate is not thread]
    first, messages = open_[0], next((candidate for candidate in open_ if candidate.name == "messages"), None)
    if messages is not None and (messages is first or messages.default is messages.empty):
        takes, field, chosen = "messages", "messages", messages
    else:
        takes, field, chosen = "text", "input", first
    missing = [
        candidate.name
        for candidate in open_
        if candidate is not chosen
        and candidate.default is candidate.empty
        and candidate.kind is not candidate.VAR_POSITIONAL
    ]
    if missing:
        raise Unusable(
            f"{path}() also needs {', '.join(missing)}; give them as args of the version, "
            "or name an entrypoint that needs the user's message alone"
        )
    if thread is not None and (takes == "text" or thread.default is thread.empty):
        return Target(
            "thread" if takes == "text" else takes,
            awaits,
            functools.partial(_call_in_thread, call, {chosen.name: field, thread.name: "thread"}, args),
        )
    leads = chosen is next(iter(parameters.values())) and chosen.kind is not chosen.KEYWORD_ONLY
    if leads or chosen.kind in (chosen.POSITIONAL_ONLY, chosen.VAR_POSITIONAL):
        return Target(takes, awaits, lambda trial: call(trial[field], **args))
    return Target(takes, awaits, lambda trial: call(**{chosen.name: trial[field]}, **args))


def _call_in_thread(
    call: Callable[..., Any], fields: dict[str, str], args: dict[str, Any], trial: dict[str, Any]
) -> Any:
    return call(**{name: trial[field] for name, field in fields.items()}, **args)


def _names_thread(parameter: inspect.Parameter) -> bool:
    match = _THREAD.fullmatch(parameter.name)
    by_name = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    return match is not None and by_name and bool(parameter.default is parameter.empty or match[2])


def _refuse_unknown(
    args: dict[str, Any], parameters: Mapping[str, inspect.Parameter] | None, path: str
) -> None:
    if parameters is None or any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
    ):
        return
    names = [
        parameter.name
        for parameter in parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    for name in args:
        if name not in names:
            raise Unusable(f"{path}() takes no argument {name!r}; it takes {', '.join(names) or 'none'}")
