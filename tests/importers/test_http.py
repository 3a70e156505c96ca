"""The client of live sources: what it waits for, what it gives up on, and what it never says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from replaydiff.importers.http import (
    ATTEMPTS,
    LONGEST_WAIT_S,
    HttpError,
    JsonClient,
    check_next,
    read_url,
    wait_of,
)
from replaydiff.replay.errors import CredentialsError, SettingsError
from tests.stand_ins.loopback import CUT, Loopback, serving

KEY = "key-that-nobody-may-read"


def _client(server: Loopback, waits: list[float]) -> JsonClient:
    headers = {"Authorization": f"Bearer {KEY}"}
    return JsonClient(server.url, headers=headers, service="Acme", keys="ACME_KEY", sleep=waits.append)


def test_waits_grow_between_tries_and_end() -> None:
    waits: list[float] = []
    with serving(lambda _request: (200, {})) as server, _client(server, waits) as client:
        server.stumbles = iter([500] * ATTEMPTS)
        with pytest.raises(
            HttpError, match=r"Acme at http://127.*answered HTTP 500.*asked 6 times"
        ) as failed:
            client.get("/things")
        assert (failed.value.status, failed.value.heavy) == (500, True)
    assert len(waits) == ATTEMPTS - 1
    assert all(2**n / 4 <= wait <= min(2**n / 2, LONGEST_WAIT_S) for n, wait in enumerate(waits))


def test_a_body_that_is_cut_is_asked_for_again_and_a_post_too() -> None:
    waits: list[float] = []
    with (
        serving(lambda request: (200, {"you said": request.body})) as server,
        _client(server, waits) as client,
    ):
        server.stumbles = iter([CUT, 503, CUT])
        assert client.post("/query", {"limit": 7}) == {"you said": {"limit": 7}}
        assert client.answers == 1
    assert len(waits) == 3


def test_a_heavy_question_is_given_up_early_where_a_smaller_one_can_be_asked() -> None:
    waits: list[float] = []
    with serving(lambda _request: (200, {})) as server, _client(server, waits) as client:
        server.stumbles = iter([CUT, 504, CUT])
        with pytest.raises(HttpError) as failed:
            client.get("/things", heavy_attempts=3)
        assert failed.value.heavy
        assert client.get("/things") == {}
    assert len(waits) == 2


@pytest.mark.parametrize("status", [401, 403])
def test_refused_keys_are_named_and_not_shown(status: int) -> None:
    with (
        serving(lambda request: (status, {"message": request.headers["authorization"]})) as server,
        _client(server, []) as client,
        pytest.raises(CredentialsError, match="check ACME_KEY") as failed,
    ):
        client.get("/things")
    assert KEY not in str(failed.value)


def test_what_a_server_says_is_shown_without_the_key_and_without_control_characters() -> None:
    def answer(request: object) -> tuple[int, object]:
        return 422, {"detail": f"no \x1b[31m good: Bearer {KEY}"}

    with (
        serving(answer) as server,
        _client(server, []) as client,
        pytest.raises(HttpError, match=r"HTTP 422: no .*good: …") as failed,
    ):
        client.get("/things")
    assert KEY not in str(failed.value)
    assert "\x1b" not in str(failed.value)


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"retry-after": "7"}, 7, 7),
        ({"retry-after": "2.5"}, 2.5, 2.5),
        ({"retry-after": lambda when: format_datetime(when, usegmt=True)}, 6000, 7200),
        ({"x-ratelimit-reset": datetime.isoformat}, 6000, 7200),
        ({"x-ratelimit-reset": lambda when: str(when.timestamp())}, 6000, 7200),
        ({"x-ratelimit-reset": "12"}, 12, 12),
        ({"retry-after": "3", "x-ratelimit-reset": "12"}, 3, 3),
        ({"retry-after": "Thu, 01 Jan 2015 00:00:00 GMT"}, 0, 0),
        ({"retry-after": "soon"}, 1, 1),
        ({"retry-after": "nan"}, 1, 1),
        ({}, 1, 1),
    ],
)
def test_how_long_a_server_asks_to_wait(
    headers: dict[str, str | Callable[[datetime], str]], low: float, high: float
) -> None:
    # Written now, and not when tests are collected, which may be long before.
    later = datetime.now(UTC) + timedelta(hours=2)
    sent = {name: value if isinstance(value, str) else value(later) for name, value in headers.items()}
    assert low <= wait_of(sent) <= high


@pytest.mark.parametrize(
    "url", ["", "host", "ftp://host", "https://", "https://host/?a=b", "http://host:port"]
)
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(SettingsError, match="ACME_URL must be an address"):
        read_url("ACME_URL", url)


def test_an_address_with_a_key_in_it_is_refused_without_showing_it() -> None:
    with pytest.raises(SettingsError) as failed:
        read_url("ACME_URL", f"https://me:{KEY}@host")
    assert KEY not in str(failed.value)
    assert read_url("ACME_URL", " https://host/base/ ") == "https://host/base"


def test_a_page_that_names_itself_as_the_next_one_is_refused() -> None:
    for place, following in ((None, None), ("", ""), ("a", None), (None, "a"), ("a", "b")):
        check_next(place, following, "/things")
    with pytest.raises(HttpError, match="the same page of /things again and again"):
        check_next("a", "a", "/things")
