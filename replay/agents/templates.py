"""The shape of a service's requests and responses, for a service that was not written for replay.

`request` is a Jinja template whose text is the JSON body. It runs sandboxed and sees only what `NAMES` has:

    {"message": {{ input | tojson }}, "thread": {{ thread | tojson }}}

`response` names where the final response is in what the service answers, or is a table of such paths. A
path is a subset of JSONPath (RFC 9535): `$`, then `.key`, `['any key']`, `[0]`, `[-1]`, or `[*]` for every
element:

    response = "$.reply"
    response = { text = "$.choices[0].message.content", tool_calls = "$.steps[*].call", usage = "$.usage" }

Of a stream, each event is looked at: texts are joined, and of anything else the last one counts.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from replaydiff.replay.model import Json, JsonObject

if TYPE_CHECKING:
    from jinja2 import Template

NAMES: Mapping[str, Json] = {
    "input": 'A "quoted" word,\na second line and a \\',
    "messages": [{"role": "user", "content": 'A "quoted" word'}],
    "item_id": 'item "1"',
    "thread": "d41d8cd98f00b204",
    "trial": 0,
    "index": 0,
    "args": {},
    "tools_url": "http://127.0.0.1:9/secret",
    "model_urls": {},
}
"""What a request template may use, each with a value that shows whether it is written as JSON."""
FIELDS = ("text", "tool_calls", "usage", "cost_usd")
"""What paths may be given for; the text is required."""
_STEP = re.compile(r"\.([^.\[\]'\"\s]+)|\[(-?\d+|\*)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_LONGEST = 80

Path = tuple[str | int | None, ...]
"""Keys, indices, and None for every element of a list."""


def check_request(source: str, args: JsonObject, *, needs_tools_url: bool) -> None:
    """Check a request template by rendering it.

    Args:
        source: the template.
        args: of the version.
        needs_tools_url: the service's tools are answered at an address that it must be sent.

    Raises:
        ValueError: it cannot be read, uses an unknown name, or does not give JSON; a sentence.
    """
    from jinja2 import TemplateSyntaxError, meta
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    try:
        used = meta.find_undeclared_variables(ImmutableSandboxedEnvironment().parse(source))
    except TemplateSyntaxError as error:
        raise ValueError(f"is no Jinja template: {error.message} (line {error.lineno})") from None
    unknown = sorted(used - NAMES.keys())
    if unknown:
        raise ValueError(f"uses {unknown[0]!r}, which is not known; known are {', '.join(NAMES)}")
    if needs_tools_url and "tools_url" not in used:
        raise ValueError(
            'does not send tools_url, so the service cannot ask the tape although tools = "endpoint"; add '
            '"tools_url": {{ tools_url | tojson }}'
        )
    render(source, {**NAMES, "args": args})


def render(source: str, values: Mapping[str, Json]) -> Json:
    """Return the body that a request template gives.

    Args:
        source: the template.
        values: of `NAMES`.

    Raises:
        ValueError: it fails, or gives no JSON; a sentence.
    """
    from jinja2 import TemplateError

    try:
        text = _template(source).render(values)
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise ValueError(f"fails: {_short(str(error))}") from None
    try:
        body: Json = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise ValueError(
            f"gives no JSON ({_short(text)}); write every value as {{{{ NAME | tojson }}}}, without quotes "
            "around it"
        ) from None
    return body


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


@functools.lru_cache(maxsize=64)
def _template(source: str) -> Template:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False).from_string(source)


def read_paths(response: str | Mapping[str, str]) -> dict[str, str]:
    """Return the paths of a `response` setting by field, each of them checked.

    Raises:
        ValueError: one of them is no path, or a field is not known or missing; a sentence.
    """
    paths = {"text": response} if isinstance(response, str) else dict(response)
    unknown = [name for name in paths if name not in FIELDS]
    if unknown:
        raise ValueError(f"names {unknown[0]!r}, which is not known; known are {', '.join(FIELDS)}")
    if "text" not in paths:
        raise ValueError('does not say where the text is; write text = "$.reply"')
    for path in paths.values():
        _steps(path)
    return paths


@functools.lru_cache(maxsize=64)
def _steps(path: str) -> Path:
    """Return a path's steps.

    Raises:
        ValueError: it is none of the subset.
    """
    steps: list[str | int | None] = []
    position = 1
    while path.startswith("$") and position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            break
        name, index, single, double = step.groups()
        if index is not None:
            steps.append(None if index == "*" else int(index))
        else:
            steps.append(next(key for key in (name, single, double) if key is not None))
        position = step.end()
    if not path.startswith("$") or position < len(path):
        where = f" (at {path[position:]!r})" if path.startswith("$") else ""
        raise ValueError(f"is no path: {path!r}{where}; write $.key, $.key[0], $['a key'] or $.list[*]")
    return tuple(steps)


def find(path: str, value: Json) -> list[Json]:
    """Return what the path leads to in a JSON value: nothing, one value, or with `[*]` any number."""
    matches: list[Json] = [value]
    for step in _steps(path):
        matches = [inner for outer in matches for inner in _inner(outer, step)]
    return matches


def _inner(value: Json, step: str | int | None) -> Sequence[Json]:
    if isinstance(step, str):
        return [value[step]] if isinstance(value, dict) and step in value else []
    if not isinstance(value, list):
        return []
    if step is None:
        return value
    return [value[step]] if -len(value) <= step < len(value) else []


def read_response(paths: Mapping[str, str], bodies: Iterable[Json]) -> JsonObject:
    """Return the answer, in the form of an agent's own, that is in what a service sent.

    Args:
        paths: by field, as `read_paths` gives them.
        bodies: the response, or the events of a stream.

    Raises:
        ValueError: there is no text where it should be; a sentence.
    """
    texts: list[str] = []
    answer: JsonObject = {}
    last: Json = None
    for body in bodies:
        last = body
        for value in find(paths["text"], body):
            if isinstance(value, str):
                texts.append(value)
            elif value is not None:
                shown = _short(_text(value))
                raise ValueError(f"the response has {shown} at {paths['text']}, which is no text")
        for field in FIELDS[1:]:
            matches = find(paths[field], body) if field in paths else []
            if matches:
                answer[field] = _field_value(paths[field], field, matches)
    if not texts:
        raise ValueError(f"the response has nothing at {paths['text']}: {_short(_text(last))}")
    return {**answer, "final_response": "".join(texts)}


def _field_value(path: str, field: str, matches: list[Json]) -> Json:
    if field != "tool_calls":
        return matches[0]
    return matches if "[*]" in path else matches[0]


def _text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _short(text: Any) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
