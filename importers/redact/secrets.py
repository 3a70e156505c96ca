"""Keys, tokens and passwords: by the prefixes their issuers give them, or by what stands before them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replaydiff.importers.redact.found import Found, starting

_PREFIXED = starting(
    r"\w\-",
    r"(?:sk-[\w\-]{16,200}|pk-lf-[0-9a-f\-]{30,40}|[sprw]k_(?:live|test)_\w{10,200}|whsec_\w{16,200}"
    r"|A(?:KIA|SIA)[A-Z0-9]{16}|gh[pousr]_\w{20,255}|github_pat_\w{20,255}|glpat-[\w\-]{16,64}"
    r"|xox[abeprs]-[\w\-]{10,255}|AIza[\w\-]{30,64}|ya29\.[\w\-]{20,255}|hf_[A-Za-z0-9]{20,64}|npm_\w{20,64}"
    r"|pypi-[\w\-]{20,255}|SG\.[\w\-]{10,64}\.[\w\-]{10,64}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{20,64}"
    r"|lsv2_(?:pt|sk)_\w{20,128}|dop_v1_[0-9a-f]{20,128}"
    r"|eyJ[\w\-]{8,8000}\.[\w\-]{8,16000}\.[\w\-]{0,2000})(?![\w\-])",
)
_PREFIXES = (
    *(
        "sk-",
        "pk-lf-",
        "k_live_",
        "k_test_",
        "whsec_",
        "AKIA",
        "ASIA",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
    ),
    *(
        "github_pat_",
        "glpat-",
        "xox",
        "AIza",
        "ya29.",
        "hf_",
        "npm_",
        "pypi-",
        "SG.",
        "shp",
        "lsv2_",
        "dop_v1_",
    ),
    "eyJ",
)
_HEADER = re.compile(r"\b(?:bearer|basic)[ \t]{1,4}([\w.~+/=\-]{16,4000})", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"(?<![A-Za-z])(?:password|passwd|pwd|passphrase|secret|api[_-]?key|(?:access|private|secret)[_-]?key"
    r"|(?:access|auth|refresh|bearer|api)[_-]?token|client[_-]?secret)\\?[\"']?\s{0,3}[:=]\s{0,3}\\?[\"']?"
    r"([^\s\"',;&}{\\\[\]]{6,400})",
    re.IGNORECASE,
)
_WORDS = ("passw", "passp", "pwd", "secret", "key", "token", "bearer", "basic")
"""One of them stands in whatever `_HEADER` and `_ASSIGNED` find."""
_PEM = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----")
_PEM_END = re.compile(r"-----END [A-Z ]{0,30}PRIVATE KEY-----")
_LONGEST_PEM = 20_000


def secrets(text: str) -> Iterator[Found]:
    """What opens a door."""
    for match in _PREFIXED.finditer(text) if any(prefix in text for prefix in _PREFIXES) else ():
        if _has_digit(match[0]):
            yield Found(match.start(), match.end(), "KEY", match[0])
    lowered = text.lower()
    for pattern in (_HEADER, _ASSIGNED) if any(word in lowered for word in _WORDS) else ():
        for match in pattern.finditer(text):
            if _has_digit(match[1]):
                yield Found(match.start(1), match.end(1), "KEY", match[1])
    yield from _private_keys(text)


def _private_keys(text: str) -> Iterator[Found]:
    position = 0
    while begin := _PEM.search(text, position):
        limit = min(begin.end() + _LONGEST_PEM, len(text))
        end = _PEM_END.search(text, begin.end(), limit)
        # A key that was cut is one, too.
        position = end.end() if end else limit
        yield Found(begin.start(), position, "KEY", text[begin.end() : position])


def _has_digit(text: str) -> bool:
    return any(character.isdigit() for character in text)
