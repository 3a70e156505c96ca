"""What a module of a foreign format offers, and the table of them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Protocol, cast

from replaydiff.replay.model import Json, JsonObject

FORMATS = {
    "promptfoo": "replaydiff.cases.formats.promptfoo",
    "inspect": "replaydiff.cases.formats.inspect_ai",
    "deepeval": "replaydiff.cases.formats.deepeval",
    "pydantic-evals": "replaydiff.cases.formats.pydantic_evals",
    "langfuse": "replaydiff.cases.formats.langfuse",
    "openai-evals": "replaydiff.cases.formats.openai_evals",
}


@dataclass(slots=True)
class Taken:
    """A foreign record as the record of a case."""

    case: JsonObject
    unread: list[str] = field(default_factory=list)
    """What it says that a case has no word for: `assert javascript`."""


class Format(Protocol):
    """A module of `FORMATS`."""

    TITLE: str
    """The tool's name, as sentences name it."""
    FREE: str
    """The object of a record that is the user's own, and that the tool leaves alone."""
    ENDINGS: tuple[str, ...]
    """How its files end; the first is the usual one."""

    def recognises(self, document: Json) -> bool:
        """Whether a file's content is of this format; `document` is its one value, or a list of its lines."""

    def records(self, document: Json) -> tuple[list[Json], list[str]]:
        """The records of a file, and what the file says besides, which no case holds."""

    def to_case(self, record: JsonObject) -> Taken:
        """What a record says, in the words of a case."""

    def from_case(self, case: JsonObject) -> JsonObject:
        """What a case says, in the words of this format; what it has no words for is left out."""

    def document(self, records: list[JsonObject]) -> Json:
        """A file's content: one value, or a list where the file is JSON lines or a table."""


def load(name: str) -> Format:
    """The format of that name, one of `FORMATS`."""
    return cast("Format", importlib.import_module(FORMATS[name]))
