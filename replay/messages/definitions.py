"""The tools a model was offered, wherever a source or a setup keeps their definitions.

Importers put them into the trace's metadata under `tools`, as name, description and JSON Schema of the
parameters: a version without code (`messages`) offers them again when it replays the trace. What a provider
runs itself (`web_search`), or takes free text (`custom`), is none of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaydiff.replay.messages.decode import decode
from replaydiff.replay.model import Json, JsonObject

KEY = "tools"
_SCHEMAS = ("input_schema", "parameters", "inputSchema", "schema")
_WRAPPED = ("tools", "functions")
_INNER = ("function", "json_schema", "tool", "custom")
_DEPTH = 4
_NO_PARAMETERS: JsonObject = {"type": "object"}


def definitions(*places: Json) -> list[Json]:
    """Return every tool that is defined in one of these places, each name once.

    A place is a list of definitions (of OpenAI, Anthropic, OpenInference, the AI SDK; each may be JSON text),
    a request that holds one under `tools` or `functions`, or an object of name → definition.
    """
    by_tool: dict[str, JsonObject] = {}
    for source in places:
        for definition in _read(source, 0):
            by_tool.setdefault(str(definition["name"]), definition)
    return list(by_tool.values())


def put(metadata: JsonObject, *places: Json) -> None:
    """Put the tools that are defined in these places into the metadata of a trace, where there are any."""
    if tools := definitions(*places):
        metadata[KEY] = tools


def _read(source: Json, depth: int) -> Iterator[JsonObject]:
    value = decode(source)
    if isinstance(value, list):
        for entry in value:
            definition = _definition(entry, "", 0)
            if definition is not None:
                yield definition
    elif isinstance(value, dict) and depth < _DEPTH:
        for key in _WRAPPED:
            if key in value:
                yield from _read(value[key], depth + 1)


def by_name(source: Json) -> Iterator[JsonObject]:
    """Yield definitions in an object of name → definition without the name, as Langfuse exports them."""
    value = decode(source)
    for name, entry in value.items() if isinstance(value, dict) else ():
        inner = decode(entry)
        if isinstance(inner, dict):
            yield {"name": name, **inner}


def _definition(entry: Json, wrapper: str, depth: int) -> JsonObject | None:
    value = decode(entry)
    if not isinstance(value, dict) or depth > _DEPTH:
        return None
    schema = next((decode(value[key]) for key in _SCHEMAS if value.get(key) is not None), None)
    if schema is None and _takes_nothing(value, wrapper):
        schema = _NO_PARAMETERS
    name = value.get("name")
    if isinstance(name, str) and name and isinstance(schema, dict):
        about = value.get("description")
        return {"name": name, "description": about if isinstance(about, str) else "", "parameters": schema}
    for key in _INNER:
        if key in value:
            inner = _definition(value[key], key, depth + 1)
            if inner is not None:
                return inner
    return None


def _takes_nothing(value: JsonObject, wrapper: str) -> bool:
    """Return whether it is a function without parameters: it declares none, or has at least a description."""
    kind = value.get("type")
    if wrapper == "function" or kind == "function":
        return True
    return wrapper != "custom" and kind is None and bool(value.get("description"))
