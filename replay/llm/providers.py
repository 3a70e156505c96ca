"""The provider of a model that the settings name: one of the built-in ones, or the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from replaydiff.replay.llm import anthropic, openai_compatible, own
from replaydiff.replay.llm.anthropic import Purpose
from replaydiff.replay.llm.base import Model
from replaydiff.replay.settings import Price

PROVIDERS = ("anthropic", "openai")
"""The providers that are built in."""
Connect = Callable[[], AbstractAsyncContextManager[Model]]
"""Opens a provider for the duration of the context."""


def connector(
    provider: str,
    *,
    setting: str,
    root: Path,
    purpose: Purpose,
    base_url: str | None,
    prices: Mapping[str, Price],
) -> Connect:
    """Find a provider and its key before anything is spent.

    Args:
        provider: `anthropic`, `openai`, or the name of the user's own.
        setting: the key that names it, for errors: `[judge] provider`.
        root: the folder that a path in `provider` starts from.
        purpose: what the model is called in errors.
        base_url: where the API answers; None: the provider's default.
        prices: the user's own prices, before the built-in table's.

    Returns:
        A function that opens the provider.

    Raises:
        CredentialsError: no key is set.
        SettingsError: the user's own provider cannot be loaded.
        UnknownNameError: there is no such provider.
    """
    if provider == "anthropic":
        anthropic.check_credentials(base_url, purpose)
        return lambda: anthropic.connect(purpose=purpose, base_url=base_url, prices=prices)
    if provider == "openai":
        openai_compatible.check_credentials(base_url, purpose)
        return lambda: openai_compatible.connect(purpose=purpose, base_url=base_url, prices=prices)
    method = own.load(provider, root, setting, PROVIDERS)
    return lambda: own.connect(method)
