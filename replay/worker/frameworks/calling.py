"""A tool call as a framework makes it, and the error that its recording holds."""

from __future__ import annotations

import builtins
import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from .. import calls, trampoline

_ERROR_TEXT = re.compile(r"(\w+)(?:\((['\"])(.*)\2,?\)|: (.*))", re.DOTALL)


class RecordedError(Exception):
    """A recorded error, with its recorded text."""

    def __init__(self, text: str) -> None:
        matched_text = _ERROR_TEXT.fullmatch(text)
        self.text = text
        self.message: str = (
            (matched_text[3] or matched_text[4] or "")
            if matched_text and _error_class(matched_text[1])
            else text
        )
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        return self.text


def recorded_error(text: str, otherwise: type[Exception] = Exception) -> Exception:
    """Return the exception that a tool raises for a recorded error.

    Args:
        text: the recorded error, such as `ValueError('no such order')` or `no such order`.
        otherwise: the class of an error whose text names no built-in class.
    """
    matched_text = _ERROR_TEXT.fullmatch(text)
    base = (_error_class(matched_text[1]) if matched_text else None) or otherwise
    if base is Exception:
        return RecordedError(text)
    kind: Any = type(base.__name__, (RecordedError, base), {})
    error: Exception = kind(text)
    return error


def _error_class(name: str) -> type[Exception] | None:
    builtin = getattr(builtins, name, None)
    is_error = isinstance(builtin, type) and issubclass(builtin, Exception)
    # The others take arguments of their own.
    return (
        builtin
        if is_error and vars(builtin).keys() <= {"__doc__", "__init__", "__str__", "__new__"}
        else None
    )


@dataclasses.dataclass
class FrameworkCall(calls.PatchedCall):
    """A tool call as a framework makes it."""

    fail: Callable[[str], BaseException] = recorded_error


def passed(
    function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, has_self: bool = False
) -> dict[str, Any]:
    """Return the arguments of a call by name, those that were passed and no others.

    Args:
        function: that is called.
        args: positional arguments, without `self`.
        kwargs: named arguments.
        has_self: its first parameter is `self`.
    """
    return trampoline.passed(trampoline.signature_of(function), args, kwargs, has_self=has_self)


def as_recorded(answer: Any) -> Any:
    """Return a recorded answer unchanged."""
    return answer


def text_of(answer: Any) -> str:
    """Return a recorded answer as a text."""
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def are_blocks(answer: Any) -> bool:
    """Return whether a recorded answer is a list of blocks of content, as MCP writes them."""
    return (
        isinstance(answer, list)
        and bool(answer)
        and all(isinstance(block, Mapping) and isinstance(block.get("type"), str) for block in answer)
    )
