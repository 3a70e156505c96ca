"""Whether a JSON value meets a JSON Schema, for the keywords that describe an answer.

A keyword that is not checked here is refused, so that no schema seems to hold because half of it was ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from replaydiff.diff.graders.arguments import equal

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ),
}
_NOTES = {"$schema", "$id", "title", "description", "default", "examples", "$comment"}
_LIMITS: dict[str, tuple[Callable[[Any], bool], Callable[[Any], float], int]] = {
    "minimum": (_TYPES["number"], float, 1),
    "maximum": (_TYPES["number"], float, -1),
    "minLength": (_TYPES["string"], len, 1),
    "maxLength": (_TYPES["string"], len, -1),
    "minItems": (_TYPES["array"], len, 1),
    "maxItems": (_TYPES["array"], len, -1),
}
"""Keyword → the values it is about, their size, and 1 where it is the least."""
_SCHEMAS, _LISTS = {"items", "additionalProperties", "not"}, {"anyOf", "allOf", "oneOf"}
_PLAIN = {"type", "required", "properties", "enum", "const", "pattern"}
_KEYWORDS = _NOTES | _LIMITS.keys() | _SCHEMAS | _LISTS | _PLAIN
_DEPTH = 64


def unusable(schema: Any, pattern_error: Callable[[str], str | None], depth: int = 0) -> str | None:
    """Return why a schema cannot be checked; None where it can.

    Args:
        schema: an object, `true` or `false`.
        pattern_error: why a pattern cannot be used.
        depth: of the schema within another.
    """
    if isinstance(schema, bool):
        return None
    if not isinstance(schema, dict) or depth > _DEPTH:
        return "a schema must be an object, true or false, at most 64 levels deep"
    if unknown := sorted(schema.keys() - _KEYWORDS):
        return f"the schema keyword {unknown[0]!r} is not supported"
    if not _well_formed(schema):
        return "a schema keyword has a value of the wrong type"
    if "pattern" in schema and (wrong := pattern_error(schema["pattern"])):
        return wrong
    parts = [schema[key] for key in _SCHEMAS & schema.keys()]
    parts += [alternative for key in _LISTS & schema.keys() for alternative in schema[key]]
    parts += schema.get("properties", {}).values()
    return next((wrong for part in parts if (wrong := unusable(part, pattern_error, depth + 1))), None)


def _well_formed(schema: dict[str, Any]) -> bool:
    types = schema.get("type", [])
    return (
        all(
            isinstance(name, str) and name in _TYPES
            for name in (types if isinstance(types, list) else [types])
        )
        and isinstance(schema.get("properties", {}), dict)
        and isinstance(schema.get("required", []), list)
        and isinstance(schema.get("enum", []), list)
        and isinstance(schema.get("pattern", ""), str)
        and all(isinstance(schema[key], list) for key in _LISTS & schema.keys())
        and all(_TYPES["number"](schema[key]) for key in _LIMITS.keys() & schema.keys())
    )


def first_error(
    schema: Any, value: Any, pattern_matches: Callable[[str, str], bool], path: str = "$"
) -> str | None:
    """Return the first path at which a value does not meet a usable schema; None where it does."""
    return next(_errors(schema, value, pattern_matches, path), None)


def _errors(schema: Any, value: Any, pattern_matches: Callable[[str, str], bool], path: str) -> Iterator[str]:
    if isinstance(schema, bool):
        if not schema:
            yield f"{path} must not be there"
        return
    types = schema.get("type")
    if types is not None:
        allowed = types if isinstance(types, list) else [types]
        if not any(_TYPES[name](value) for name in allowed):
            yield f"{path} must be {' or '.join(allowed)}"
    if "const" in schema and not equal(schema["const"], value):
        yield f"{path} must be {schema['const']!r}"
    if "enum" in schema and not any(equal(member, value) for member in schema["enum"]):
        yield f"{path} must be one of {schema['enum']!r}"
    if isinstance(value, str) and "pattern" in schema and not pattern_matches(schema["pattern"], value):
        yield f"{path} must match {schema['pattern']!r}"
    for keyword, (concerns, size, sign) in _LIMITS.items():
        if keyword in schema and concerns(value) and sign * (size(value) - schema[keyword]) < 0:
            yield f"{path} breaks {keyword} {schema[keyword]}"
    yield from _combined(schema, value, pattern_matches, path)
    if isinstance(value, dict):
        yield from _members(schema, value, pattern_matches, path)
    if isinstance(value, list) and "items" in schema:
        for index, member in enumerate(value):
            yield from _errors(schema["items"], member, pattern_matches, f"{path}[{index}]")


def _members(
    schema: dict[str, Any], value: dict[str, Any], pattern_matches: Callable[[str, str], bool], path: str
) -> Iterator[str]:
    properties = schema.get("properties", {})
    yield from (f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value)
    for name, member in value.items():
        within = properties[name] if name in properties else schema.get("additionalProperties", True)
        yield from _errors(within, member, pattern_matches, f"{path}.{name}")


def _combined(
    schema: dict[str, Any], value: Any, pattern_matches: Callable[[str, str], bool], path: str
) -> Iterator[str]:
    def met(part: Any) -> bool:
        return first_error(part, value, pattern_matches, path) is None

    for part in schema.get("allOf", ()):
        yield from _errors(part, value, pattern_matches, path)
    if "anyOf" in schema and not any(map(met, schema["anyOf"])):
        yield f"{path} meets none of anyOf"
    if "oneOf" in schema and sum(map(met, schema["oneOf"])) != 1:
        yield f"{path} must meet exactly one of oneOf"
    if "not" in schema and met(schema["not"]):
        yield f"{path} meets what it must not"
