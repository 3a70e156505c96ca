"""A conversation written as one text, as prompts of completion models are: `Human: Hello` … `AI: Hi!`.

Only a text that begins with a speaker counts: a person may well quote such lines within a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replaydiff.replay.model import Message

_BEGINNINGS = ("Human: ", "System: ", "Human:\n", "System:\n")
_SPEAKER = re.compile(r"^(Human|AI|Assistant|System):(?=\s|$)", re.MULTILINE)
_ROLES = {"Human": "user", "AI": "assistant", "Assistant": "assistant", "System": "system"}


def read_transcript(text: str) -> Iterator[Message]:
    """The turns of a transcript, without the empty one to be written; nothing where the text is none."""
    text = text.lstrip()
    if not text.startswith(_BEGINNINGS):
        return
    _, *parts = _SPEAKER.split(text)
    for speaker, spoken in zip(parts[::2], parts[1::2], strict=True):
        if spoken.strip():
            yield Message(role=_ROLES[speaker], text=spoken.strip())
