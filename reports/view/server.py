"""Serving the local page on 127.0.0.1 until the person ends it."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable

import uvicorn

from replaydiff.replay.errors import InputError
from replaydiff.reports.view.app import build
from replaydiff.reports.view.site import Site


def serve(site: Site, *, port: int, opened: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `opened` gets the address with its token once the port is there.

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
        config = uvicorn.Config(
            build(site, port=port, token=token),
            log_level="error",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
        opened(f"http://127.0.0.1:{port}/?token={token}")
        uvicorn.Server(config).run(sockets=[listening])
