"""What recordings show about tools, in sentences for `import`, `doctor` and `init`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replaydiff.replay.effects import ToolEffect, effect_by_name
from replaydiff.replay.proofs import Proof
from replaydiff.replay.settings import Settings
from replaydiff.replay.settings.toml import tool_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolNote:
    """What the recordings of a store show about one tool."""

    effect: ToolEffect
    proof: Proof | None
    """For a tool that reads: how often other sessions would have answered it falsely."""
    max_false: float
    """The share of false answers that `[world] max_false` allows."""

    @property
    def state(self) -> tuple[object, ...]:
        """Return what an import reports about the tool, without counts, which change with each import."""
        proof = self.proof
        is_proven = None if proof is None or not proof.checked else proof.bound <= self.max_false
        return self.effect.name, self.effect.effect, self.effect.contradiction is None, is_proven

    @property
    def proposal(self) -> str | None:
        """Return what to set, with the evidence; None where settings or name agree with the recordings."""
        effect = self.effect
        table = tool_table(effect.name)
        if effect.contradiction is not None:
            return f'{table} has effect = "read", but {effect.contradiction}: set effect = "write"'
        if effect.basis == "recordings" and effect_by_name(effect.name) != "write":
            return f'{effect.evidence}: set effect = "write" in {table}'
        return None

    @property
    def comments(self) -> tuple[str, ...]:
        """Return what replay.toml says beside the effect of the tool, a line each."""
        effect = self.effect
        recorded = effect.evidence if effect.basis == "recordings" else None
        unsteady = None if effect.steady else "equal calls return something else with no write between them"
        proof = None if self.proof is None else self.proof.describe(self.max_false)
        return tuple(filter(None, (recorded, unsteady, proof)))

    def to_dict(self) -> dict[str, Any]:
        """Return the note as JSON documents have it."""
        proof = self.proof
        return {
            "name": self.effect.name,
            "effect": self.effect.effect,
            "basis": self.effect.basis,
            "evidence": self.effect.evidence,
            "contradiction": self.effect.contradiction,
            "proven": None if proof is None else proof.bound <= self.max_false,
            "checked": None if proof is None else proof.checked,
            "false": None if proof is None else proof.false,
        }


def tool_notes(con: DuckDBPyConnection, settings: Settings) -> list[ToolNote]:
    """Return what the recordings of a store show about each tool.

    Args:
        con: the store.
        settings: effects that are set, renames, and what counts as proof.
    """
    from replaydiff.replay.effects import learn_effects
    from replaydiff.replay.proofs import prove_tools
    from replaydiff.replay.renames import Renames

    world, tools = settings.world, settings.tools
    effects = learn_effects(con, tools)
    reads = [name for name, tool in effects.items() if tool.effect == "read"]
    ignored = {
        name: {*settings.agent.ignore_args, *(tools[name].ignore_args if name in tools else ())}
        for name in reads
    }
    proofs = prove_tools(con, reads, world.proven, ignored, Renames.of(tools))
    return [
        ToolNote(effect=effect, proof=proofs.get(name), max_false=world.max_false)
        for name, effect in effects.items()
    ]


def describe_notes(notes: Sequence[ToolNote]) -> list[str]:
    """Return what recordings show, a sentence for each effect and each state of proof.

    Args:
        notes: what is known about each tool; tools of which the same is true share a sentence.
    """
    effects = [note.effect.evidence for note in notes if note.effect.basis == "recordings"]
    comments = [(note, comment) for note in notes for comment in note.comments if comment not in effects]
    return [*effects, *_grouped(comments)]


def describe_proofs(notes: Sequence[ToolNote]) -> list[str]:
    """Return which tools other traces may answer and which not, a sentence for each state of proof."""
    return _grouped((note, note.proof.describe(note.max_false)) for note in notes if note.proof is not None)


def _grouped(sentences: Iterable[tuple[ToolNote, str]]) -> list[str]:
    tools_by_sentence: dict[str, list[str]] = {}
    for note, sentence in sentences:
        tools_by_sentence.setdefault(sentence, []).append(note.effect.name)
    return [f"{', '.join(tools)}: {sentence}" for sentence, tools in tools_by_sentence.items()]


FILE_BYTES = 32 * 1024 * 1024
"""How much of trace files `notes_of_files` reads."""


def notes_of_files(files: Sequence[Path], settings: Settings) -> list[ToolNote]:
    """Return what trace files show about each tool; they are read into a store that is deleted again.

    Args:
        files: of JSON lines in any format that `import auto` knows; the first `FILE_BYTES` are read.
        settings: effects that are set, renames, and what counts as proof.

    Raises:
        ReplayError: a file cannot be imported.
    """
    from replaydiff.importers.collect import collected, detect
    from replaydiff.importers.ingest import ingest
    from replaydiff.replay.store.connection import open_store

    with _beginnings(files) as paths, collected([str(path) for path in paths]) as inputs:
        store = paths[0].parent / "store.duckdb"
        with open_store(store) as con:
            for file in inputs:
                ingest(con, detect(file), [file])
            return tool_notes(con, settings)


@contextmanager
def _beginnings(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Copy the first whole lines of files into a folder that is deleted again."""
    left = FILE_BYTES
    with tempfile.TemporaryDirectory(prefix="replay-init-") as folder:
        copies = []
        for number, file in enumerate(files):
            with file.open("rb") as source:
                text = source.read(left + 1)
            if len(text) > left:
                text = text[: text.rfind(b"\n", 0, left) + 1]
            left -= len(text)
            if text:
                copies.append(Path(folder) / f"{number}-{file.name}")
                copies[-1].write_bytes(text)
        yield copies
