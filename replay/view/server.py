"""Serving the local page on 127.0.0.1 until the person ends it.

The application: which address is which page, and what becomes of an error.

Who may ask: only a browser that was given the address, and only pages of this site in it.

A server on 127.0.0.1 can be reached by every web page that the same browser has open. Four things keep those
out: the Host must be this server's own (so no name of theirs that points to 127.0.0.1 gets in); an Origin,
where one is sent, must be this site; who changes something must send one; and each request needs the cookie
that only the address with the token gives. No answer allows another origin anything.

Other users of the machine can read the browser's command line, and run servers on other ports, to which
browsers send the cookies of a host. So the token is good for one request, and the host is a random name below
`localhost`, which browsers take for this machine.
"""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Callable, Mapping
from functools import partial
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

import duckdb
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from replaydiff.replay.api.store_file import cause_in_store
from replaydiff.replay.errors import (
    InputError,
    ReplayError,
    StoreBusyError,
    StoreMissingError,
    UnknownNameError,
    UntrustedError,
)
from replaydiff.replay.view.pages import causes, labels, runs, traces, triage
from replaydiff.replay.view.site import Site, asset
from replaydiff.reports.html import render


def serve(site: Site, *, port: int, plain_host: bool, first: str, opened: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        site: the project, with the state of its pages.
        port: of 127.0.0.1; 0 takes a free one.
        plain_host: the host is 127.0.0.1, for browsers that do not resolve names below `localhost`.
        first: the path, with its query, of the page that the address opens.
        opened: gets the address with its token once the port is there.

    Raises:
        InputError: the port is taken.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
        except OSError as error:
            raise InputError(
                f"port {port} cannot be used: {error.strerror}; name another with --port, or none"
            ) from None
        listening.listen()
        port = listening.getsockname()[1]
        token = secrets.token_urlsafe(24)
        host = f"127.0.0.1:{port}" if plain_host else f"{secrets.token_hex(8)}.localhost:{port}"
        config = uvicorn.Config(
            build_app(site, host=host, token=token),
            log_level="error",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
        address = f"http://{host}{first}{'&' if '?' in first else '?'}token={token}"
        _Server(config, lambda: opened(address)).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Calls a function once it serves and obeys signals: a Ctrl-C any earlier would interrupt its start.

    A request that has not ended soon after Ctrl-C is given up, which is no error to report.
    """

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server.startup`."""
        await super().startup(sockets=sockets)
        self._started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server.shutdown`."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await super().shutdown(sockets=sockets)


_MOST_BODY = 1_000_000
_ASSETS: Mapping[str, tuple[Callable[[str], str], str]] = {
    "report.css": (render.asset, "text/css"),
    "report.js": (render.asset, "text/javascript"),
    "view.css": (asset, "text/css"),
    "view.js": (asset, "text/javascript"),
}

Page = Callable[[Site, Request], Response]
FormAction = Callable[[Site, Request, Mapping[str, str]], Response]


def _asset(_site: Site, request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _ASSETS:
        raise HTTPException(404)
    read, kind = _ASSETS[name]
    return Response(read(name), media_type=kind)


PAGES: Mapping[str, Page] = {
    "/": runs.listed,
    "/live.json": runs.live,
    "/runs/{run}": runs.report,
    "/runs/{run}/answer.json": runs.answer,
    "/runs/{run}/report.html": runs.file,
    "/runs/{run}/triage": triage.entry,
    "/runs/{run}/triage/causes": causes.cause,
    "/runs/{run}/triage/edit": triage.edit_form,
    "/runs/{run}/labels": labels.row,
    "/runs/{run}/labels/sheet": labels.sheet,
    "/traces": traces.listed,
    "/trace": traces.transcript,
    "/media/{sha256}": traces.media,
    "/trends": runs.trends,
    "/assets/{name}": _asset,
}
"""Path → the page that is there."""


def build_app(site: Site, *, host: str, token: str) -> ASGIApp:
    """Return the application, behind its guard."""
    deeds: dict[str, FormAction] = {
        "/runs/{run}/triage/cause": causes.decide,
        "/runs/{run}/triage/promote": triage.promote,
        "/runs/{run}/triage/edit": triage.save_edited,
        "/runs/{run}/triage/label": triage.label,
        "/runs/{run}/triage/dismiss": triage.dismiss,
        "/runs/{run}/triage/skip": triage.skip,
        "/runs/{run}/triage/undo": triage.undo,
        "/runs/{run}/labels/draw": labels.draw,
        "/runs/{run}/labels/set": labels.label,
    }
    app = Starlette(
        routes=[
            *(Route(path, partial(_answer, site, page)) for path, page in PAGES.items()),
            *(Route(path, partial(_perform, site, deed), methods=["POST"]) for path, deed in deeds.items()),
        ],
        exception_handlers={
            ReplayError: partial(_sentence, site),
            HTTPException: partial(_sentence, site),
            Exception: partial(_sentence, site),
        },
    )
    return AccessControl(app, host=host, token=token)


async def _answer(site: Site, page: Page, request: Request) -> Response:
    try:
        return await run_in_threadpool(page, site, request)
    except duckdb.Error as error:
        # A damaged store is no fault of the page.
        raise cause_in_store(error) from None


async def _perform(site: Site, deed: FormAction, request: Request) -> Response:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BODY:
            raise HTTPException(413, "that is more than a form of this page holds")
    fields = dict(parse_qsl(body.decode("utf-8", errors="replace"), keep_blank_values=True))
    return await run_in_threadpool(deed, site, request, fields)


_STATUSES = {
    StoreBusyError: 503,
    UntrustedError: 403,
    UnknownNameError: 404,
    StoreMissingError: 404,
    InputError: 400,
}


async def _sentence(site: Site, request: Request, error: Exception) -> Response:
    """Show an error as a page with one sentence; if the store is busy, the page reloads by itself."""
    text, status = "this page has a fault; the terminal has its traceback", 500
    if isinstance(error, HTTPException):
        text, status = (
            ("there is no such page" if error.status_code == 404 else error.detail),
            error.status_code,
        )
    elif isinstance(error, ReplayError):
        text = str(error)
        status = next((code for kind, code in _STATUSES.items() if isinstance(error, kind)), 500)
    reading = request.method in ("GET", "HEAD")
    return site.page(
        "error.html.j2", status=status, text=text, again=status == 503 and reading, undone=not reading
    )


_SAFE = ("GET", "HEAD")
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not `no-referrer`: with that, browsers send `Origin: null` with forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_CLOSED = "open the address that `replay view` printed\n"
_USED = (
    "this address works once, and was used already: continue in the browser that used it, or start "
    "`replay view` again. If that was not you, another user of this machine has access: end the command.\n"
)


class AccessControl:
    """Lets requests through to an application, or refuses them with 403."""

    def __init__(self, app: ASGIApp, *, host: str, token: str) -> None:
        self._app, self._host, self._token = app, host, token
        self._used = False
        self._cookie = f"replay_view_{host.rpartition(':')[2]}"
        self._session = secrets.token_urlsafe(32)
        # Pictures are those of traces, in a run's report within it; a browser asks for no icon then, which is
        # not there.
        policy = f"{_POLICY}; img-src http://{host}/media/ data:"
        self._headers = {"Content-Security-Policy": policy, **_HEADERS}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI request."""
        if scope["type"] != "http":
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        has_session = self._has_session(Headers(scope=scope))
        answer = self._refusal(scope) or self._entry(scope, has_session=has_session)
        if answer is None and not has_session:
            answer = PlainTextResponse(
                _USED if self._used and self._has_token(scope) else _CLOSED, status_code=403
            )
        await (answer or self._app)(scope, receive, sealed)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() != self._host:
            return PlainTextResponse(_CLOSED, status_code=403)
        allowed = [f"http://{self._host}"]
        if origins != allowed and (origins or scope["method"] not in _SAFE):
            return PlainTextResponse("another site asked\n", status_code=403)
        # Pages of other ports are of the same site, and their requests carry the cookie.
        site = headers.get("sec-fetch-site", "none")
        if site not in ("none", "same-origin") and not self._has_token(scope):
            return PlainTextResponse("another site asked\n", status_code=403)
        return None

    def _entry(self, scope: Scope, *, has_session: bool) -> Response | None:
        """Return the answer to the address with the token.

        The cookie, and on to the page without the token.
        """
        if scope["method"] != "GET" or not self._has_token(scope) or (self._used and not has_session):
            return None
        self._used = True
        query = urlencode([pair for pair in _query(scope) if pair[0] != "token"])
        # `scope["path"]` may begin with several slashes, which would be another host.
        target = "/" + str(scope["path"]).lstrip("/") + (f"?{query}" if query else "")
        escaped = "".join(f"&#{ord(c)};" if c in "&<>\"'" else c for c in target)
        # No redirect: where another site led here, its target would not get the strict cookie.
        answer = HTMLResponse(
            f'<!doctype html><title>replaydiff</title><meta http-equiv="refresh" content="0;url={escaped}">'
        )
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return answer

    def _has_token(self, scope: Scope) -> bool:
        tokens = [value for name, value in _query(scope) if name == "token"]
        return len(tokens) == 1 and secrets.compare_digest(tokens[0].encode(), self._token.encode())

    def _has_session(self, headers: Headers) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and secrets.compare_digest(cookie.value.encode(), self._session.encode())


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(bytes(scope["query_string"]).decode("latin-1"), keep_blank_values=True)
