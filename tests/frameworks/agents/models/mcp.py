"""What stands in for a model where an agent calls the tools of a server: the user's message lists the calls."""

import json
from typing import Any


def choose(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls of the first round."""
    return [(name, given) for name, given in json.loads(text)[0]]
