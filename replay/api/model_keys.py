"""The variables from which clients of models read their keys, by what an agent imports or names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class _Client(NamedTuple):
    """A client of models: the variables it reads, its provider's names, and packages that hold one."""

    keys: str
    names: str
    """As `provider:model` and `provider/model` name it."""
    packages: str = ""
    """Of Python and of npm."""


_CLIENTS = (
    _Client(
        "ANTHROPIC_API_KEY",
        "anthropic",
        "anthropic claude_agent_sdk langchain_anthropic @ai-sdk/anthropic @anthropic-ai/sdk "
        "@anthropic-ai/claude-agent-sdk @langchain/anthropic",
    ),
    _Client(
        "OPENAI_API_KEY",
        "openai",
        "openai agents langchain_openai @ai-sdk/openai @openai/agents @langchain/openai",
    ),
    _Client("AZURE_OPENAI_API_KEY AZURE_OPENAI_ENDPOINT", "azure azure_openai", "@ai-sdk/azure"),
    _Client(
        "GOOGLE_API_KEY",
        "google google-gla google_genai",
        "google.genai google.generativeai google.adk langchain_google_genai @google/genai "
        "@langchain/google-genai",
    ),
    _Client("GOOGLE_GENERATIVE_AI_API_KEY", "", "@ai-sdk/google"),
    _Client("GEMINI_API_KEY", "gemini"),
    _Client(
        "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION",
        "bedrock",
        "langchain_aws anthropic.bedrock @ai-sdk/amazon-bedrock",
    ),
    _Client("MISTRAL_API_KEY", "mistral mistralai", "mistralai langchain_mistralai @ai-sdk/mistral"),
    _Client("GROQ_API_KEY", "groq", "groq langchain_groq @ai-sdk/groq groq-sdk"),
    _Client("COHERE_API_KEY", "cohere", "cohere langchain_cohere @ai-sdk/cohere"),
    _Client("TOGETHER_API_KEY", "together together_ai", "together langchain_together"),
    _Client("FIREWORKS_API_KEY", "fireworks", "fireworks langchain_fireworks"),
    _Client("DEEPSEEK_API_KEY", "deepseek", "langchain_deepseek @ai-sdk/deepseek"),
    _Client("XAI_API_KEY", "xai", "langchain_xai xai_sdk @ai-sdk/xai"),
    _Client("OPENROUTER_API_KEY", "openrouter"),
    _Client("HF_TOKEN", "huggingface", "huggingface_hub langchain_huggingface"),
)
_PROVIDERS = {name: tuple(client.keys.split()) for client in _CLIENTS for name in client.names.split()}
_PACKAGES = {name: tuple(client.keys.split()) for client in _CLIENTS for name in client.packages.split()}
_MODEL = re.compile(r"([a-z][a-z_-]*)[:/][A-Za-z0-9]")


def keys_of_package(package: str) -> tuple[str, ...]:
    """Return the variables of the client that a package holds, by the longest known name.

    Args:
        package: `google.genai.types`, `@ai-sdk/openai`.
    """
    parts = package.split(".")
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((_PACKAGES[name] for name in names if name in _PACKAGES), ())


def keys_of_class(name: str) -> tuple[str, ...]:
    """Return the variables of a client that a class of another provider's package is."""
    if name in ("AzureOpenAI", "AsyncAzureOpenAI", "AzureChatOpenAI"):
        return _PROVIDERS["azure"]
    is_bedrock = name in ("AnthropicBedrock", "AsyncAnthropicBedrock", "ChatBedrock")
    return _PROVIDERS["bedrock"] if is_bedrock else ()


def keys_of_text(text: str) -> Iterator[str]:
    """Yield the variables of the provider that a text such as `openai:gpt-5` or `groq/llama` names."""
    match = _MODEL.match(text) if len(text) < 80 and " " not in text and "//" not in text else None
    if match is not None:
        yield from _PROVIDERS.get(match[1], ())
