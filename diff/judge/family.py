"""Judges favour answers of their own kin: a warning where judge and candidate are of one model family."""

from __future__ import annotations

import re
from collections.abc import Iterable

_FAMILIES = {
    "Claude": r"claude",
    "GPT": r"gpt|chatgpt|\bo[1-9]\b",
    "Gemini": r"gemini|gemma",
    "Llama": r"llama",
    "Mistral": r"mi[sx]tral|magistral",
    "Qwen": r"qwen|qwq",
    "DeepSeek": r"deepseek",
    "Grok": r"grok",
    "Command": r"command-",
}


def family(model: str) -> str | None:
    """The family of a model by its name; None where the name does not tell."""
    name = model.lower()
    return next((title for title, pattern in _FAMILIES.items() if re.search(pattern, name)), None)


def kinship(judge: str, candidates: Iterable[str | None]) -> str | None:
    """A sentence where the judge is of the family of a model it judges; None where no kinship is known."""
    kin = family(judge)
    related = sorted({model for model in candidates if model and kin and family(model) == kin})
    if not related:
        return None
    if judge in related:
        return (
            f"the judge {judge} grades its own answers: models favour them; name another model in [judge], "
            "best of another family"
        )
    return (
        f"the judge {judge} and {', '.join(related)} are of one family ({kin}): models favour the answers of "
        "their kin; check the judge against hand labels"
    )
