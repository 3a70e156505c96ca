"""The type of a JSON value, as mypy can follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
    JsonObject: TypeAlias = dict[str, Json]
else:
    # msgspec decodes into these types and does not follow a recursive alias.
    Json = Any
    JsonObject = dict[str, Any]
