"""Every parser of foreign bytes, fed with bytes that are almost right, for as long as you like.

    .venv/bin/python -m tests.fuzz.parsers [SECONDS] [--only TARGET] [--seed N]

A target is a parser and the bytes that it reads well. Bytes are cut, doubled, swapped, spliced and replaced by
what parsers stumble over. A target may refuse them with an error of ours (`ReplayError`, a reject with its
reason) and nothing else; one input may take ten seconds. What breaks a target is kept in `tests/fuzz/corpus/`
and tried first from then on, in the default suite, too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from replaydiff.diff.judge.votes import read as read_verdict
from replaydiff.importers.base import BUILTIN, Reject, find_importer
from replaydiff.importers.collect import collected
from replaydiff.replay.errors import ReplayError
from replaydiff.replay.gateway.recording import STREAM, read_answer
from replaydiff.replay.golden import read_golden
from replaydiff.replay.llm.base import ModelReply, Stop
from replaydiff.replay.model import Json, Usage
from replaydiff.replay.redact.disguises import plain
from replaydiff.replay.redact.streams import redacted_stream
from replaydiff.replay.settings import load
from tests.importers.reading import SAMPLE_FILES

CORPUS = Path(__file__).parent / "corpus"
LONGEST_S = 10.0
"""For one input."""
LONGEST = 20_000
"""Bytes of an input."""
TOKENS = (
    b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"1e999", b"-0", b"NaN", b"9" * 400, b"[" * 300,
    b"{" * 300, b'{"a":' * 200, b"null", b"true", b'""', b"[]", b"{}", b"&a *a", b"!!python/object", b"<<: *a",
    b"%", b"\r", b"\n", b"\n\n", b"data: ", b"data: [DONE]", b"=1+1", b'"', b"'", b"---", b"\t", b"\xef\xbb\xbf",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A parser, and bytes that it reads."""

    parse: Callable[[bytes], object]
    seeds: Sequence[bytes]


class _Plain:
    """Redacts nothing: how a stream is taken apart and put together is what is tried."""

    def text(self, text: str, /) -> str:
        plain(text)
        return text.replace("e", "[E]")

    def value(self, value: Json, /) -> Json:
        return value


def _file(name: str, parse: Callable[[Path], object]) -> Callable[[bytes], object]:
    folder = Path(tempfile.mkdtemp(prefix="replay-fuzz-"))

    def of_bytes(data: bytes) -> object:
        (folder / name).write_bytes(data)
        return parse(folder / name)

    return of_bytes


def _importing(source: str) -> Callable[[Path], object]:
    def parse(path: Path) -> None:
        with collected([str(path)]) as files:
            for item in find_importer(source).read_files(files):
                if isinstance(item, Reject) and "please report" in item.reason:
                    raise AssertionError(item.reason)

    return parse


def _verdict(data: bytes) -> object:
    text = data.decode("utf-8", "replace")
    return read_verdict(ModelReply(text=text, stop=Stop.END, usage=Usage(), cost_usd=None), 0)


def _settings(path: Path) -> object:
    return load(path.parent, {})


def _streamed(data: bytes) -> object:
    text = data.decode("utf-8", "replace")
    return read_answer(STREAM, text), read_answer("application/json", text), redacted_stream(text, _Plain())


_CASE = {"id": "a", "input": "x", "expected_tool_calls": [{"name": "t", "args": {"n": 1}}], "tags": ["p"]}
_SETTINGS = b"""[agent]
entrypoint = "app.agent:run"
tools = ["app.agent:call"]
[run]
trials = 3
[versions.prod]
git = "v1"
args = { model = "m" }
[prices.m]
input = 1.0
output = 2.0
[import.redact]
patterns = { A = "x+" }
"""
_STREAM = b"""event: message_start
data: {"type":"message_start","message":{"model":"m","usage":{"input_tokens":1}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"n","input":{}}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\\"a\\":1}"}}

data: {"choices":[{"index":0,"delta":{"content":"he","tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}

data: {"type":"response.output_text.delta","output_index":0,"delta":"hello"}

data: [DONE]
"""


def targets() -> dict[str, Target]:
    """Return every target by its name."""
    found = {
        "golden jsonl": Target(_file("g.jsonl", read_golden), [json.dumps(_CASE).encode() + b"\n"]),
        "golden json": Target(_file("g.json", read_golden), [json.dumps([_CASE]).encode()]),
        "golden yaml": Target(
            _file("g.yaml", read_golden),
            [
                b"- id: a\n  input: &x hello\n  expected_tool_calls:\n    - {name: t, args: {n: 1}}\n  tags: [*x]\n"
            ],
        ),
        "golden csv": Target(_file("g.csv", read_golden), [b'id,input,expected_tools\na,"x\ny",t\n']),
        "settings": Target(_file("replay.toml", _settings), [_SETTINGS]),
        "verdict": Target(
            _verdict, [b'{"reasoning": "So it is.", "score": 3}', b'```json\n{"score": 1}\n```']
        ),
        "model's answer": Target(
            _streamed, [_STREAM, b'{"content":[{"type":"text","text":"x"}],"usage":{"input_tokens":3}}']
        ),
    }
    for source in BUILTIN:
        files = [path for path in SAMPLE_FILES if path.parent.name == source]
        seeds = [path.read_bytes()[:LONGEST] for path in files if path.suffix in (".json", ".jsonl")]
        if seeds:
            found[f"import {source}"] = Target(_file("f.jsonl", _importing(source)), seeds)
    return found


def mutated(data: bytes, chance: random.Random, others: Sequence[bytes]) -> bytes:
    """Return bytes with one to five changes."""
    made = bytearray(data)
    for _ in range(chance.randint(1, 5)):
        at = chance.randint(0, len(made))
        end = min(len(made), at + chance.choice((1, 2, 8, 64, 512)))
        match chance.randrange(7):
            case 0:
                del made[at:end]
            case 1:
                made[at:at] = made[at:end] * chance.choice((1, 2, 50))
            case 2:
                made[at:end] = bytes(chance.randrange(256) for _ in range(end - at))
            case 3:
                other = chance.choice(others)
                start = chance.randint(0, len(other))
                made[at:end] = other[start : start + chance.choice((4, 32, 256))]
            case 4:
                made = made[:at]
            case _:
                made[at : at if chance.random() < 0.5 else end] = chance.choice(TOKENS)
    return bytes(made[:LONGEST])


def problem(target: Target, data: bytes) -> str | None:
    """Return what is wrong with how a target reads these bytes; None where it reads or refuses them."""
    begun = time.monotonic()
    try:
        target.parse(data)
    except ReplayError:
        pass
    except Exception:  # noqa: BLE001 - that is what is looked for
        return traceback.format_exc()
    taken = time.monotonic() - begun
    return f"took {taken:.1f} s" if taken > LONGEST_S else None


def kept(name: str) -> list[bytes]:
    """Return what once broke a target."""
    return [path.read_bytes() for path in sorted((CORPUS / name.replace(" ", "-")).glob("*"))]


def main() -> int:
    """Try the targets in turn until the time is over; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=3600.0)
    parser.add_argument("--only", action="append")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    wanted = parser.parse_args()
    all_targets = targets()
    names = wanted.only or list(all_targets)
    chance, until = random.Random(wanted.seed), time.monotonic() + wanted.seconds
    tried, found = dict.fromkeys(names, 0), dict[str, str]()
    while time.monotonic() < until:
        for name in names:
            target = all_targets[name]
            for _ in range(50):
                data = mutated(chance.choice(target.seeds), chance, target.seeds)
                tried[name] += 1
                what = problem(target, data)
                if what is not None and (sign := f"{name}: {what.splitlines()[-1]}") not in found:
                    found[sign] = what
                    folder = CORPUS / name.replace(" ", "-")
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)
                    print(f"{name}: {what}", flush=True)
    for name, count in tried.items():
        print(f"{name}: {count:,} inputs")
    print(f"{sum(tried.values()):,} inputs with seed {wanted.seed}, {len(found)} kinds of failures")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
