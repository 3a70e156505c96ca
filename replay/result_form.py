"""The form of a recorded tool result: text, or the JSON value that the text encodes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from replaydiff.replay.messages import decode
from replaydiff.replay.model import Json, ToolCall
from replaydiff.replay.settings.toml import tool_table

SHOWN_TOOLS = 6
"""How many tools a sentence names."""

ResultForm = Literal["text", "json"]
"""What a tool returns: text, or an object or list."""


def result_as(result: Json, form: str | None) -> Json:
    """Return a recorded result in the form that the tool returns; unchanged where that is not known."""
    if form == "json" and is_json_text(result):
        return decode(result)
    if form == "text" and isinstance(result, dict | list):
        return json.dumps(result, ensure_ascii=False)
    return result


def is_json_text(result: Json) -> bool:
    """Whether a recorded result is text that may as well have been an object or list."""
    if not isinstance(result, str) or not result.lstrip().startswith(("{", "[")):
        return False
    try:
        return isinstance(msgspec.json.decode(result), dict | list)
    except (msgspec.DecodeError, RecursionError):
        return False


def is_structure(result: Json) -> bool:
    """Whether a recorded result is an object or list."""
    return isinstance(result, dict | list)


def unclear_results(names: Sequence[str]) -> str:
    """Return a sentence on tools that may return text or objects, with the setting that decides."""
    listed = ", ".join(names[:SHOWN_TOOLS]) + (", …" if len(names) > SHOWN_TOOLS else "")
    return (
        f"recorded results of {listed} are JSON text, and nothing recorded shows whether the tool returns "
        f"text or an object; they are answered as text unless {tool_table(names[0])} sets "
        'result = "json" or the function\'s return annotation says so'
    )


_ON_TEXT = re.compile(r"^(TypeError|AttributeError)\b.*(string indices|'str' object)", re.DOTALL)
"""What Python reports where text is used as an object."""
_ON_OBJECT = re.compile(
    r"^(TypeError|AttributeError)\b.*(JSON object must be str|expected str|'(dict|list)' object)", re.DOTALL
)
"""What Python reports where an object is used as text."""


def explain_form(reason: str, answered: Sequence[ToolCall]) -> str:
    """Add to why an agent failed the tool whose result may only have the wrong form.

    Args:
        reason: why the agent failed, as Python reports it.
        answered: the calls that recordings answered, in their order.

    Returns:
        The reason, and the setting that decides, where the agent failed on such a value.
    """
    if _ON_TEXT.search(reason):
        form, fits, what, returned = "json", is_json_text, "JSON text", "an object"
    elif _ON_OBJECT.search(reason):
        form, fits, what, returned = "text", is_structure, "an object", "text"
    else:
        return reason
    name = next((call.name for call in reversed(answered) if fits(call.result)), None)
    if name is None:
        return reason
    return (
        f"{reason}; {name} was answered with {what}, as recorded: if the tool returns {returned}, "
        f'set result = "{form}" in {tool_table(name)}'
    )
