"""The form of a recorded tool result: the text that the tool returned, or the value that a text encodes.

Many SDKs record a text as it is, and write JSON for everything else. So `false` in such a recording may be
the text or the boolean, and `{"a": 1}` the text or the object. An agent that gets the wrong one takes another
branch: every text but the empty one is true.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from replaydiff.replay.model import Json, ToolCall
from replaydiff.replay.settings.toml import tool_table

EXACT_INTEGERS = 2**53 - 1
"""The largest integer that SDKs write as a JSON number: JavaScript cannot hold larger ones."""

ResultForm = Literal["text", "json"]
"""What a tool returns: text, or any other value, which recordings may have as JSON text."""


@dataclass(frozen=True, slots=True)
class ResultForms:
    """Counts of a tool's recorded results by form."""

    name: str
    values: int
    """Objects, lists, booleans and numbers."""
    json_texts: int
    """Texts that are JSON of such a value: what the tool returned is not known."""
    texts: int
    """Other texts."""

    @property
    def total(self) -> int:
        """Return the number of results."""
        return self.values + self.json_texts + self.texts

    @property
    def form(self) -> ResultForm | None:
        """Return `json` where other results show that the tool returns values; None where nothing shows it.

        Other texts show nothing: a tool may return an object, or the text "not found".
        """
        return "json" if self.values and not self.texts else None


def result_as(result: Json, form: str | None) -> Json:
    """Return a recorded result in the form that the tool returns; unchanged where that is not known."""
    if form == "json" and isinstance(result, str):
        return _decoded(result)
    if form == "text" and result is not None and not isinstance(result, str):
        return json.dumps(result, ensure_ascii=False)
    return result


def _decoded(text: str) -> Json:
    try:
        value: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return value


def scalar_of(result: Json) -> Json:
    """Return the boolean, number or null that an SDK wrote as JSON; any other result unchanged.

    Only a text that the SDK would have written for the value is one: `1.50` and `007` are texts of the tool.
    """
    if not isinstance(result, str) or not result or result[0] not in "-0123456789tfn":
        return result
    value = _decoded(result)
    if isinstance(value, int) and abs(value) > EXACT_INTEGERS:
        return result
    if isinstance(value, float) and not math.isfinite(value):
        return result
    is_scalar = value is None or isinstance(value, bool | int | float)
    return value if is_scalar and json.dumps(value) == result else result


def is_json_text(result: Json) -> bool:
    """Return whether a recorded result is text that may as well have been another value."""
    return isinstance(result, str) and not isinstance(_decoded(result), str)


def is_value(result: Json) -> bool:
    """Return whether a recorded result is an object, a list, a boolean or a number."""
    return result is not None and not isinstance(result, str)


def unclear_results(tools: Sequence[ResultForms]) -> str:
    """Return a sentence on tools that may return text or other values, with the setting that decides.

    Args:
        tools: the tools, with what their results are.
    """
    listed = "; ".join(
        f"{tool.name}: {tool.json_texts:,} of {tool.total:,} results are JSON" for tool in tools
    )
    return (
        f"nothing recorded shows whether these tools return text or the value that it encodes: {listed}. "
        f"Such results are answered as JSON text unless {tool_table(tools[0].name)} sets result = "
        '"json" (or "text") or the function\'s return annotation shows what it returns'
    )


_ON_TEXT = re.compile(r"^(TypeError|AttributeError)\b.*(string indices|'str'|type str\b|not str$)", re.DOTALL)
"""What Python reports where text is used as another value."""
_ON_VALUE = re.compile(
    r"^(TypeError|AttributeError)\b.*(JSON object must be str|expected str|can only concatenate str"
    r"|must be a string|'(dict|list|bool|int|float)')",
    re.DOTALL,
)
"""What Python reports where another value is used as text."""


def explain_form(reason: str, answered: Sequence[ToolCall]) -> str:
    """Add to why an agent failed the tool whose result may only have the wrong form.

    Args:
        reason: why the agent failed, as Python reports it.
        answered: the calls that recordings answered, in their order.

    Returns:
        The reason, and the setting that decides, where the agent failed on such a value.
    """
    for pattern, is_suspect, what, returned, form in (
        (_ON_TEXT, is_json_text, "JSON text", "the value", "json"),
        (_ON_VALUE, is_value, "a value", "text", "text"),
    ):
        suspects = [call.name for call in answered if is_suspect(call.result)]
        if suspects and pattern.search(reason):
            return (
                f"{reason}; {suspects[-1]} was answered with {what}, as recorded: if the tool returns "
                f'{returned}, set result = "{form}" in {tool_table(suspects[-1])}'
            )
    return reason
