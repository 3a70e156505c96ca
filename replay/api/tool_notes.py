"""What recordings show about tools, in sentences for `import`, `doctor` and `init`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replaydiff.replay.effects import ToolEffect
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
    def proposal(self) -> str | None:
        """What to set, with the evidence; None where the settings agree with the recordings."""
        effect = self.effect
        table = tool_table(effect.name)
        if effect.contradiction is not None:
            return f'{table} has effect = "read", but {effect.contradiction}: set effect = "write"'
        if effect.basis == "recordings":
            return f'{effect.evidence}: set effect = "write" in {table}'
        return None

    @property
    def statement(self) -> str | None:
        """Whether other traces may answer a tool that reads; None for the others."""
        return None if self.proof is None else f"{self.effect.name}: {self.proof.describe(self.max_false)}"

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
