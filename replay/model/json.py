"""The type of a JSON value, as mypy can follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, Union

if TYPE_CHECKING:
    Json: TypeAlias = Union[None, bool, int, float, str, "list[Json]", "dict[str, Json]"]
    JsonObject: TypeAlias = dict[str, Json]
else:
    # msgspec decodes into these types and does not follow a recursive alias.
    Json = Any
    JsonObject = dict[str, Any]
