"""Names and texts as replay.toml writes them."""

from __future__ import annotations

import json


def toml_key(name: str) -> str:
    """Return a key of TOML, quoted where it must be.

    Args:
        name: the key.
    """
    is_bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if is_bare else toml_text(name)


def tool_table(name: str) -> str:
    """Return the head of a tool's table in replay.toml.

    Args:
        name: of the tool.
    """
    return f"[tools.{toml_key(name)}]"


def toml_text(text: str) -> str:
    """Return a basic string of TOML, which allows no control character.

    Args:
        text: what it holds.
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
