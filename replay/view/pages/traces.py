"""Traces: search, and the transcript of one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from replaydiff.replay.errors import InputError
from replaydiff.replay.messages import media_type_of, missing_reason
from replaydiff.replay.messages.media import IMAGES
from replaydiff.replay.model import Json, Media, ToolCall, Trace, TraceState, described, media_in
from replaydiff.replay.terminal.text import visible
from replaydiff.replay.view.site import Site
from replaydiff.reports import format as fmt

if TYPE_CHECKING:
    from replaydiff.replay.api.inspecting import TraceSummary as Listed

_PAGE = 50
_MOST = 100_000
"""Characters of one text that a page shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A step of a transcript: a message, or a tool call with its result."""

    role: str
    text: str = ""
    call: str | None = None
    """The tool's name; None for a message."""
    args: tuple[tuple[str, str], ...] = ()
    result: str | None = None
    failed: bool = False
    media: tuple[Media, ...] = ()
    """Pictures, documents and audio of it."""
    missing: tuple[str, ...] = ()
    """Why others of them cannot be had."""


def listed(site: Site, request: Request) -> Response:
    """Return the traces that fit, newest first."""
    query = {name: request.query_params.get(name, "").strip() for name in ("text", "where", "month")}
    page = request.query_params.get("page", "1")
    number = int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 7 else 1
    wrong, status = "", 200
    matches = None

    def find() -> tuple[list[Listed], int]:
        return site.project.traces(
            where=query["where"] or None,
            month=query["month"] or None,
            text=query["text"] or None,
            limit=_PAGE,
            offset=(number - 1) * _PAGE,
        )

    months = site.cache.read("months", None, site.project.store.months)
    try:
        matches = site.cache.read("traces", (*query.values(), number), find)
    except InputError as error:
        wrong, status = str(error), 400
    rows, total = matches.value if matches else ([], 0)
    filters = {name: text for name, text in query.items() if text}
    return site.page(
        "traces.html.j2",
        *([matches] if matches else []),
        months,
        status=status,
        area="traces",
        rows=rows,
        total=total,
        months=[month for month, _ in reversed(months.value)],
        query=query,
        wrong=wrong,
        first=(number - 1) * _PAGE,
        before=f"/traces?{urlencode(filters | {'page': str(number - 1)})}" if number > 1 else None,
        after=f"/traces?{urlencode(filters | {'page': str(number + 1)})}" if number * _PAGE < total else None,
        states=TraceState,
    )


def transcript(site: Site, request: Request) -> Response:
    """Return the transcript of a trace."""
    trace_id = request.query_params.get("id", "")
    if not trace_id:
        raise HTTPException(404)

    cached = site.cache.read("trace", trace_id, lambda: site.project.trace(trace_id))
    trace = cached.value
    return site.page(
        "trace.html.j2",
        cached,
        area="traces",
        trace=trace,
        facts=list(_facts(trace)),
        parts=list(parts(trace)),
        images=IMAGES,
    )


def parts(trace: Trace) -> Iterator[Part]:
    """Yield the messages, and each call with its result."""
    calls = iter(trace.tool_calls)
    if trace.messages:
        for message in trace.messages:
            if message.role == "tool":
                continue
            if message.text or message.parts is not None:
                yield Part(
                    role=visible(message.role),
                    text=shortened(message.text),
                    media=(*media_in(message.text), *media_in(message.parts)),
                    missing=tuple(filter(None, map(missing_reason, _listed(message.parts)))),
                )
            for call in message.tool_calls:
                yield call_part(next(calls, call))
    elif trace.input:
        yield Part(role="user", text=shortened(trace.input))
    yield from map(call_part, calls)
    last = trace.messages[-1] if trace.messages else None
    if trace.final_response is not None and (last is None or last.text != trace.final_response):
        yield Part(role="assistant", text=shortened(trace.final_response))


def call_part(call: ToolCall) -> Part:
    """Return a tool call with its result."""
    if call.error is not None:
        result = call.error
    elif not call.answered:
        result = "no result was recorded"
    else:
        result = _json(call.result)
    return Part(
        role="tool call",
        call=visible(call.name),
        args=tuple((visible(name), shortened(_json(value))) for name, value in call.args.items()),
        result=shortened(result),
        failed=call.error is not None,
        media=tuple(media_in(call.result)),
        missing=tuple(filter(None, map(missing_reason, _listed(call.result)))),
    )


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def media(site: Site, request: Request) -> Response:
    """Return a picture, or any other file as one to be saved: what it holds never becomes a page."""
    content = site.project.store.media(request.path_params["sha256"])
    if content is None:
        raise HTTPException(404)
    kind = media_type_of(content, "")
    if kind in IMAGES:
        return Response(content, media_type=kind)
    return Response(
        content, media_type="application/octet-stream", headers={"Content-Disposition": "attachment"}
    )


def _facts(trace: Trace) -> Iterator[tuple[str, str]]:
    usage = trace.usage
    pairs: Sequence[tuple[str, str | None]] = (
        ("source", trace.source),
        ("started", f"{fmt.moment(trace.started_at)} UTC"),
        ("name", trace.name),
        ("model", trace.model),
        ("release", trace.release),
        ("environment", trace.environment),
        ("session", trace.session_id),
        ("user", trace.user_id),
        ("tags", ", ".join(trace.tags) or None),
        ("tool path", trace.tool_path),
        ("latency", None if trace.latency_ms is None else fmt.duration(trace.latency_ms)),
        ("cost", None if trace.cost_usd is None else fmt.dollars(trace.cost_usd)),
        (
            "tokens in / out",
            f"{fmt.tokens(usage.input_tokens)} / {fmt.tokens(usage.output_tokens)}" if usage else None,
        ),
        ("media missing", ", ".join(trace.media_missing) or None),
        *((f"score {name}", str(value)) for name, value in trace.scores.items()),
        ("error", trace.error),
        *trace_metadata(trace),
    )
    yield from ((visible(label), shortened(value)) for label, value in pairs if value)


def trace_metadata(trace: Trace) -> list[tuple[str, str]]:
    """Return further fields of a trace, by their names in conditions."""
    return [(f"metadata.{name}", _json(value)) for name, value in trace.metadata.items()]


def _json(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def shortened(text: str) -> str:
    """Return a text as a page shows it, at most so long."""
    text = described(text)
    if len(text) <= _MOST:
        return visible(text)
    return f"{visible(text[:_MOST])}… ({fmt.count(len(text) - _MOST)} more characters)"
