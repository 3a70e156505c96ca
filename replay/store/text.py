"""Text that any database and any JSON reader takes, whatever an agent or a user has written.

Real traces hold lone surrogates (half an emoji, cut by a length limit), NULs and NaN. DuckDB refuses the
first, other tools stumble over the rest, so all of them are replaced before anything is stored:
surrogates and NULs by U+FFFD, NaN and infinities by null.
"""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec

from replaydiff.replay.model import Json
from replaydiff.replay.model.json import encode_hook, to_json_value

_BAD = re.compile("[\ud800-\udfff\x00]")
_encoder = msgspec.json.Encoder(enc_hook=encode_hook)


def clean(value: Json) -> Json:
    """The value with every string and key made storable, and NaN and infinities turned to null.

    Two keys that become equal by it keep the last value.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {clean_text(key): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    return value


def clean_text(text: str) -> str:
    """The text with lone surrogates and NULs replaced by U+FFFD."""
    if text.isascii() and "\x00" not in text:
        return text
    return _BAD.sub("\ufffd", text)


def encode(value: Any) -> str:
    """Clean JSON text of a domain type or JSON value (the encoder writes NaN and infinities as null)."""
    try:
        text = _encoder.encode(value).decode()
    except UnicodeEncodeError:
        return encode(clean(to_json_value(value)))
    # A NUL is always written as this escape (it may also be a backslash before `u0000`: that stays).
    if "\\u0000" in text:
        return _encoder.encode(clean(msgspec.json.decode(text))).decode()
    return text
