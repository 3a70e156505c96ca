"""Keep secrets out of everything that is stored, printed or reported.

A secret is the value of an environment variable whose name shows it, and of a setting, command-line option or
query parameter whose name does. Values of the environment become `[NAME]`, the others `[masked]`.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit, urlunsplit

from replaydiff.replay.model import Json, Version

_NAME = re.compile(
    r"KEY(?![A-Z])|TOKEN(?!S|IZ)|SECRET|PASSWORD|PASSWD|CREDENTIAL|(?:^|[_-])O?AUTH(?:[_-]|$)|AUTHORIZATION",
    re.IGNORECASE,
)
_URL_SAFE = str.maketrans("+/", "-_")
_SHORTEST = 8
"""Characters; a shorter value ("1", "basic") would be masked within ordinary words."""
MASKED = "[masked]"


def is_secret_name(name: str) -> bool:
    """Return whether a name suggests that its value is a secret: `ACME_API_KEY`, `--token`."""
    return _NAME.search(name) is not None


def masked(text: str) -> str:
    """Return a text, or JSON text, without the values of secret environment variables."""
    return masker()(text)


def masker() -> Callable[[str], str]:
    """Return `masked` with the secrets that the environment has now, for many texts."""
    forms = [(form, f"[{name}]") for name, value in _secrets() for form in _forms(value)]

    def mask(text: str) -> str:
        for form, name in forms:
            text = text.replace(form, name)
        return text

    return mask


def masked_version(version: Version) -> Version:
    """Return a version without its environment, and without secrets in arguments, command, URL and setup."""
    args: Any = _masked_values(version.args)
    setup: Any = _masked_values(version.setup)
    return replace(
        version,
        name=masked(masked_url(version.name) if "://" in version.name else version.name),
        args=args,
        setup=setup,
        command=tuple(_masked_words(version.command)),
        url=None if version.url is None else masked_url(version.url),
        env={},
    )


def masked_url(url: str) -> str:
    """Return a URL without the values of query parameters that are secrets by their name."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return masked(url)
    if not any(is_secret_name(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        return masked(url)
    query = "&".join(
        f"{name}={MASKED}" if is_secret_name(name) else f"{name}{equals}{value}"
        for name, equals, value in (pair.partition("=") for pair in parts.query.split("&"))
    )
    return masked(urlunsplit(parts._replace(query=query)))


def _forms(value: str) -> list[str]:
    """Return a value as it is, percent-encoded, in base64, and within JSON text (in another one, too).

    The longest first.
    """
    forms = {value, quote(value, safe=""), quote_plus(value), *_in_base64(value)}
    inner = {value}
    for _ in range(2):
        inner = {
            json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in inner for ascii_only in (True, False)
        }
        forms |= inner
    return sorted(forms, key=len, reverse=True)


def _in_base64(value: str) -> Iterator[str]:
    """Yield the digits that a value has in base64, wherever it begins in the text that is encoded.

    The first and the last digit, which depend on its neighbours, are left out.
    """
    for before in range(3):
        digits = base64.b64encode(b"-" * before + value.encode(errors="surrogateescape")).decode()
        digits = digits.rstrip("=")[-(-before * 8 // 6) : -1]
        yield digits
        yield digits.translate(_URL_SAFE)


def _secrets() -> Iterator[tuple[str, str]]:
    """Yield the secrets of the environment, the longest first: one may contain another."""
    secrets = [
        (name, value)
        for name, value in os.environ.items()
        if len(value) >= _SHORTEST and is_secret_name(name) and not os.path.exists(value)  # noqa: PTH110
    ]
    yield from sorted(secrets, key=lambda pair: -len(pair[1]))


def _masked_values(value: Json, *, secret: bool = False) -> Json:
    if isinstance(value, dict):
        return {
            key: _masked_values(inner, secret=secret or is_secret_name(key)) for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_masked_values(inner, secret=secret) for inner in value]
    if secret and isinstance(value, str):
        return MASKED
    return masked(value) if isinstance(value, str) else value


def _masked_words(words: tuple[str, ...]) -> Iterator[str]:
    """Mask `--token X`, `--token=X` and `TOKEN=X` of a command."""
    secret = False
    for word in words:
        name, equals, _ = word.partition("=")
        if equals and is_secret_name(name):
            yield f"{name}={MASKED}"
        else:
            yield MASKED if secret else masked_url(word) if "://" in word else masked(word)
        secret = word.startswith("-") and not equals and is_secret_name(word)
