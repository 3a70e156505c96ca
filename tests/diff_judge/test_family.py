"""Judges favour their kin: the warning."""

from __future__ import annotations

import pytest

from replaydiff.diff.judge.judge import model_family, self_preference_warning


@pytest.mark.parametrize(
    ("model", "title"),
    [
        ("claude-opus-5-5", "Claude"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "Claude"),
        ("gpt-5.2-mini", "GPT"),
        ("o4-mini", "GPT"),
        ("openai/o3", "GPT"),
        ("gemini-3-pro", "Gemini"),
        ("mixtral-8x7b", "Mistral"),
        ("house-model", None),
    ],
)
def test_family_by_name(model: str, title: str | None) -> None:
    assert model_family(model) == title


def test_kinship_names_judge_and_candidates() -> None:
    said = self_preference_warning("claude-opus-5-5", ["claude-haiku-5-5", None, "gpt-5", "claude-haiku-5-5"])
    assert said is not None
    assert said.startswith("the judge claude-opus-5-5 and claude-haiku-5-5 are of one family (Claude)")
    assert "grades its own answers" in (self_preference_warning("gpt-5", ["gpt-5", "claude-opus-5-5"]) or "")


def test_no_kinship() -> None:
    assert self_preference_warning("claude-opus-5-5", ["gpt-5", "gemini-3-pro", None]) is None
    assert self_preference_warning("house-model", ["house-model-2"]) is None
