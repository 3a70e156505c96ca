"""Who may ask: only a browser that was given the address, and only pages of this site in it.

A server on 127.0.0.1 can be reached by every web page that the same browser has open. Four things keep those
out: the Host must be this server's own (so no name of theirs that points to 127.0.0.1 gets in); an Origin,
where one is sent, must be this site; who changes something must send one; and each request needs the cookie
that only the address with the token gives. The cookie's name has the port, since browsers share cookies
between the ports of a host. No answer allows another origin anything.
"""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SAFE = ("GET", "HEAD")
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not `no-referrer`: with that, browsers send `Origin: null` with forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_CLOSED = "open the address that `replay view` printed\n"


class AccessControl:
    """Lets requests through to an application, or refuses them with 403."""

    def __init__(self, app: ASGIApp, *, port: int, token: str) -> None:
        self._app, self._token = app, token
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._cookie = f"replay_view_{port}"
        self._session = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        answer = self._refusal(scope) or self._entry(scope)
        if answer is None and not self._is_known(Headers(scope=scope)):
            answer = PlainTextResponse(_CLOSED, status_code=403)
        await (answer or self._app)(scope, receive, sealed)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return PlainTextResponse(f"this is {self._hosts[0]}\n", status_code=403)
        own = [f"http://{hosts[0].lower()}"]
        if origins != own and (origins or scope["method"] not in _SAFE):
            return PlainTextResponse("another site asked\n", status_code=403)
        # Pages of other ports are of the same site, and their requests carry the cookie.
        site = headers.get("sec-fetch-site", "none")
        if site not in ("none", "same-origin") and not self._has_token(scope):
            return PlainTextResponse("another site asked\n", status_code=403)
        return None

    def _entry(self, scope: Scope) -> Response | None:
        """The answer to the address with the token: the cookie, and on to the page without the token."""
        if scope["method"] not in _SAFE or not self._has_token(scope):
            return None
        rest = urlencode([pair for pair in _query(scope) if pair[0] != "token"])
        # `scope["path"]` may begin with several slashes, which would be another host.
        target = "/" + str(scope["path"]).lstrip("/") + (f"?{rest}" if rest else "")
        escaped = "".join(f"&#{ord(c)};" if c in "&<>\"'" else c for c in target)
        # No redirect: where another site led here, its target would not get the strict cookie.
        answer = HTMLResponse(
            f'<!doctype html><title>replaydiff</title><meta http-equiv="refresh" content="0;url={escaped}">'
        )
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return answer

    def _has_token(self, scope: Scope) -> bool:
        given = [value for name, value in _query(scope) if name == "token"]
        return len(given) == 1 and secrets.compare_digest(given[0].encode(), self._token.encode())

    def _is_known(self, headers: Headers) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and secrets.compare_digest(cookie.value.encode(), self._session.encode())


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(bytes(scope["query_string"]).decode("latin-1"), keep_blank_values=True)
