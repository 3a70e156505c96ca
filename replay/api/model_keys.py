"""The variables from which clients of models read their keys, by what an agent imports or names."""

from __future__ import annotations

import re
from collections.abc import Iterator

_GOOGLE = ("GOOGLE_API_KEY",)
_AWS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")
_AZURE = ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT")
_PROVIDERS = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "azure": _AZURE,
    "azure_openai": _AZURE,
    "google": _GOOGLE,
    "google-gla": _GOOGLE,
    "google_genai": _GOOGLE,
    "gemini": ("GEMINI_API_KEY",),
    "bedrock": _AWS,
    "mistral": ("MISTRAL_API_KEY",),
    "mistralai": ("MISTRAL_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "cohere": ("COHERE_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "together_ai": ("TOGETHER_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "huggingface": ("HF_TOKEN",),
}
"""Provider, as `provider:model` and `provider/model` name it."""
_PACKAGES = {
    "anthropic": "anthropic",
    "claude_agent_sdk": "anthropic",
    "langchain_anthropic": "anthropic",
    "openai": "openai",
    "agents": "openai",
    "langchain_openai": "openai",
    "google.genai": "google",
    "google.generativeai": "google",
    "google.adk": "google",
    "langchain_google_genai": "google",
    "mistralai": "mistral",
    "langchain_mistralai": "mistral",
    "groq": "groq",
    "langchain_groq": "groq",
    "cohere": "cohere",
    "langchain_cohere": "cohere",
    "together": "together",
    "langchain_together": "together",
    "fireworks": "fireworks",
    "langchain_fireworks": "fireworks",
    "langchain_deepseek": "deepseek",
    "langchain_xai": "xai",
    "xai_sdk": "xai",
    "langchain_aws": "bedrock",
    "anthropic.bedrock": "bedrock",
    "huggingface_hub": "huggingface",
    "langchain_huggingface": "huggingface",
    # Of npm.
    "@ai-sdk/anthropic": "anthropic",
    "@anthropic-ai/sdk": "anthropic",
    "@anthropic-ai/claude-agent-sdk": "anthropic",
    "@langchain/anthropic": "anthropic",
    "@ai-sdk/openai": "openai",
    "@openai/agents": "openai",
    "@langchain/openai": "openai",
    "@ai-sdk/azure": "azure",
    "@google/genai": "google",
    "@langchain/google-genai": "google",
    "@ai-sdk/amazon-bedrock": "bedrock",
    "@ai-sdk/mistral": "mistral",
    "@ai-sdk/groq": "groq",
    "groq-sdk": "groq",
    "@ai-sdk/cohere": "cohere",
    "@ai-sdk/xai": "xai",
    "@ai-sdk/deepseek": "deepseek",
}
_SPECIAL = {"@ai-sdk/google": ("GOOGLE_GENERATIVE_AI_API_KEY",)}
"""Packages that read a variable of their own."""
_MODEL = re.compile(r"([a-z][a-z_-]*)[:/][A-Za-z0-9]")


def keys_of_package(package: str) -> tuple[str, ...]:
    """Return the variables of the client that a package holds, by the longest known name.

    Args:
        package: `google.genai.types`, `@ai-sdk/openai`.
    """
    parts = package.split(".")
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    name = next((name for name in names if name in _PACKAGES or name in _SPECIAL), None)
    return () if name is None else _SPECIAL.get(name) or _PROVIDERS[_PACKAGES[name]]


def keys_of_class(name: str) -> tuple[str, ...]:
    """Return the variables of a client that a class of another provider's package is."""
    if name in ("AzureOpenAI", "AsyncAzureOpenAI", "AzureChatOpenAI"):
        return _AZURE
    return _AWS if name in ("AnthropicBedrock", "AsyncAnthropicBedrock", "ChatBedrock") else ()


def keys_of_text(text: str) -> Iterator[str]:
    """Yield the variables of the provider that a text such as `openai:gpt-5` or `groq/llama` names."""
    match = _MODEL.match(text) if len(text) < 80 and " " not in text and "//" not in text else None
    if match is not None:
        yield from _PROVIDERS.get(match[1], ())
