"""What tokens cost."""

from __future__ import annotations

import pytest

from replaydiff.replay.llm import prices
from replaydiff.replay.model import Usage
from replaydiff.replay.settings import Price

MILLION = 1_000_000


def test_input_counts_cached_tokens_once() -> None:
    usage = Usage(
        input_tokens=1_000_000, output_tokens=100_000, cache_read_tokens=600_000, cache_write_tokens=300_000
    )
    # 0.1 M plain at 4, 0.3 M written at 5, 0.6 M read at 0.20, 0.1 M written by the model at 20.
    assert prices.cost("claude-opus-5-5", usage) == pytest.approx(0.4 + 1.5 + 0.12 + 2.0)


def test_cache_prices_follow_the_input_price_where_the_table_has_none() -> None:
    usage = Usage(input_tokens=2 * MILLION, cache_read_tokens=MILLION, cache_write_tokens=MILLION)
    assert prices.cost("claude-haiku-4-5", usage) == pytest.approx(0.1 + 1.25)


@pytest.mark.parametrize(
    "name",
    [
        "claude-haiku-4-5",
        "claude-haiku-4-5-20251001",
        "anthropic/claude-haiku-4-5",
        "us.anthropic.claude-haiku-4-5-20251001-v1:0",
        "claude-haiku-4-5@20251001",
    ],
)
def test_one_model_has_many_names(name: str) -> None:
    assert prices.price_of(name) == Price(input=1.0, output=5.0)


def test_an_unknown_model_has_no_cost_and_a_note() -> None:
    assert prices.cost("gpt-9", Usage(input_tokens=5)) is None
    assert '[prices."gpt-9"]' in (prices.doubt("gpt-9") or "")


def test_the_users_price_comes_first() -> None:
    own = {"claude-opus-5-5": Price(input=1, output=2), "gpt-9": Price(input=3, output=0)}
    usage = Usage(input_tokens=MILLION, output_tokens=MILLION)
    assert prices.cost("claude-opus-5-5", usage, own) == 3
    assert prices.cost("gpt-9", usage, own) == 3
    assert prices.doubt("gpt-9", own) is None


def test_an_uncertain_price_says_so() -> None:
    assert "not certain" in (prices.doubt("claude-haiku-5-5") or "")
    assert prices.doubt("claude-opus-5-5") is None
