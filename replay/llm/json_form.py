"""JSON from a model that nothing holds to it: how it is asked for, and found in what comes back."""

from __future__ import annotations

import json
import re

from replaydiff.replay.model import JsonObject

_INSTRUCTION = "Answer with one JSON object that fits this JSON Schema, and with nothing else:"
_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.S | re.I)
_THOUGHT = re.compile(r"\s*<think>.*?</think>", re.S)


def with_schema(system: str, schema: JsonObject) -> str:
    """A system prompt that ends with the schema of the answer."""
    return f"{system}\n\n{_INSTRUCTION}\n{json.dumps(schema)}".strip()


def bare(text: str) -> str:
    """An answer that nothing held to its form, without thoughts before it and a code fence around it.

    The answer as a whole must be the JSON: a piece that merely stands in it may be what was judged.
    """
    text = _THOUGHT.sub("", text, count=1) if text.lstrip().startswith("<think>") else text
    fenced = _FENCED.fullmatch(text)
    return (fenced[1] if fenced else text).strip()
