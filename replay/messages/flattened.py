"""Messages whose fields were flattened to dotted keys, as attributes of a span must be.

llm.input_messages.0.message.role                                       OpenInference
llm.output_messages.0.message.tool_calls.0.tool_call.function.name
gen_ai.prompt.0.content, gen_ai.completion.0.tool_calls.0.name          OpenLLMetry
message.role, message.content, message.tool_calls                       one level of OpenInference
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replaydiff.replay.model import Json

_LISTS = (("llm.input_messages.", "llm.output_messages."), ("gen_ai.prompt.", "gen_ai.completion."))
"""Prefixes of what a model call was given and what it answered, by convention."""
_FIRST_WORDS = ("llm.", "gen_ai.")
_WRAPS = ("message", "message_content", "tool_call")
"""OpenInference puts each message, part and call under one more name of its own."""
_MAX_DEPTH = 12


class _Node(dict[str, Any]):
    """An object made of dotted keys, told from the values under them."""


def unflattened(attributes: Mapping[str, Any]) -> Json:
    """The messages of a flat object as nested ones that the recogniser reads; None where there are none."""
    if "message.role" in attributes:
        return _nested({key: value for key, value in attributes.items() if key.startswith("message.")})
    if not any(key.startswith(_FIRST_WORDS) for key in attributes):
        return None
    for prefixes in _LISTS:
        found = [
            message
            for prefix in prefixes
            for message in _list(
                {key[len(prefix) :]: value for key, value in attributes.items() if key.startswith(prefix)}
            )
        ]
        if found:
            return found
    return None


def _list(flat: Mapping[str, Any]) -> list[Json]:
    nested = _nested(flat)
    return nested if isinstance(nested, list) else []


def _nested(flat: Mapping[str, Any]) -> Json:
    """Dotted keys as objects, and objects whose keys are all numbers as lists in the order of the numbers."""
    tree = _Node()
    for key, value in flat.items():
        *path, last = key.split(".", _MAX_DEPTH)
        place = tree
        for name in path:
            inner = place.setdefault(name, _Node())
            if not isinstance(inner, _Node):
                # A value and fields under the same name: the value came first and stays.
                break
            place = inner
        else:
            place[last] = value
    return _lists(tree)


def _lists(tree: Json) -> Json:
    if not isinstance(tree, _Node):
        return tree
    if all(key.isdecimal() for key in tree):
        return [_lists(tree[key]) for key in sorted(tree, key=lambda key: (len(key), key))]
    if len(tree) == 1 and next(iter(tree)) in _WRAPS:
        return _lists(next(iter(tree.values())))
    return {key: _lists(value) for key, value in tree.items()}
