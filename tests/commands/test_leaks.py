"""With redaction on, no personal data and no secret leaves an import or a run by any output."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("mcp", reason="the MCP SDK is not installed")

from replaydiff.replay.redact.disguises import plain
from replaydiff.replay.redact.streams import redacted_stream
from tests.commands.leaks import ALL, EMAIL, KEY, PAGE, count, leaks, outputs, with_table


@pytest.mark.slow
def test_no_output_contains_what_was_seeded(tmp_path: Path) -> None:
    found = outputs(tmp_path / "shop")
    assert {name: leaks(text) for name, text in found.items() if count(text)} == {}
    # It came everywhere, redacted: nothing was lost on the way.
    for text in (found["the store, every table"], found["report: html"], found["exports"]):
        assert "[EMAIL_1]" in text
        assert "[KEY_" in text
    assert PAGE.read_text() == with_table(PAGE.read_text(), found), "run `python -m tests.commands.leaks`"


def test_the_count_sees_every_form() -> None:
    assert count(ALL) >= 8
    assert count(KEY) == 1
    assert count("[EMAIL_1] and order 7") == 0


class _Masking:
    """Replaces one address."""

    def text(self, text: str, /) -> str:
        return text.replace(EMAIL, "[EMAIL_1]")

    def value(self, value: object, /) -> object:
        return json.loads(json.dumps(value).replace(EMAIL, "[EMAIL_1]"))


def _anthropic(piece: str) -> dict[str, object]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}


def _chat(piece: str) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": piece}}]}


def _response(piece: str) -> dict[str, object]:
    return {"type": "response.output_text.delta", "output_index": 0, "delta": piece}


@pytest.mark.parametrize("event", [_anthropic, _chat, _response])
@given(cuts=st.sets(st.integers(0, len(EMAIL) + 8), max_size=6))
def test_an_address_in_pieces_of_a_stream_is_redacted(event, cuts: set[int]) -> None:  # type: ignore[no-untyped-def]
    text = f"to {EMAIL}, ok"
    places = [0, *sorted(cuts), len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(places)]
    stream = (
        "".join(f"event: x\ndata: {json.dumps(event(piece))}\n\n" for piece in pieces) + "data: [DONE]\n\n"
    )
    redacted = redacted_stream(stream, _Masking())  # type: ignore[arg-type]
    lines = [json.loads(line[5:]) for line in redacted.splitlines() if line.startswith("data: {")]
    assert len(lines) == len(pieces)
    assert "[EMAIL_1]" in redacted
    assert not any(part in redacted for part in ("jane", "roe999", "example", "bank"))
    assert redacted.endswith("data: [DONE]\n\n")


@given(st.text())
def test_a_text_without_disguises_keeps_its_places(text: str) -> None:
    found = plain(text)
    if found is not None and found.places is not None:
        assert len(found.places) == len(found.text) + 1
        assert found.places == sorted(found.places)
        assert found.places[-1] == len(text)
