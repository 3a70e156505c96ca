"""What went wrong in an agent, in one sentence, and whether it was the agent's doing.

A fault of the provider or the network (`infra_error`) is tried again; everything else an agent raises is its
own (`agent_error`). An HTTP status decides where the exception carries one; else its class, else its causes.
"""

from __future__ import annotations

import os
import socket
import sys
import time
import traceback
import types
from typing import Any

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
LONGEST_TEXT = 500
"""Characters of an exception's text that are kept."""
DEEPEST_CAUSE = 10
"""How far causes are followed."""
SHOWN_FRAMES = 20
"""Frames of a traceback that are kept, the last ones."""
LONGEST_TRACEBACK = 8000
"""Characters of a traceback that are kept, the last ones."""

PASSING_STATUSES = {408, 409, 429}
"""Statuses below 500 that a later try may not meet."""
PASSING_CLASSES = {
    "RateLimitError",
    "APIConnectionError",
    "APITimeoutError",
    "InternalServerError",
    "OverloadedError",
    "ServiceUnavailableError",
    "TransportError",  # httpx: connection, protocol and time-out errors
    "ClientConnectionError",  # aiohttp
    "ServerTimeoutError",  # aiohttp
    "EndpointConnectionError",  # botocore
    "ThrottlingException",  # botocore
}
"""Class names (of the exception or a base) by which SDKs name faults of provider and network."""
REQUESTS_CLASSES = {"ConnectionError", "Timeout"}
"""The same of requests, whose names are too common to count elsewhere."""


PATCHED: set[types.CodeType] = set()
"""The code of patched functions, of which no line is the user's own."""


class ReasonError(Exception):
    """Its text is the reason of a failure, in one sentence."""


class InvalidAnswerError(ReasonError):
    """The agent returned an invalid answer; the text says what it was and what is allowed."""


def failed(
    status: str, reason: str, retry_after_s: float | None = None, traceback: str = ""
) -> dict[str, Any]:
    """Return the message that describes a trial's failure."""
    return {"status": status, "reason": reason, "retry_after_s": retry_after_s, "traceback": traceback}


def describe(error: BaseException) -> dict[str, Any]:
    """Describe how a trial failed whose agent raised this."""
    if isinstance(error, SystemExit):
        return failed("crashed", f"the agent called sys.exit({_exit_code(error)}){where(error)}")
    if isinstance(error, ReasonError):
        return failed("agent_error", str(error))
    shown = shown_traceback(error)
    error = _first(error)
    passing = _passing(error)
    if passing is not None:
        return failed("infra_error", sentence(error), _retry_after(passing), shown)
    return failed("agent_error", sentence(error), traceback=shown)


def shown_traceback(error: BaseException) -> str:
    """Return the end of a traceback without the frames of this package; empty where it cannot be read."""
    try:
        summary = traceback.TracebackException.from_exception(error, limit=-SHOWN_FRAMES)
        part: traceback.TracebackException | None = summary
        for _ in range(DEEPEST_CAUSE):
            if part is None:
                break
            part.stack[:] = [frame for frame in part.stack if not frame.filename.startswith(FOLDER)]
            part = part.__cause__ or part.__context__
        return "".join(summary.format())[-LONGEST_TRACEBACK:]
    except BaseException:
        # The agent's own exception classes run here.
        return ""


def sentence(error: BaseException) -> str:
    """Return class, text and place: `KeyError: 'order' (app/agent.py:41)`."""
    return f"{type(error).__name__}: {_text(error)}{where(error)}"


def where(error: BaseException) -> str:
    """Return ` (file:line)` of the last line of the user's own that led to it; empty where there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({_short(error.filename)}:{error.lineno})"
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith((FOLDER, "<frozen")) and frame.f_code not in PATCHED
    ]
    if not frames:
        return ""
    file, line = next((frame for frame in reversed(frames) if _is_users(frame[0])), frames[-1])
    return f" ({_short(file)}:{line})"


def _exit_code(error: SystemExit) -> str:
    return "" if error.code is None else repr(error.code)


def _text(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except BaseException as broken:
        return f"(its text cannot be read: {type(broken).__name__})"
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def _is_users(file: str) -> bool:
    folder = os.getcwd() + os.sep  # noqa: PTH109
    return (
        file.startswith(folder) and not file.startswith(sys.prefix + os.sep) and "site-packages" not in file
    )


def _short(file: str) -> str:
    folder = os.getcwd() + os.sep  # noqa: PTH109
    return file[len(folder) :] if file.startswith(folder) else file


def _first(error: BaseException) -> BaseException:
    """Return the first exception of a group, which is more informative than the group."""
    inner = getattr(error, "exceptions", None)
    while isinstance(inner, tuple) and inner and isinstance(inner[0], BaseException):
        error = inner[0]
        inner = getattr(error, "exceptions", None)
    return error


def _passing(error: BaseException) -> BaseException | None:
    """Return the exception that shows a fault of provider or network: this one or one that caused it."""
    current: BaseException | None = error
    for _ in range(DEEPEST_CAUSE):
        if current is None:
            return None
        if _is_passing(current):
            return current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return None


def _is_passing(error: BaseException) -> bool:
    status = _status(error)
    if status is not None:
        return status in PASSING_STATUSES or 500 <= status <= 599
    # Loading it takes as long as all else that this module needs, and without it none of its errors exists.
    urllib: Any = sys.modules.get("urllib.error")
    if urllib is not None and isinstance(error, urllib.HTTPError):
        return False
    if urllib is not None and isinstance(error, urllib.URLError):
        return True
    if isinstance(error, (ConnectionError, TimeoutError, socket.timeout, socket.gaierror)):
        return True
    return any(
        cls.__name__ in PASSING_CLASSES
        or (cls.__name__ in REQUESTS_CLASSES and cls.__module__.startswith("requests"))
        for cls in type(error).__mro__
    )


def _status(error: BaseException) -> int | None:
    """Return the HTTP status that the exception, or the response it carries, has."""
    for owner in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            status = getattr(owner, name, None)
            if isinstance(status, int) and 100 <= status <= 599:
                return status
    return None


def _retry_after(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None) or getattr(error, "headers", None)
    return retry_after_of(headers)


def retry_after_of(headers: Any) -> float | None:
    """Return seconds, from a response's `retry-after-ms` or `retry-after` (seconds or a date)."""
    try:
        fields = {str(key).lower(): str(value) for key, value in dict(headers or {}).items()}
        if "retry-after-ms" in fields:
            return max(0.0, float(fields["retry-after-ms"]) / 1000)
        if "retry-after" in fields:
            return max(0.0, _seconds(fields["retry-after"]))
    except (TypeError, ValueError):
        return None
    return None


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        from email.utils import parsedate_to_datetime

        return parsedate_to_datetime(text).timestamp() - time.time()
