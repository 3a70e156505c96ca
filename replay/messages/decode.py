"""The decode ladder: JSON that arrives as text, once or several times encoded.

Records carry inputs, outputs, arguments and results as JSON objects, as JSON text, as JSON text of JSON text,
as Python reprs and as plain text, often side by side. `decode` climbs down:

1. What is no string is taken as it is.
2. A string that starts with `{`, `[` or `"` is parsed; where that gives a string again, it is tried again,
   at most three times in all.
3. Anything else is text: `123`, `true` and `null` stay strings, since an order number is no number.

`nested` puts together messages whose fields were flattened to dotted keys, as attributes of a span must be:

    llm.input_messages.0.message.role                                       OpenInference
    llm.output_messages.0.message.tool_calls.0.tool_call.function.name
    gen_ai.prompt.0.content, gen_ai.completion.0.tool_calls.0.name          OpenLLMetry
    message.role, message.content, message.tool_calls                       one level of OpenInference

`canonical_args` goes the other way: the text by which the arguments of two tool calls are compared.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from replaydiff.replay.model import Json, JsonObject, as_list
from replaydiff.replay.store.sql import clean

RAW = "_raw"
"""The key under which arguments are kept that are no JSON object."""
_MAX_ENCODINGS = 3
_LONGEST_REPR = 100_000
"""Characters up to which a Python repr is tried: compiling a long text costs far more memory than it has."""


def parse(text: str | bytes) -> Json:
    """Parse one JSON text, as tolerantly as Python's own parser, and make it storable.

    NaN and infinities become null, lone surrogates and NULs U+FFFD; the last of equal keys wins.

    Raises:
        ValueError: it is not JSON, or no UTF-8, or nested deeper than can be read.
    """
    try:
        value: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _parse_slowly(text)
    hidden = b"\\u0000" if isinstance(text, bytes) else "\\u0000"
    return clean(value) if hidden in text else value  # type: ignore[operator]


def _parse_slowly(text: str | bytes) -> Json:
    """Parse JSON that msgspec refuses: NaN, lone surrogates, numbers beyond a double."""
    try:
        return clean(json.loads(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def decode(value: Json) -> Json:
    """Climb down the ladder; text that is not JSON comes back unchanged."""
    if not isinstance(value, str):
        return value
    for _ in range(_MAX_ENCODINGS):
        if not isinstance(value, str):
            return value
        text = value.strip()
        if not text or text[0] not in '{["':
            return value
        try:
            value = parse(text)
        except ValueError:
            return _python_literal(text) if text[0] in "{[" else value
    return value


def _python_literal(text: str) -> Json:
    """Return a dict or list that was stored as its Python repr: `{'city': 'Paris'}`.

    Else the text unchanged.
    """
    if len(text) > _LONGEST_REPR:
        return text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
        # A repr may hold tuples, sets or bytes: only what JSON can say counts.
        return clean(json.loads(json.dumps(value))) if isinstance(value, dict | list) else text
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


def read_args(value: Json) -> JsonObject:
    """Return tool arguments as an object: decoded where they are text; nothing at all means no arguments.

    What is not JSON object stays readable and comparable as `{"_raw": text}`: arguments that a model got
    wrong are themselves worth comparing.
    """
    if value is None:
        return {}
    if isinstance(value, str):
        if value.startswith("{"):
            # Most arguments.
            try:
                whole = parse(value)
            except ValueError:
                pass
            else:
                return whole if isinstance(whole, dict) else {RAW: value}
        elif not value.strip():
            return {}
    decoded = decode(value)
    if isinstance(decoded, dict):
        return decoded
    return {RAW: value if isinstance(value, str) else as_json(value)}


def as_json(value: Json) -> str:
    """Return JSON text of any value."""
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, OverflowError):
        # Lone surrogates, and integers beyond 64 bits.
        return json.dumps(clean(value), ensure_ascii=False, separators=(",", ":"))


_LISTS = (("llm.input_messages.", "llm.output_messages."), ("gen_ai.prompt.", "gen_ai.completion."))
"""Prefixes of what a model call was given and what it answered, by convention."""
_FIRST_WORDS = ("llm.", "gen_ai.")
_WRAPS = ("message", "message_content", "tool_call")
"""OpenInference puts each message, part and call under one more name of its own."""
_MAX_DEPTH = 12


class _FlatNode(dict[str, Any]):
    """An object built from dotted keys, distinct from the values under them."""


def unflattened(attributes: Mapping[str, Any]) -> Json:
    """Return the messages of a flat object as nested ones that the recogniser reads.

    None where there are none.
    """
    if "message.role" in attributes:
        return _nested({key: value for key, value in attributes.items() if key.startswith("message.")})
    if not any(key.startswith(_FIRST_WORDS) for key in attributes):
        return None
    for prefixes in _LISTS:
        entries = [
            message
            for prefix in prefixes
            for message in as_list(
                _nested(
                    {key[len(prefix) :]: value for key, value in attributes.items() if key.startswith(prefix)}
                )
            )
        ]
        if entries:
            return entries
    return None


def _nested(flat: Mapping[str, Any]) -> Json:
    """Return dotted keys as objects, and objects whose keys are all numbers as ordered lists."""
    tree = _FlatNode()
    for key, value in flat.items():
        *path, last = key.split(".", _MAX_DEPTH)
        branch = tree
        for name in path:
            inner = branch.setdefault(name, _FlatNode())
            if not isinstance(inner, _FlatNode):
                # A value and fields under the same name: the value came first and stays.
                break
            branch = inner
        else:
            branch[last] = value
    return _lists(tree)


def _lists(tree: Json) -> Json:
    if not isinstance(tree, _FlatNode):
        return tree
    if all(key.isdecimal() for key in tree):
        return [_lists(tree[key]) for key in sorted(tree, key=lambda key: (len(key), key))]
    if len(tree) == 1 and next(iter(tree)) in _WRAPS:
        return _lists(next(iter(tree.values())))
    return {key: _lists(value) for key, value in tree.items()}


_encoder = msgspec.json.Encoder(order="sorted")
_MAY_HOLD_FLOAT = re.compile(rb"\d\.\d|\d[eE]")


def canonical_args(args: JsonObject, ignore: Collection[str] = ()) -> str:
    """Return the arguments as JSON text that is equal exactly where the arguments are.

    Keys are sorted at every depth, there are no spaces, and whole floats are written as integers, so that
    `1` equals `1.0`; `true` stays different from `1`, and absent from null. Strings are compared as they are:
    JSON text inside a string is not decoded. `ignore` leaves out keys of the top level.
    """
    if ignore:
        args = {key: value for key, value in args.items() if key not in ignore}
    try:
        text = _encoder.encode(args)
        # Most arguments hold no float; the pattern may also match inside a string, which only costs time.
        if _MAY_HOLD_FLOAT.search(text):
            text = _encoder.encode(_whole(args))
        return text.decode()
    except (UnicodeEncodeError, OverflowError):
        # Lone surrogates, and integers beyond 64 bits.
        plain = _whole(clean(args))
        return json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _whole(value: Json) -> Json:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    return value
