"""The judge of the settings: its model, its rubric, and what its grades are bound to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace

from replaydiff.diff.judge import prompt
from replaydiff.replay.errors import SettingsError
from replaydiff.replay.llm import anthropic, batches, openai_compatible, prices
from replaydiff.replay.llm.base import Model
from replaydiff.replay.llm.batches import Batches
from replaydiff.replay.llm.providers import PROVIDERS, connector
from replaydiff.replay.model import JudgeId, Usage
from replaydiff.replay.settings import Price, Settings

_SETTING = "[judge] provider"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """A judge with its model, prompt and rubric."""

    id: JudgeId
    """The identity in its grades. The model includes the host where that is not the vendor's."""
    model: str
    rubric: str
    user_rubric: bool
    """Whether the rubric is the user's: it may judge items that have nothing to compare a response with."""
    votes: int
    max_tokens: int
    concurrency: int
    """Calls in flight at once."""
    connect: Callable[[], AbstractAsyncContextManager[Model]]
    batches: Callable[[], AbstractAsyncContextManager[Batches]] | None = None
    """How its provider takes many questions at once; None where it does not."""
    batch: bool = False
    """Whether its questions are sent that way."""
    pairwise: bool = False
    """Whether it also compares old and new trials, pair by pair."""
    notes: tuple[str, ...] = ()
    """Sentences on the model: a price that is not known, an announced end."""
    free: bool = False
    """Whether it costs nothing: it answers on this machine."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """The user's own."""

    @property
    def version(self) -> str:
        """Return the grader version of its grades: model, prompt and rubric.

        More votes are no other judge.
        """
        return grader_version(self.id)

    @property
    def pairwise_id(self) -> JudgeId:
        """Return the identity in its comparisons."""
        return pairwise_id(self.id)

    @property
    def versions(self) -> tuple[str, ...]:
        """Return the grader versions of its grades and of its comparisons."""
        return self.version, grader_version(self.pairwise_id)

    def price(self, usage: Usage) -> float | None:
        """Return the price of these tokens in US dollars, with the batch discount if used; None if
        unknown."""
        if self.free:
            return 0.0
        full = prices.cost(self.model, usage, self.prices)
        return None if full is None else full * (batches.PRICE_SHARE if self.batch else 1)


def grader_version(judge: JudgeId) -> str:
    """Return a judge as the grader version of grades."""
    return f"{judge.model}/{judge.prompt_hash}/{judge.rubric_hash}"


def judge_identity(settings: Settings) -> JudgeId | None:
    """Return the identity in grades of the settings' judge; None where no model is named there.

    Raises:
        SettingsError: the rubric cannot be read.
    """
    section = settings.judge
    if section.model is None:
        return None
    # What answers on this machine is not the model whose name it bears: its grades are no other's. Nor need
    # two hosts mean the same by a name.
    named = section.model
    if section.provider not in PROVIDERS:
        named += f" by {section.provider}"
    elif anthropic.is_loopback(section.base_url):
        named += " on loopback"
    elif section.provider == "openai" and (host := openai_compatible.foreign_host(section.base_url)):
        named += f" at {host}"
    return JudgeId(
        model=named, prompt_hash=prompt.prompt_hash(), rubric_hash=prompt.digest(_rubric(settings))
    )


def versions_of(settings: Settings) -> tuple[str, ...]:
    """Return the grader versions of the settings' judge, of grades and of comparisons; none without a judge.

    A rubric that cannot be read names no judge: nobody is to be asked here.
    """
    try:
        judge = judge_identity(settings)
    except SettingsError:
        return ()
    return () if judge is None else (grader_version(judge), grader_version(pairwise_id(judge)))


def pairwise_id(judge: JudgeId) -> JudgeId:
    """Return the identity of a judge's comparisons: the same model and rubric, another prompt."""
    return replace(judge, prompt_hash=prompt.pair_prompt_hash())


def judge_from(settings: Settings) -> Judge | None:
    """Return the judge of `[judge]`; None where no model is named there: then there is no judge.

    Raises:
        CredentialsError: a model is named and no key is set.
        SettingsError: the rubric cannot be read, or there is no such provider.
    """
    section = settings.judge
    identity = judge_identity(settings)
    if section.model is None or identity is None:
        return None
    model, base_url = section.model, section.base_url
    if section.batch and section.provider != "anthropic":
        raise SettingsError(
            f"batch in [judge] needs the Message Batches of Anthropic, and {_SETTING} is "
            f"{section.provider!r}; leave it out"
        )
    connect = connector(
        section.provider,
        setting=_SETTING,
        root=settings.root,
        purpose=anthropic.JUDGE,
        base_url=base_url,
        prices=settings.prices,
    )
    is_anthropic, is_free = section.provider == "anthropic", _is_free(settings)
    priced = section.provider in PROVIDERS and not is_free
    notes = (
        prices.doubt(model, settings.prices) if priced else None,
        anthropic.retirement(model) if is_anthropic else None,
    )
    return Judge(
        id=identity,
        model=model,
        rubric=_rubric(settings),
        user_rubric=section.rubric is not None,
        votes=section.votes,
        max_tokens=section.max_tokens,
        concurrency=section.concurrency,
        pairwise=section.pairwise,
        connect=connect,
        batches=(lambda: batches.connect(base_url=base_url, prices=settings.prices))
        if is_anthropic
        else None,
        batch=section.batch,
        free=is_free,
        notes=tuple(note for note in notes if note),
        prices=settings.prices,
    )


def _is_free(settings: Settings) -> bool:
    """Return whether the judge costs nothing: it answers on this machine."""
    section = settings.judge
    return anthropic.is_loopback(section.base_url) and section.provider in PROVIDERS


def _rubric(settings: Settings) -> str:
    named = settings.judge.rubric
    path = prompt.BUILT_IN_RUBRIC if named is None else settings.root / named
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError(f"the rubric {path} cannot be read: {why}; correct [judge] rubric") from None
    if not text.strip():
        raise SettingsError(f"the rubric {path} is empty; write down what scores 1, 2 and 3")
    return text


_FAMILIES = {
    "Claude": r"claude",
    "GPT": r"gpt|chatgpt|\bo[1-9]\b",
    "Gemini": r"gemini|gemma",
    "Llama": r"llama",
    "Mistral": r"mi[sx]tral|magistral",
    "Qwen": r"qwen|qwq",
    "DeepSeek": r"deepseek",
    "Grok": r"grok",
    "Command": r"command-",
}


def model_family(model: str) -> str | None:
    """Return the family of a model by its name; None where the name does not show it."""
    name = model.lower()
    return next((title for title, pattern in _FAMILIES.items() if re.search(pattern, name)), None)


def self_preference_warning(judge: str, candidates: Iterable[str | None]) -> str | None:
    """Return a sentence where the judge is of the family of a model it judges.

    None where no such model is known.
    """
    family = model_family(judge)
    related = sorted({model for model in candidates if model and family and model_family(model) == family})
    if not related:
        return None
    if judge in related:
        return (
            f"the judge {judge} grades its own answers: models favour them; name another model in [judge], "
            "best of another family"
        )
    return (
        f"the judge {judge} and {', '.join(related)} are of one family ({family}): models favour answers of "
        "their own family; check the judge against hand labels"
    )
