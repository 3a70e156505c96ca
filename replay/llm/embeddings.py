"""Vectors of texts that are near each other where texts mean the same, by a model that the settings name.

An endpoint of OpenAI's form (`POST /embeddings`), or a function of a package on this machine that gives a
model with `encode(texts)`, as sentence-transformers have it. Vectors have length 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from replaydiff.replay.errors import ReplayError, SettingsError, UnavailableError
from replaydiff.replay.event_loop import run_sync
from replaydiff.replay.functions import load_function
from replaydiff.replay.llm.anthropic import Purpose, is_loopback
from replaydiff.replay.llm.base import PASSING, RETRIES, Backoff, retry_after
from replaydiff.replay.llm.openai_compatible import endpoint, foreign_host
from replaydiff.replay.settings import Settings

Vector = list[float]
_SETTING = "[diff] embedding"
_PURPOSE = Purpose(model="the embedding model", without=f"leave {_SETTING} out", setting=_SETTING)
_BATCH = 64
_MOST_CHARACTERS = 8_000
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedder:
    """A model that makes vectors."""

    id: str
    """What its vectors are kept by: the model, and the host where that is not OpenAI's."""
    encode: Callable[[Sequence[str]], Any]

    def vectors(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vector of each text.

        Raises:
            ReplayError: the model gave none.
        """
        vectors: list[Vector] = []
        for first in range(0, len(texts), _BATCH):
            batch = [text[:_MOST_CHARACTERS] for text in texts[first : first + _BATCH]]
            try:
                rows = np.asarray(self.encode(batch), dtype=float)
            except ReplayError:
                raise
            except Exception as error:  # noqa: BLE001 - the package's code may raise anything
                raise UnavailableError(
                    f"{self.id} made no vectors: {type(error).__name__}: {error}"
                ) from None
            lengths = np.sqrt(np.sum(rows**2, axis=-1, keepdims=True))
            if (
                rows.ndim != 2
                or len(rows) != len(batch)
                or not np.isfinite(lengths).all()
                or not lengths.all()
            ):
                raise UnavailableError(f"{self.id} gave no vector for each of {len(batch)} texts")
            vectors += (rows / lengths).tolist()
        return vectors


def embedding_id(settings: Settings) -> str:
    """Return what the vectors of the settings' model are kept by; empty where no model is named."""
    name = settings.diff.embedding or ""
    host = None if _is_function(settings) else foreign_host(settings.diff.embedding_url)
    return f"{name} at {host}" if host else name


def embedder_from(settings: Settings) -> Embedder | None:
    """Return the settings' model; None where no model is named.

    Raises:
        CredentialsError: the endpoint needs a key, and none is set.
        SettingsError: the function cannot be loaded, or the address is none.
        UntrustedError: the function is of a folder that the user has not trusted.
    """
    name, identity = settings.diff.embedding, embedding_id(settings)
    if not name:
        return None
    if not _is_function(settings):
        url, headers = endpoint(settings.diff.embedding_url, _PURPOSE)
        return Embedder(id=identity, encode=lambda texts: _ask(f"{url}/embeddings", headers, name, texts))
    try:
        model = load_function(name, settings.root, _SETTING)()
    except ReplayError:
        raise
    except Exception as error:  # noqa: BLE001 - the package's code may raise anything
        raise SettingsError(
            f"{_SETTING} = {name!r} gives no model: {type(error).__name__}: {error}"
        ) from None
    if not callable(getattr(model, "encode", None)):
        raise SettingsError(f"{_SETTING} = {name!r} must return a model with encode(texts)")
    return Embedder(id=identity, encode=lambda texts: model.encode([*texts]))


def _is_function(settings: Settings) -> bool:
    return ":" in (settings.diff.embedding or "") and settings.diff.embedding_url is None


def _ask(url: str, headers: dict[str, str], model: str, texts: Sequence[str]) -> list[Vector]:
    """Ask an endpoint once, and again after what may pass."""
    import httpx

    problem, backoff = "", Backoff()
    with httpx.Client(headers=headers, timeout=_TIMEOUT_S, trust_env=not is_loopback(url)) as client:
        for attempt in range(1, RETRIES + 2):
            wait: float | None = None
            try:
                answer = client.post(url, json={"model": model, "input": [*texts]})
                if answer.status_code == 200:
                    data = sorted(answer.json()["data"], key=lambda row: row["index"])
                    return [row["embedding"] for row in data]
                problem = f"{answer.status_code} {' '.join(answer.text.split())[:200]}"
                wait = retry_after(answer.headers)
                if answer.status_code not in PASSING and answer.status_code < 500:
                    raise SettingsError(f"{url} refused the texts: {problem}", hint=f"correct {_SETTING}")
            except httpx.TransportError as error:
                problem = " ".join(str(error).split()) or type(error).__name__
            if attempt <= RETRIES:
                run_sync(backoff.pause(attempt, wait, f"{url}: {problem}"))
    raise UnavailableError(f"{url} gave no vectors: {problem} ({RETRIES + 1} tries)")
