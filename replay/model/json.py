"""The type of a JSON value, as mypy can follow it, and the domain types that msgspec does not know."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from replaydiff.replay.model.lane import Lane

if TYPE_CHECKING:
    Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
    JsonObject: TypeAlias = dict[str, Json]
else:
    # msgspec decodes into these types and does not follow a recursive alias.
    Json = Any
    JsonObject = dict[str, Any]


def as_object(value: Json) -> JsonObject:
    """Return a value that is an object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    """Return a value that is a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def objects_in(value: Json) -> list[JsonObject]:
    """Return the objects in a list; none for anything else."""
    return [entry for entry in as_list(value) if isinstance(entry, dict)]


def encode_hook(value: Any) -> Any:
    """Return the JSON form of a domain value; the `enc_hook` of msgspec.

    Raises:
        NotImplementedError: the value is of no type that is stored.
    """
    if isinstance(value, Lane):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


def decode_hook(type_: type, value: Any) -> Any:
    """Return a domain value from its JSON form; the `dec_hook` of msgspec, which checks the type itself."""
    return Lane.parse(value) if type_ is Lane else value


def to_json_value(value: Any) -> Any:
    """Return a domain value as dicts, lists and plain values, with text for the keys of objects."""
    import msgspec

    return msgspec.to_builtins(value, str_keys=True, enc_hook=encode_hook)


def json_text(document: Any) -> str:
    """Return a document as JSON text, a line for each value.

    NaN and infinities become null, and a value without a JSON form becomes its text. Far faster than the
    standard library's encoder, which is written in Python as soon as it indents.
    """
    import msgspec

    try:
        encoded = msgspec.json.encode(document, enc_hook=str)
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8, but JSON can escape it.
        return json.dumps(msgspec.to_builtins(document, str_keys=True, enc_hook=str), indent=1)
    return msgspec.json.format(encoded, indent=1).decode()
