"""Runs of several turns that are cut into a trace for each turn join to the same turns and calls."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import replaydiff as rd
from replaydiff.replay.conversations import input_messages
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.conversations import iter_conversations, read_conversations
from replaydiff.replay.turns import user_turns
from tests.importers.layouts import SESSION_FILES, TRACES_BY_TURN, Call, Turn

WRITERS = {**TRACES_BY_TURN, **SESSION_FILES}


def talks(number: int) -> dict[str, list[Turn]]:
    """Return conversations of two to six turns, with none to three model calls before each answer."""
    chance = random.Random(number)

    def call(key: str) -> Call:
        return chance.choice(["find_order", "cancel_order"]), {"id": key}, f"result of {key}"

    def turn(key: str) -> Turn:
        rounds = [
            [call(f"{key}-{n}-{m}") for m in range(chance.randint(1, 2))] for n in range(chance.randint(0, 3))
        ]
        return Turn(f"question {key}", rounds, f"answer {key}")

    return {f"s{n}": [turn(f"{n}-{m}") for m in range(chance.randint(2, 6))] for n in range(number)}


def joined(
    folder: Path, source: str, conversations: dict[str, list[Turn]]
) -> dict[str, list[tuple[str, int]]]:
    """Import the conversations in a format; return session → the text and calls of each turn of each trace."""
    (folder / "replay.toml").write_text("")
    files = folder / "files"
    files.mkdir()
    for name, turns in conversations.items():
        records = WRITERS[source](name, turns)
        (files / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    project = rd.open(folder)
    project.import_(files, source=source)
    found: dict[str, list[tuple[str, int]]] = {}
    with open_store(project.store.path, read_only=True) as con:
        chains = read_conversations(con).turns
        for trace in iter_conversations(con, [(first, *later) for first, later in chains.items()]):
            messages = input_messages(trace)
            of_trace = user_turns(messages, trace.tool_calls, trace.metadata)
            shown = [(messages[turn.end].text, turn.calls) for turn in of_trace]
            found[str(trace.session_id)] = found.get(str(trace.session_id), []) + shown
            names = [call.args["id"] for call in trace.tool_calls]
            assert names == [args["id"] for _, args, _ in all_calls(conversations[str(trace.session_id)])]
    return found


def all_calls(turns: list[Turn]) -> list[Call]:
    return [call for turn in turns for calls in turn.rounds for call in calls]


@pytest.mark.parametrize("source", WRITERS)
def test_a_trace_for_each_turn_joins_to_all_turns_and_calls(source: str, tmp_path: Path) -> None:
    conversations = talks(8)
    assert joined(tmp_path, source, conversations) == {
        name: [(turn.user, sum(map(len, turn.rounds))) for turn in turns]
        for name, turns in conversations.items()
    }
