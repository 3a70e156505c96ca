"""Cut recorded runs of several turns into a trace for each turn, in each format, and join them again.

    python -m benchmarks.cut_and_join FILE…

Each file holds runs of several turns of a user: chat logs of OpenAI's shape, or traces of this project's own
format. Their turns and calls are written in every format of `tests.importers.layouts`, imported by its importer
and joined. Prints how many conversations, turns and calls come back.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import replaydiff as rd
from replaydiff.importers.base import find_importer
from replaydiff.importers.collect import collected
from replaydiff.replay.conversations import input_messages
from replaydiff.replay.messages import join_results
from replaydiff.replay.messages.decode import as_json
from replaydiff.replay.model import Message, Trace
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.conversations import iter_conversations, read_conversations
from replaydiff.replay.turns import user_turns
from tests.importers.layouts import SESSION_FILES, TRACES_BY_TURN, Call, Turn

Shown = list[tuple[str, int]]
"""Text and number of calls of each turn."""


def turns_of(messages: Sequence[Message]) -> Iterator[Turn]:
    """Yield the turns of a run that were answered in words; results are text, as every format can write it."""
    results = iter(join_results(messages))
    turn: Turn | None = None
    for message in messages:
        if message.role == "user":
            if turn is not None and turn.answer:
                yield turn
            turn = Turn(message.text.strip(), [], "")
        elif message.role == "assistant":
            recorded = [next(results) for _ in message.tool_calls]
            calls: list[Call] = [(call.name, call.args, as_json(call.result)) for call in recorded]
            if turn is not None and turn.user:
                rounds = [*turn.rounds, *([calls] if calls else [])]
                turn = turn._replace(rounds=rounds, answer="" if calls else message.text.strip())
    if turn is not None and turn.answer:
        yield turn


def runs(path: Path) -> dict[str, list[Turn]]:
    """Return the runs of a file that have several turns."""
    source = "openai" if ".openai." in path.name else "jsonl"
    with collected([str(path)]) as files:
        traces = [item for item in find_importer(source).read_files(files) if isinstance(item, Trace)]
    conversations = {f"{path.name[:12]}-{n}": [*turns_of(trace.messages)] for n, trace in enumerate(traces)}
    return {name: turns for name, turns in conversations.items() if len(turns) > 1}


def joined(source: str, conversations: dict[str, list[Turn]]) -> dict[str, Shown]:
    """Write and import the conversations in a format; return what was joined."""
    writers = {**TRACES_BY_TURN, **SESSION_FILES}
    shown: dict[str, Shown] = {}
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "files"
        files.mkdir()
        (Path(folder) / "replay.toml").write_text("")
        for name, turns in conversations.items():
            lines = [json.dumps(record) + "\n" for record in writers[source](name, turns)]
            (files / f"{name}.jsonl").write_text("".join(lines))
        project = rd.open(folder)
        project.import_(files, source=source)
        with open_store(project.store.path, read_only=True) as con:
            chains = [(first, *later) for first, later in read_conversations(con).turns.items()]
            for trace in iter_conversations(con, chains):
                messages = input_messages(trace)
                of_trace = user_turns(messages, trace.tool_calls, trace.metadata)
                shown.setdefault(str(trace.session_id), []).extend(
                    (messages[turn.end].text.strip(), turn.calls) for turn in of_trace
                )
    return shown


def main() -> None:
    """Print a row for each format."""
    conversations = {name: turns for file in sys.argv[1:] for name, turns in runs(Path(file)).items()}
    expected = {
        name: [(turn.user, sum(map(len, turn.rounds))) for turn in turns]
        for name, turns in conversations.items()
    }
    turns = sum(map(len, expected.values()))
    calls = sum(number for shown in expected.values() for _, number in shown)
    print(f"{len(expected)} conversations, {turns} turns, {calls} calls\n")
    print("| format | conversations | turns | calls |\n|---|---|---|---|")
    for source in (*TRACES_BY_TURN, *SESSION_FILES):
        shown = joined(source, conversations)
        same = [name for name in expected if shown.get(name) == expected[name]]
        joined_turns = sum(len(shown.get(name, ())) for name in expected)
        joined_calls = sum(number for name in expected for _, number in shown.get(name, ()))
        print(f"| `{source}` | {len(same)} | {joined_turns} | {joined_calls} |", flush=True)


if __name__ == "__main__":
    main()
